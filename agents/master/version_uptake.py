"""Since when each agent counts by which version of a job, and what windows lack because it does not do so sooner. Pure.

A version counts from an interval on that agents should hear of before it begins. One that hears of it too late has
reduced events by the version before, which nobody can use: it says from which interval on it counts by the new one
(`elf.agents.worker.worker.Worker.adopt`), and labels name it in windows that reach back further. Until it has said so
it is named in all, for nobody knows. OVERLAY 6.3: an agent that learned too late counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from elf.agents.completeness.lacks import Cause, Lack
from elf.agents.completeness.runs import FOREVER
from elf.agents.jobs.versions import Versions

#: Version -> agent id -> first interval of which the agent counts all its events by it.
Since = Mapping[int, Mapping[str, int]]
#: After every interval: of an agent that has not said yet since when it counts by a version.
NEVER_YET = FOREVER


def with_since(known: Since, told: Mapping[str, Mapping[int, int]], versions: Versions) -> Since:
    """Add what agents tell of the versions that are remembered, and forget the others."""
    return {
        number: {**known.get(number, {}), **{agent: at[number] for agent, at in told.items() if number in at}}
        for number in versions.told
    }


def taking_part(roster: Iterable[str], retired: Mapping[str, int | None], lost: Mapping[str, int]) -> dict[str, int]:
    """Return the agents that a job counts or has counted, each with the last interval that may have anything of it.

    Args:
        roster: those expected now.
        retired: those expected no more, with the last interval that had them on the roster.
        lost: those whose disks are lost, with the last interval that anything of them was counted in.
    """
    gone = {agent: NEVER_YET if until is None else until for agent, until in retired.items()}
    return {**lost, **gone, **dict.fromkeys(roster, NEVER_YET)}


def begun(since: Since, agents: Mapping[str, int], versions: Versions, first: int, last: int) -> list[Lack]:
    """Return what is lacking of a window as agents do not count all of it by its version.

    Args:
        since: what agents have told.
        agents: whose data may be in it, as `taking_part` has them.
        versions: of the job.
        first: the window's first interval; where its version's windows begin later, all agents lack what is before.
        last: its last.
    """
    now = versions.at(last).version
    found = [(agent, now.begins) for agent, until in agents.items() if first < now.begins <= until]
    for version, _ in versions.all:
        # All since the PAOs are of this kind, however short they counted: the later ones build on them.
        if version.is_told and version.number >= now.pao_kind and version.since <= last:
            told, due = since.get(version.number, {}), max(first, version.since)
            # Also who is expected no more: what it counted by another version was left out.
            found += [
                (agent, at) for agent, until in agents.items() if until >= due < (at := told.get(agent, NEVER_YET))
            ]
    # It has all from there on; what it has of before is not known.
    return [Lack(agent, first, at - 1, Cause.VERSION) for agent, at in found]


def paused(versions: Versions, after: int, through: int) -> int:
    """Return how many intervals of a run, (after, through], count nothing because the job was paused."""
    return sum(max(0, min(through, each.last) - max(after, each.first - 1)) for each in versions.pauses)
