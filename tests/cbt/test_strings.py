"""Strings to words and back, whatever their length, nulls, and where their bytes lie."""

from __future__ import annotations

import functools
import operator
import pathlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt import columns, strings
from elf.cbt.hashing import WIDE_WORDS

#: Around every boundary: text inside a view, one word, all narrow widths, wide text.
SIZES = (0, 1, 7, 8, 9, 12, 13, 15, 16, 17, 8 * WIDE_WORDS, 8 * WIDE_WORDS + 1, 5000)
text = st.text(max_size=20) | st.builds(operator.mul, st.sampled_from("a\0é日"), st.sampled_from(SIZES))


def lengths(series: pl.Series) -> np.ndarray:
    found = strings.sizes(series) + np.uint64(1)
    found[series.is_null().to_numpy()] = 0
    return found


def there_and_back(series: list[pl.Series]) -> list[list[str | None]]:
    sizes = functools.reduce(np.add, [strings.sizes(each) for each in series])
    width = max(2, -(-int(sizes.max()) // 8))
    words = strings.Texts(strings.joined(series)).words(sizes, width)
    assert columns.width(words) == width
    return [each.to_list() for each in strings.from_words(words, [lengths(each) for each in series])]


@settings(max_examples=150)
@given(st.lists(st.tuples(*[st.none() | text] * 3), min_size=1, max_size=8), st.integers(1, 3))
def test_strings_come_back_from_the_words_they_share(rows: list[tuple[str | None, ...]], several: int) -> None:
    values = [[row[number] for row in rows] for number in range(several)]
    assert there_and_back([pl.Series(each, dtype=pl.String) for each in values]) == values


@pytest.mark.parametrize("size", SIZES)
def test_words_hold_the_bytes_in_order_and_zeros_behind(size: int) -> None:
    value = ("abcdefghijklmno" * 400)[:size]
    width = size // 8 + 2
    words = strings.Texts(pl.Series([value, "-"])).words(np.array([size, 1], dtype=np.uint64), width)
    first, second = np.column_stack(words).view(np.uint8)
    assert first.tobytes() == value.encode().ljust(8 * width, b"\0")
    assert second.tobytes() == b"-".ljust(8 * width, b"\0")


def test_rows_are_cut_out_of_all_the_strings() -> None:
    values = ["first", "x" * 30, "", "é" * 400, "last"]
    series = pl.Series(values)
    sizes = strings.sizes(series)
    for rows, width in (([4, 0], 2), ([1], 4), ([3, 1], 100)):
        words = strings.Texts(series).words(sizes, width, np.array(rows))
        (found,) = strings.from_words(words, [sizes[rows] + np.uint64(1)])
        assert found.to_list() == [values[row] for row in rows]


def test_keep_masks_keep_what_is_text() -> None:
    sizes = np.array([0, 3, 8, 11], dtype=np.uint64)
    masks = strings.keep_masks(sizes, 0)
    assert masks is not None
    assert masks.tolist() == [0, 0xFFFFFF, 2**64 - 1, 2**64 - 1]
    assert strings.keep_masks(sizes + np.uint64(8), 0) is None
    constant = strings.keep_masks(columns.constant(11, 4), 1)
    assert constant is not None
    assert constant.tolist() == [0xFFFFFF] * 4


def frames_of_all_kinds(series: pl.Series, folder: pathlib.Path) -> dict[str, pl.Series]:
    path = folder / "strings.arrow"
    series.to_frame("s").write_ipc(path)
    return {
        "sliced": series.slice(3, 7),
        "filtered": series.filter(pl.Series([n % 3 == 0 for n in range(len(series))])),
        "gathered": series.gather([5, 5, 0, 9]),
        "reversed": series.reverse(),
        "chunked": pl.concat([series.slice(n, 2) for n in range(0, len(series), 2)], rechunk=False),
        "mapped": pl.read_ipc(path, memory_map=True)["s"],
        "empty chunks": pl.concat([series.clear(), series, series.clear()], rechunk=False),
        "only nulls": pl.Series([None, None], dtype=pl.String),
    }


@pytest.mark.parametrize("size", [5, 12, 13, 600])
def test_it_does_not_matter_where_polars_keeps_the_bytes(size: int, tmp_path: pathlib.Path) -> None:
    values = [None if n % 4 == 1 else f"{n:05}" + "y" * (size - 5) for n in range(20)]
    for kind, series in frames_of_all_kinds(pl.Series(values, dtype=pl.String), tmp_path).items():
        assert there_and_back([series, series]) == [series.to_list()] * 2, kind
        assert there_and_back([series]) == [series.to_list()], kind


@given(st.lists(text, max_size=8))
def test_flat_strings_and_binaries_come_back(values: list[str]) -> None:
    for series in (pl.Series(values, dtype=pl.String), pl.Series([v.encode() for v in values], dtype=pl.Binary)):
        sizes, data = strings.flat(series)
        assert strings.from_flat(memoryview(data), sizes, series.dtype).equals(series)
