"""Runs of intervals that a worker remembers for labels, bounded: (after, through] each, ascending. Pure."""

from __future__ import annotations

from agents.payload import Runs

#: Runs whose late events a worker still knows to leave out. Those of older ones count, under labels that name us.
DROPPED_MAX = 256
#: Losses that a worker has to tell at a time: the master keeps more.
LOST_MAX = 64


def is_in(runs: Runs, interval: int) -> bool:
    """Tell whether an interval is in one of the runs."""
    return any(after < interval <= through for after, through in runs)


def with_dropped(runs: Runs, run: tuple[int, int]) -> Runs:
    """Add a run after the others; it is part of the last one where it continues it. The oldest are forgotten."""
    if runs and runs[-1][1] == run[0]:
        return (*runs[:-1], (runs[-1][0], run[1]))
    return (*runs[1 - DROPPED_MAX :], run)


def with_loss(runs: Runs, run: tuple[int, int]) -> Runs:
    """Add a run; when there are too many the last one spans two, which is pessimistic, not wrong."""
    if len(runs) < LOST_MAX:
        return (*runs, run)
    return (*runs[:-1], (min(runs[-1][0], run[0]), max(runs[-1][1], run[1])))
