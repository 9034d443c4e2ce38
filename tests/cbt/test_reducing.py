"""Reducing the states of equal keys, against Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt.aggregates import AggregateOverflow, Merge, States
from elf.cbt.reducing import reducer
from elf.cbt.rows import State

int64 = st.integers(-(2**63), 2**63 - 1)


def segments(values: list[list[Any]]) -> tuple[list[Any], np.ndarray]:
    """Runs of values one after the other, and where each begins."""
    return [each for run in values for each in run], np.cumsum([0, *map(len, values[:-1])])


def one(how: Any, state: Any, starts: np.ndarray) -> list[Any]:
    (merged,) = reducer(["s"], [Merge(("s",), how)])([state], starts)
    return merged.to_list() if isinstance(merged, pl.Series) else merged.tolist()


def runs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(values, min_size=1, max_size=5), min_size=1, max_size=6)


@settings(max_examples=200)
@given(runs(int64 | st.integers(-9, 9)))
def test_integer_sums_are_exact_or_an_overflow(values: list[list[int]]) -> None:
    flat, starts = segments(values)
    sums = [sum(run) for run in values]
    if all(-(2**63) <= each < 2**63 for each in sums):
        assert one("sum", np.array(flat, dtype=np.int64), starts) == sums
    else:
        with pytest.raises(AggregateOverflow, match="column 's'"):
            one("sum", np.array(flat, dtype=np.int64), starts)


@given(runs(int64))
def test_integers_have_least_and_greatest(values: list[list[int]]) -> None:
    flat, starts = segments(values)
    assert one("min", np.array(flat, dtype=np.int64), starts) == [min(run) for run in values]
    assert one("max", np.array(flat, dtype=np.int64), starts) == [max(run) for run in values]


@given(runs(st.floats()))
def test_nan_is_the_greatest_double(values: list[list[float]]) -> None:
    flat, starts = segments(values)
    for how, pick in (("min", min), ("max", max)):
        wanted = [pick(run, key=lambda value: (math.isnan(value), value)) for run in values]
        np.testing.assert_array_equal(one(how, np.array(flat), starts), wanted)


@given(runs(st.text(max_size=3)))
def test_strings_compare_by_their_bytes(values: list[list[str]]) -> None:
    flat, starts = segments(values)
    series = pl.Series(flat, dtype=pl.String)
    assert one("min", series, starts) == [min(run, key=str.encode) for run in values]
    assert one("max", series, starts) == [max(run, key=str.encode) for run in values]


def test_flags_merge_by_max() -> None:
    assert one("max", np.array([0, 1, 0, 0], dtype=np.uint8), np.array([0, 2])) == [1, 0]


def test_columns_of_one_merge_go_through_their_function_together() -> None:
    def latest(left: States, right: States) -> States:
        take = right[0] > left[0]
        return np.where(take, right[0], left[0]), np.where(take, right[1], left[1])

    reduce = reducer(["n", "at", "word"], [Merge(("at", "word"), latest), Merge(("n",), "sum")])
    states: list[State] = [np.array([1, 2, 4]), np.array([5, 9, 7]), pl.Series(["b", "a", "c"])]
    assert [list(state) for state in reduce(states, np.array([0]))] == [[7], [9], ["a"]]


@pytest.mark.parametrize("merges", [[], [Merge(("a",), "sum")], [Merge(("a", "b"), "sum"), Merge(("b",), "sum")]])
def test_each_column_has_to_merge_once(merges: list[Merge]) -> None:
    with pytest.raises(ValueError, match="have to name each of the columns"):
        reducer(["a", "b"], merges)
