"""Keys as words: two keys have the same words if and only if SQL's GROUP BY has them in one group."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt import columns
from elf.cbt.hashing import WIDE_WORDS
from elf.cbt.words import ORDER_MASK, WIDTHS, KeyLayout

floats = st.none() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, 5e-324]) | st.floats()
TYPES: list[tuple[pl.DataType, st.SearchStrategy[Any]]] = [
    (pl.String(), st.none() | st.sampled_from(["", "\0", "a", "a\0", "b" * 16, "b" * 17, "c" * 700, "é"])),
    (pl.Int64(), st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])),
    (pl.Int32(), st.none() | st.sampled_from([0, 2**31 - 1, -(2**31)])),
    (pl.Boolean(), st.none() | st.booleans()),
    (pl.Float64(), floats),
    (pl.Date(), st.none() | st.dates()),
    (pl.Datetime("us"), st.none() | st.datetimes(datetime.datetime(1700, 1, 1))),
    (pl.UInt32(), st.none() | st.sampled_from([0, 2**32 - 1])),
    (pl.String(), st.none() | st.sampled_from(["", "a", "aa", "c" * 300])),
]
LAYOUT = KeyLayout((("interval", pl.Int64()), *((f"k{number}", dtype) for number, (dtype, _) in enumerate(TYPES))))
rows = st.lists(st.tuples(st.integers(-1, 1), *(values for _, values in TYPES)), min_size=1, max_size=12)


def frame(values: list[tuple[Any, ...]], layout: KeyLayout = LAYOUT) -> pl.DataFrame:
    pairs = zip(layout.columns, zip(*values, strict=True), strict=True)
    return pl.DataFrame([pl.Series(name, list(column), dtype=dtype) for (name, dtype), column in pairs])


def identity(value: Any) -> Any:
    """Equal for values of one group."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@settings(max_examples=150)
@given(rows)
def test_words_are_equal_where_keys_are_and_turn_back_into_keys(values: list[tuple[Any, ...]]) -> None:
    keys: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    seen = 0
    for numbers, words in LAYOUT.encode(frame(values)):
        numbers = np.arange(len(values)) if numbers is None else numbers
        decoded = list(zip(*(column.to_list() for column in LAYOUT.decode(words).values()), strict=True))
        table = np.column_stack(words).tolist()
        for number, row, back in zip(numbers, table, decoded, strict=True):
            wanted = tuple(map(identity, values[number]))
            assert tuple(map(identity, back)) == wanted
            assert keys.setdefault(tuple(row), wanted) == wanted
            seen += 1
    assert seen == len(values)
    assert len(keys) == len({tuple(map(identity, value)) for value in values})


def test_widths_grow_by_a_third_to_a_half() -> None:
    assert WIDTHS[:7].tolist() == [2, 3, 4, 6, 8, 12, 16]
    assert (np.diff(WIDTHS) * 3 >= WIDTHS[:-1]).all()


@pytest.mark.parametrize(("size", "width"), [(0, 2), (16, 2), (17, 3), (24, 3), (25, 4), (512, 64), (513, 96)])
def test_a_text_lies_in_the_narrowest_width_that_holds_it(size: int, width: int) -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String())))
    ((_, words),) = layout.encode(frame([(0, "x" * size)], layout))
    assert columns.width(words) == 2 + width


def test_words_that_all_keys_share_are_constant() -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String()), ("n", pl.Int64())))
    ((_, words),) = layout.encode(frame([(5, f"{n:08}", 7) for n in range(100)], layout))
    assert [columns.is_constant(word) for word in words[:4]] == [True] * 4


def test_the_order_spreads_intervals_but_the_partition_does_not() -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String())))
    ((_, words),) = layout.encode(frame([(interval, "k") for interval in range(100)], layout))
    assert len(set(layout.partition_hash(words).tolist())) == 1
    order = layout.order(words)
    assert len(set(order.tolist())) == 100
    assert not (order & ~ORDER_MASK).any()


@pytest.mark.parametrize(
    "dtype", [pl.Categorical(), pl.Enum(["a"]), pl.Float32(), pl.UInt64(), pl.Binary(), pl.List(pl.Int64()), pl.Null()]
)
def test_types_that_do_not_become_words_are_refused(dtype: pl.DataType) -> None:
    with pytest.raises(ValueError, match=r"key column 'k' is of type .*by whose values the tree cannot group"):
        KeyLayout((("interval", pl.Int64()), ("k", dtype)))


def test_more_columns_than_one_word_has_nulls_are_refused() -> None:
    KeyLayout((("interval", pl.Int64()), *((f"k{n}", pl.Int64()) for n in range(64))))
    with pytest.raises(ValueError, match="65 key columns that are not strings"):
        KeyLayout((("interval", pl.Int64()), *((f"k{n}", pl.Int64()) for n in range(65))))


@settings(max_examples=150)
@given(rows)
def test_words_of_one_width_for_all_are_those_of_each_width_padded(values: list[tuple[Any, ...]]) -> None:
    padded = LAYOUT.encode_padded(frame(values), WIDE_WORDS)
    parts = list(LAYOUT.encode(frame(values)))
    if padded is None:
        assert max(columns.width(words) for _, words in parts) > WIDE_WORDS
        return
    table, order = np.column_stack(padded[0]), padded[1]
    for numbers, words in parts:
        numbers = np.arange(len(values)) if numbers is None else numbers
        own = np.column_stack(words)
        assert (table[numbers, : own.shape[1]] == own).all()
        assert not table[numbers, own.shape[1] :].any()
        assert (order[numbers] == LAYOUT.order(words)).all()
        assert (LAYOUT.widths(padded[0])[numbers] == columns.width(words) - LAYOUT.text_at).all()
