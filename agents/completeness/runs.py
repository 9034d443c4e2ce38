"""Sets of intervals as runs, and their two ways on the wire and on disk. Pure.

Verdicts, commits and losses are written by what they come after, gaps and backfills by where they begin; all is
computed in the first form. A set is canonical: its runs are ascending, apart and not empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from elf.overlay.contract import NEVER
from elf.overlay.fields import Interval

#: Runs (after, through], whose first number is not in them.
RunsAfter: TypeAlias = tuple[tuple[Interval, Interval], ...]
#: Runs [first, last], both ends included.
RunsFrom: TypeAlias = tuple[tuple[Interval, Interval], ...]

#: After every interval.
FOREVER = -NEVER


def after(runs: RunsFrom) -> RunsAfter:
    """Write runs [first, last] by what they come after."""
    return tuple((first - 1, last) for first, last in runs)


def ends(runs: RunsAfter) -> RunsFrom:
    """Write runs (after, through] by where they begin."""
    return tuple((after + 1, through) for after, through in runs)


def union(*sets: RunsAfter) -> RunsAfter:
    """Return the intervals that are in any set, of runs in whatever order. O(runs log runs)."""
    if len(sets) == 1 and len(sets[0]) == 1 and sets[0][0][0] < sets[0][0][1]:
        return sets[0]  # nearly all there are
    found: list[tuple[int, int]] = []
    for after, through in sorted(run for runs in sets for run in runs if run[0] < run[1]):
        if found and after <= found[-1][1]:
            found[-1] = found[-1][0], max(through, found[-1][1])
        else:
            found.append((after, through))
    return tuple(found)


def minus(runs: RunsAfter, others: RunsAfter) -> RunsAfter:
    """Return the intervals of a set that are not in another one. O(runs of both)."""
    for first, last in others:
        parts = [((after, min(through, first)), (max(after, last), through)) for after, through in runs]
        runs = tuple(part for pair in parts for part in pair if part[0] < part[1])
    return runs


def within(runs: RunsAfter, after: int, through: int) -> RunsAfter:
    """Return the intervals of a set that lie in (after, through]."""
    if after >= through:
        return ()
    return tuple([(max(first, after), min(last, through)) for first, last in runs if first < through and last > after])


def holds(runs: RunsAfter, interval: int) -> bool:
    """Tell whether an interval is in a set."""
    return any(after < interval <= through for after, through in runs)


def length(runs: RunsAfter) -> int:
    """Count the intervals of a set."""
    return sum(through - after for after, through in runs)


def bounded(runs: Sequence[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
    """Return at most so many ascending runs: of more, the oldest become one that spans them."""
    extra = len(runs) - most
    if extra <= 0:
        return tuple(runs)
    joined = runs[: extra + 1]
    return ((joined[0][0], max(end for _, end in joined)), *runs[extra + 1 :])
