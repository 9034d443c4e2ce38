"""Runs are sets of intervals, whatever the order they come in; of too many the oldest hold what is between."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.runs import (
    FOREVER,
    RunsAfter,
    after,
    bounded,
    ends,
    holds,
    length,
    minus,
    union,
    within,
)
from elf.overlay.contract import NEVER

MOST = 40
told = st.lists(st.tuples(st.integers(-1, MOST), st.integers(-1, MOST)), max_size=8).map(tuple)
sets = told.map(union)
bounds = st.integers(-2, MOST + 1)


def intervals(runs: RunsAfter) -> set[int]:
    return {each for after, through in runs for each in range(after + 1, through + 1)}


def is_canonical(runs: RunsAfter) -> bool:
    return all(one[1] < other[0] for one, other in itertools.pairwise(runs)) and all(a < t for a, t in runs)


@given(st.lists(told, max_size=3))
def test_a_union_holds_what_any_has_and_is_canonical(many: list[RunsAfter]) -> None:
    found = union(*many)
    assert intervals(found) == set[int]().union(*map(intervals, many)) and is_canonical(found)


@given(sets, sets, bounds, bounds)
def test_a_set_less_another_and_within_bounds(runs: RunsAfter, others: RunsAfter, first: int, last: int) -> None:
    left, inside = minus(runs, others), within(runs, first, last)
    assert intervals(left) == intervals(runs) - intervals(others) and is_canonical(left)
    assert intervals(inside) == {each for each in intervals(runs) if first < each <= last} and is_canonical(inside)
    assert within(runs, NEVER, FOREVER) == runs and within(inside, first, last) == inside


@given(sets)
def test_both_ways_of_writing_hold_the_same(runs: RunsAfter) -> None:
    assert {each for first, last in ends(runs) for each in range(first, last + 1)} == intervals(runs)
    assert after(ends(runs)) == runs and length(runs) == len(intervals(runs))
    assert {each for each in range(-1, MOST + 1) if holds(runs, each)} == intervals(runs)


@given(sets, st.integers(1, 4))
def test_what_is_bounded_holds_at_least_as_much(runs: RunsAfter, most: int) -> None:
    few = bounded(runs, most)
    assert len(few) == min(len(runs), most) and intervals(few) >= intervals(runs) and is_canonical(few)
    assert not few or (few[0][0], few[-1]) == (runs[0][0], runs[-1] if most > 1 else few[-1])


@pytest.mark.parametrize("last", [3, FOREVER])
def test_runs_without_a_beginning_or_an_end_are_runs(last: int) -> None:
    assert union(((NEVER, last),), ((2, 3),)) == ((NEVER, last),)
    assert holds(((NEVER, last),), 3) and not holds(((NEVER, 3),), 4)
