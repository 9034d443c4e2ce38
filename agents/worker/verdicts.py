"""What verdicts say of a worker's own account of itself. Pure.

Sealed comes before sent: an agent's snapshot is on its disk before any other agent hears of it. So a master that has
counted it in intervals that it never sealed has met a later copy of its data folder than this one, which was put back
from a backup or a disk image. Its lines up to there are counted, and must not be read into results again.
"""

from __future__ import annotations

from msgspec.structs import replace

from elf.agents.worker.state import Progress
from elf.overlay.contract import NEVER, Verdict


def counted(progress: Progress, verdict: Verdict, told: int | None, told_since: int | None) -> Progress:
    """Return how far a worker is whose snapshots up to a verdict's interval the master has.

    Args:
        progress: how far it was.
        verdict: that they are not missing.
        told: the first snapshot that tells what a crash has lost.
        told_since: the first snapshot that tells since when it counts by which versions.
    """
    progress = progress.without_gone() if told is not None and verdict.through >= told else progress
    since, partial_before = progress.since, None
    if progress.settled is None:
        # The first one says how far the job was when we began: what it counted of this agent may be what a former
        # worker sealed, and what we have to say would be lost with a snapshot that came too late.
        partial_before = progress.partial_before
    elif told_since is not None and verdict.through >= told_since:
        since = {}
    return replace(progress, settled=verdict.through, partial_before=partial_before, since=since)


def is_set_back(progress: Progress, verdict: Verdict) -> bool:
    """Tell whether a verdict counts an agent in more than it has ever sealed, as far as its disk knows.

    Ever includes this run: a neighbour's copy of what it has sealed may be counted before it is told of anything.
    """
    return not verdict.missing and progress.sealed is not None and verdict.through > progress.sealed


def is_overtaken(progress: Progress) -> bool:
    """Tell whether intervals were settled that a worker has not sealed: it was leapt over, and may be so again.

    Whoever is a little later than all others each time, by its clock, would never seal anything any more.
    """
    return progress.settled is not None and (progress.sealed is None or progress.settled > progress.sealed)


def left_out(progress: Progress, verdict: Verdict) -> Progress:
    """Return how a worker that was set back goes on: without what was counted, which is all it can tell of it.

    Lines that came too late to be counted before, or that are gone from the log, are missing: labels have a gap there.
    """
    assert progress.sealed is not None
    through = max(verdict.through, NEVER if progress.counted is None else progress.counted)
    return replace(progress, counted=through, gaps=(*progress.gaps, (progress.sealed + 1, verdict.through)))
