"""Where the results of a job that reads its last one begin: where all its agents have all events. Pure.

A result rests on all since its chain began, so what an agent had read before the job was published would be lacking for
ever. Agents say from which interval on they have all events (`Notes.partial_before`). As long as nothing of a chain is
counted, it begins with the latest of these: no clock says so, but what each of them has read. Labels do not rely on it;
they name whoever has not all since the beginning, whatever that is.
"""

from __future__ import annotations

from collections.abc import Mapping

from elf.agents.jobs.versions import Versions
from elf.overlay.contract import NEVER, Commit

#: How long after a job was published, in event time, its results begin at the latest: its agents hear of it within
#: seconds. One whose log is further ahead is named instead, for all others would wait for it.
BEGINS_MS_MAX = 60_000


def first_interval(known: int, commit: Commit, told: Mapping[str, int], versions: Versions) -> int:
    """Return the first interval of a job's windows, as it is known with a commit.

    Args:
        known: as it was before; NEVER: they have all there is.
        commit: the first one of the job, or a later one.
        told: agents of the commit that began in the middle of their source -> first interval of which they have all.
        versions: of the job.
    """
    if commit.previous != NEVER and commit.previous >= known:
        return known
    version, plan = versions.all[0]
    latest = (version.made_ms + BEGINS_MS_MAX) // plan.interval_ms + 1
    return max([known, *(first for first in told.values() if first <= latest)])
