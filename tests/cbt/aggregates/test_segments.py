"""Segmented merging against one pair at a time, with a merge that is associative but not commutative."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt.aggregates import States, segmented
from elf.cbt.aggregates.grouped import reduce_groups

lengths = st.lists(st.integers(1, 9) | st.integers(1, 200), min_size=1, max_size=30)


def bounds(sizes: list[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *sizes[:-1]], dtype=np.int64)


@given(lengths)
def test_rows_are_joined_in_order(sizes: list[int]) -> None:
    texts = np.empty(sum(sizes), dtype=object)
    texts[:] = [f"{row}," for row in range(texts.size)]
    counts = np.ones(texts.size, dtype=np.int64)
    before = texts.copy()
    joined, total = segmented((texts, counts), bounds(sizes), lambda a, b: (a[0] + b[0], a[1] + b[1]))
    starts = bounds(sizes).tolist()
    meant = ["".join(before[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    assert joined.tolist() == meant
    assert total.tolist() == sizes
    assert (texts == before).all(), "the input is not changed"


@given(lengths)
def test_each_row_is_merged_once(sizes: list[int]) -> None:
    calls: list[int] = []

    def combine(left: States, right: States) -> States:
        calls.append(left[0].size)
        return (left[0] + right[0],)

    values = np.arange(sum(sizes), dtype=np.int64)
    (sums,) = segmented((values,), bounds(sizes), combine)
    assert (sums == np.add.reduceat(values, bounds(sizes))).all()
    assert sum(calls) == sum(sizes) - len(sizes)
    assert len(calls) == int(np.ceil(np.log2(max(sizes))))


@pytest.mark.parametrize("rows", [0, 5])
def test_groups_without_values_get_the_empty_states(rows: int) -> None:
    frame = pl.DataFrame({"k": [1] * rows, "v": [None] * rows}, schema={"k": pl.Int64, "v": pl.Float64})
    states = {"n": pl.Int64(), "x": pl.Float64()}
    both = reduce_groups(pl.col("v"), states, (7, 0.5), lambda values, starts: (starts, values[starts])).alias("s")
    assert frame.group_by("k").agg(both).unnest("s").rows() == [(1, 7, 0.5)] * min(rows, 1)
    assert frame.select(both).unnest("s").rows() == [(7, 0.5)]
