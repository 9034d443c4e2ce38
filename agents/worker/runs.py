"""Runs of intervals, in the two ways that they are written, and those that a worker remembers for labels. Pure.

Verdicts and commits go by what they come after, gaps and backfills by where they begin: a function says in its name,
or by the type that it takes, which of the two it means.
"""

from __future__ import annotations

from typing import TypeAlias

from elf.overlay.fields import Interval

#: Runs (after, through], whose first number is not in them.
RunsAfter: TypeAlias = tuple[tuple[Interval, Interval], ...]
#: Runs [first, last], both ends included.
RunsFrom: TypeAlias = tuple[tuple[Interval, Interval], ...]

#: Runs whose late events a worker still knows to leave out. Those of older ones count, under labels that name us.
DROPPED_MAX = 256
#: Losses that a worker has to tell at a time: the master keeps more.
LOST_MAX = 64


def in_runs_after(runs: RunsAfter, interval: int) -> bool:
    """Tell whether an interval is in one of some runs (after, through]."""
    return any(after < interval <= through for after, through in runs)


def in_runs_from(runs: RunsFrom, interval: int) -> bool:
    """Tell whether an interval is in one of some runs [first, last]."""
    return any(first <= interval <= last for first, last in runs)


def with_dropped(runs: RunsAfter, run: tuple[int, int]) -> RunsAfter:
    """Add a run after the others; it is part of the last one where it continues it. The oldest are forgotten."""
    if runs and runs[-1][1] == run[0]:
        return (*runs[:-1], (runs[-1][0], run[1]))
    return (*runs[1 - DROPPED_MAX :], run)


def with_loss(runs: RunsAfter, run: tuple[int, int]) -> RunsAfter:
    """Add a run; when there are too many the last one spans two, which is pessimistic, not wrong."""
    if len(runs) < LOST_MAX:
        return (*runs, run)
    return (*runs[:-1], (min(runs[-1][0], run[0]), max(runs[-1][1], run[1])))
