"""Columns of words: constant ones behave as others do, and stay constant where they can."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import columns

values = st.lists(st.integers(0, 3), min_size=1, max_size=12)


def test_a_constant_takes_no_memory_but_reads_like_an_array() -> None:
    column = columns.constant(2**64 - 1, 1_000_000)
    assert columns.is_constant(column)
    assert column.shape == (1_000_000,)
    assert int(column[999_999]) == 2**64 - 1
    assert columns.is_constant(column[5:9])
    assert columns.constant(1, 0).tolist() == []


@given(values)
def test_settle_finds_constants(numbers: list[int]) -> None:
    column = columns.simplified(np.array(numbers, dtype=np.uint64))
    assert column.tolist() == numbers
    assert columns.is_constant(column) == (len(set(numbers)) == 1)


@given(values, st.data())
def test_take_is_the_same_for_constants(numbers: list[int], choice: st.DataObject) -> None:
    places = st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=9)
    rows = np.array(choice.draw(places), dtype=np.int64)
    column = columns.simplified(np.array(numbers, dtype=np.uint64))
    assert columns.take(column, rows).tolist() == [numbers[row] for row in rows]
    assert columns.is_constant(columns.take(column, rows)) == columns.is_constant(column)


@given(st.lists(values, min_size=1, max_size=4))
def test_join_keeps_equal_constants_constant(parts: list[list[int]]) -> None:
    joined = columns.join([columns.simplified(np.array(part, dtype=np.uint64)) for part in parts])
    numbers = [number for part in parts for number in part]
    assert joined.tolist() == numbers
    assert columns.is_constant(joined) == (len(set(numbers)) == 1)


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 5), min_size=1, max_size=12))
def test_rows_are_equal_if_all_their_words_are_also_wide_ones(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, dtype=np.uint64)
    narrow = [columns.simplified(np.ascontiguousarray(table[:, number])) for number in range(5)]
    left, right = np.divmod(np.arange(len(rows) ** 2), len(rows))
    wanted = [rows[a] == rows[b] for a, b in zip(left, right, strict=True)]
    assert columns.equal(narrow, left, right).tolist() == wanted
    assert columns.equal([*narrow[:2], table[:, 2:]], left, right).tolist() == wanted


def test_a_wide_column_has_several_words_a_row() -> None:
    wide = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.uint64)
    assert columns.width([columns.constant(0, 3), wide]) == 3
    assert columns.take(wide, np.array([1])).tolist() == [[0, 1]]
    one, other, same = columns.sortable(wide)
    assert one == same != other
