"""Counts of values by column: of runs of intervals, as agents tell them, and of panes and windows, as labels do. Pure.

They say which values of a column did not fit its type. Like gaps they are of nobody in particular and add up, so they
may be added once only. A tally that is bounded counts at least as many, wherever anybody can still ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeAlias

import msgspec

from elf.agents.completeness.lacks import RUNS_MAX
from elf.overlay.fields import Interval

#: Most that one record counts of anything; more is not to be told from this, whatever others say.
COUNT_MAX = 1 << 40
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
#: Runs [first, last], both ends included, ascending, with how many values each has, nobody knows where in it.
Tally: TypeAlias = tuple[tuple[Interval, Interval, Count], ...]
#: Column -> tally; none of them empty.
Tallies: TypeAlias = Mapping[str, Tally]
#: (column, how many), ascending by column, each at least one.
Counts: TypeAlias = tuple[tuple[str, int], ...]

#: Columns remembered by name; those beyond are counted under one that no query can read.
COLUMNS_MAX = 256
OTHERS = "..."


def tallied(told: Iterable[tuple[str, int, int, int]]) -> dict[str, Tally]:
    """Add up (column, first, last, count), in whatever order. O(told log told)."""
    columns: dict[str, dict[tuple[int, int], int]] = {}
    for column, first, last, count in told:
        if count:
            runs = columns.setdefault(column, {})
            runs[first, last] = min(runs.get((first, last), 0) + count, COUNT_MAX)
    return {
        column: tuple((first, last, count) for (first, last), count in sorted(runs.items()))
        for column, runs in sorted(columns.items())
    }


def added(one: Tallies, other: Tallies) -> Tallies:
    """Return what both count."""
    return tallied([*_all(one), *_all(other)]) if one and other else one or other


def within(tallies: Tallies, first: int, last: int) -> Tallies:
    """Return what is counted in the intervals [first, last]; runs that reach into them are whole."""
    return tallied(each for each in _all(tallies) if each[1] <= last and each[2] >= first)


def moved(tallies: Tallies, by: int) -> Tallies:
    """Return the same of intervals that are numbered otherwise."""
    return tallied((column, first + by, last + by, count) for column, first, last, count in _all(tallies))


def without(tallies: Tallies, through: int) -> Tallies:
    """Return the runs that reach beyond an interval."""
    return tallied(each for each in _all(tallies) if each[2] > through) if tallies else tallies


def ended(tallies: Tallies, through: int) -> Tallies:
    """Return the other ones: the runs that end with an interval, or before it."""
    return tallied(each for each in _all(tallies) if each[2] <= through) if tallies else tallies


def bounded(tallies: Tallies, runs_max: int = RUNS_MAX) -> Tallies:
    """Return tallies of a bounded size, which say as much and perhaps more; `runs_max`: of a column."""
    names = sorted(tallies)
    if len(names) > COLUMNS_MAX:
        named = {*names[: COLUMNS_MAX - 1]}
        tallies = tallied((column if column in named else OTHERS, *run) for column, run in _runs(tallies))
    return {column: _bounded(runs, runs_max) for column, runs in tallies.items()}


def _bounded(runs: Tally, runs_max: int) -> Tally:
    extra = len(runs) - runs_max
    if extra <= 0:
        return runs
    oldest = runs[: extra + 1]
    count = min(sum(count for _, _, count in oldest), COUNT_MAX)
    return ((oldest[0][0], max(last for _, last, _ in oldest), count), *runs[extra + 1 :])


def _all(tallies: Tallies) -> Iterable[tuple[str, int, int, int]]:
    return ((column, *run) for column, run in _runs(tallies))


def _runs(tallies: Tallies) -> Iterable[tuple[str, tuple[int, int, int]]]:
    return ((column, run) for column, runs in tallies.items() for run in runs)


def totals(tallies: Tallies) -> Counts:
    """Return how many values there are of each column."""
    return tuple(sorted((column, sum(count for _, _, count in runs)) for column, runs in tallies.items()))


def summed(counts: Iterable[Counts]) -> Counts:
    """Return the sum of counts, column by column."""
    return _combined(counts, lambda one, other: one + other)


def most(counts: Iterable[Counts]) -> Counts:
    """Return the most that any of some counts says, column by column."""
    return _combined(counts, max)


def _combined(counts: Iterable[Counts], combine: Callable[[int, int], int]) -> Counts:
    found: dict[str, int] = {}
    for each in counts:
        for column, count in each:
            found[column] = combine(found[column], count) if column in found else count
    return tuple(sorted(found.items()))
