"""Kernels: what they compute is what NumPy does, and no arguments make them do worse than refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import columns, hashing, rows, strings
from elf.cbt.native import argument
from tests.cbt.kernels import built, without_kernels

u64 = st.integers(0, 2**64 - 1)
#: Values of every width, the same ones often.
VALUES = st.sampled_from([0, 1, 255, 256, 65_536, 2**32, 2**63, 2**64 - 1]) | u64


def column(values: list[int]) -> Any:
    """As narrow as the values are."""
    return np.array(values, dtype=np.min_scalar_type(max(values)))


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=30), st.integers(0, 64))
def test_keys_hash_as_in_numpy(keys: list[tuple[int, ...]], more: int) -> None:
    words = [np.array(each, dtype=np.uint64) for each in zip(*keys, strict=True)]
    words += [columns.constant(7, len(keys))] * min(more, hashing.WIDE_WORDS - len(words))
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        expected = hashing.hash_words(words, len(keys)).tolist()
    assert hashing.hash_words(words, len(keys)).tolist() == expected
    out = np.empty(len(keys), dtype=np.uint64)
    built().hash_words([argument(column(word.tolist())) for word in words], out)
    assert out.tolist() == expected


@given(st.lists(u64, max_size=30), st.integers(1, 5))
def test_orders_are_sorted_stably(drawn: list[int], repeat: int) -> None:
    packed = rows.numbered(np.array(drawn * repeat, dtype=np.uint64) & rows.ORDER_MASK)
    expected = sorted(packed.tolist())
    built().sort_packed(packed)
    assert packed.tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), VALUES, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40))
def test_rows_of_a_key_come_together(drawn: list[tuple[int, int, int]]) -> None:
    kernels = built()
    words = [column([word % 3 for _, word, _ in drawn]), np.array([order for order, _, _ in drawn], dtype=np.uint64)]
    packed = rows.numbered(words[1] << np.uint64(40))
    kernels.sort_packed(packed)
    numbers = [int(each) & (rows.ROWS_MAX - 1) for each in packed]
    keys = [(drawn[number][0], drawn[number][1] % 3) for number in numbers]
    starts = np.empty(len(keys), dtype=np.int64)
    count = kernels.first_rows([argument(word) for word in words], packed, starts)
    firsts = [at for at, key in enumerate(keys) if not at or keys[at - 1] != key]
    if any(keys[at - 1][0] == keys[at][0] for at in firsts[1:]):
        assert count == -1
        return
    assert starts[:count].tolist() == firsts
    values = np.array([value for _, _, value in drawn], dtype=np.int64)
    taken, first = np.empty(len(keys), dtype=np.int64), np.empty(count, dtype=np.int64)
    kernels.take(values, packed, None, taken)
    kernels.take(values, packed, starts[:count], first)
    assert taken.tolist() == [drawn[number][2] for number in numbers]
    assert first.tolist() == [drawn[numbers[at]][2] for at in firsts]
    sums = np.empty(count, dtype=np.int64)
    expected = [sum(taken.tolist()[start:end]) for start, end in zip(firsts, [*firsts[1:], len(keys)], strict=True)]
    if kernels.sum_runs(taken, starts[:count], sums):
        assert sums.tolist() == expected
    else:
        assert np.abs(values.astype(float)).sum() >= 2**63


@given(st.lists(st.text(max_size=30), min_size=1, max_size=20), st.data())
def test_strings_become_words_as_in_numpy(texts: list[str], data: st.DataObject) -> None:
    series = pl.Series(texts)
    sizes = strings.sizes(series)
    chosen = data.draw(st.none() | st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=9))
    picked = None if chosen is None else np.array(chosen, dtype=np.int64)
    width = max(2, -(-int(sizes.max()) // 8))
    found = strings.Texts(series).words(sizes, width, picked)
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        expected = strings.Texts(series).words(sizes, width, picked)
    assert [word.tolist() for word in found] == [word.tolist() for word in expected]


WORDS = np.arange(4, dtype=np.uint64)
INDEX = np.arange(4, dtype=np.int64)
UNALIGNED = np.zeros(33, np.uint8)[1:].view(np.uint64)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pack", (WORDS, 5, None, 0, False)),
        ("pack", (WORDS, 0, None, 0, False)),
        ("pack", (7, 2**61, None, 0, False)),
        ("pack", (WORDS, 4, WORDS[:2], 0, False)),
        ("pack", (UNALIGNED, 4, None, 0, False)),
        ("unpack", (bytes(24), 0, None, 0, UNALIGNED)),
        ("hash_words", ([WORDS], UNALIGNED)),
        ("sort_packed", (UNALIGNED,)),
        ("first_rows", ([WORDS], UNALIGNED, np.empty(4, np.int64))),
        ("take", (WORDS, UNALIGNED, None, np.empty(4, np.int64))),
        ("sum_runs", (UNALIGNED, INDEX, np.empty(4, np.int64))),
        ("write_ranked", ([WORDS, WORDS], UNALIGNED, (2, 2, 2, b""), WORDS, 4)),
        ("merge_blocks", ([b"\xff\xff\xff\xff\2\0\0\0" + bytes(48)], (2, 2, 2, b""), WORDS, 4)),
        ("merge_blocks", ([b""], (2, 2, 2, b""), UNALIGNED, 4)),
        ("merge_blocks", ([b""], (1, 1, 2**63 - 1, b"\0"), WORDS, 4)),
        ("pack", (np.zeros((2, 2), np.uint64), 4, None, 0, False)),
        ("pack", (np.zeros(8, np.uint64)[::2], 4, None, 0, False)),
        ("pack", (np.zeros(4, np.complex128), 4, None, 0, False)),
        ("hash_words", ([WORDS], np.empty(5, np.uint64))),
        ("hash_words", ([0] * 300, np.empty(5, np.uint64))),
        ("first_rows", ([WORDS], np.array([4], np.uint64), np.empty(1, np.int64))),
        ("first_rows", ([WORDS], WORDS, np.empty(3, np.int64))),
        ("locate", ([WORDS], [WORDS, 3], WORDS, WORDS, np.empty(4, np.int64))),
        ("locate", ([WORDS], [WORDS], WORDS, WORDS, np.empty(3, np.int64))),
        ("locate", ([WORDS[:3]], [WORDS], WORDS, WORDS, np.empty(4, np.int64))),
        ("take", (WORDS, np.array([4], np.uint64), None, np.empty(1, np.int64))),
        ("take", (WORDS, WORDS, None, np.empty(5, np.int64))),
        ("take", (WORDS, WORDS, INDEX + 1, np.empty(4, np.int64))),
        ("take", (WORDS, WORDS, INDEX - 1, np.empty(4, np.int64))),
        ("take", (WORDS, WORDS, INDEX.astype(np.int32), np.empty(4, np.int64))),
        ("sum_runs", (INDEX, INDEX + 1, np.empty(4, np.int64))),
        ("sum_runs", (INDEX, INDEX[::-1].copy(), np.empty(4, np.int64))),
        ("sum_runs", (INDEX, INDEX, np.empty(3, np.int64))),
        ("words_of_views", (np.array([17, 0], np.uint64), [], None, 1, np.empty(2, np.uint64))),
        ("words_of_views", (np.array([13, 0], np.uint64), [], None, 1, np.empty(2, np.uint64))),
        ("words_of_views", (np.array([13, 0], np.uint64), [np.zeros(12, np.uint8)], None, 1, np.empty(2, np.uint64))),
        ("words_of_views", (np.array([13, 0], np.uint64), [7], None, 1, np.empty(2, np.uint64))),
        ("words_of_views", (np.array([3, 0], np.uint64), [], INDEX, 4, np.empty(8, np.uint64))),
        ("merge_blocks", ([], (2, 2, 2, b""), WORDS, 4)),
        ("merge_blocks", ([b"1234567"], (2, 2, 2, b""), WORDS, 4)),
        ("merge_blocks", ([b"\1\0\0\0\2\0\0\0"], (2, 2, 2, b""), WORDS, 4)),
        ("merge_blocks", ([b""], (2, 2, 2, b"\7"), WORDS, 4)),
        ("merge_blocks", ([b""], (1, 1, 200, b""), WORDS, 4)),
        ("merge_blocks", ([b""], (0, 1, 2, b""), WORDS, 4)),
        ("merge_blocks", ([b""], (2, 2, 2, b""), WORDS, 0)),
        ("write_ranked", ([WORDS, WORDS], np.array([4], np.uint64), (2, 2, 2, b""), WORDS, 4)),
        ("write_ranked", ([WORDS], WORDS, (2, 2, 2, b""), WORDS, 4)),
        ("write_ranked", ([WORDS, WORDS], np.empty(0, np.uint64), (2, 2, 2, b""), WORDS, 4)),
    ],
)
def test_what_does_not_fit_is_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        getattr(built(), name)(*arguments)


def test_places_are_read_before_starts_lie_there() -> None:
    packed = np.array([1 << 24, 2 << 24, 0, 0], dtype=np.uint64)
    starts = np.empty(4, dtype=np.int64)
    column = [np.array([5], dtype=np.uint64)]
    count = built().first_rows(column, packed, starts)
    assert built().first_rows(column, packed, packed) == count
    assert packed[:count].tolist() == starts[:count].tolist()


def test_sizes_that_change_while_text_is_unpacked_are_refused() -> None:
    both = np.full(8, 9, dtype=np.uint64)
    body = built().pack(np.arange(8, 16, dtype=np.uint64), 8, both, 0, False)
    sizes = np.array([0, 0, 0, 9, 9, 9, 9, 9], dtype=np.uint64)
    # The values that are unpacked take the places of sizes, and then more rows reach the word than did.
    with pytest.raises(ValueError, match="fewer"):
        built().unpack(body, 0, sizes, 0, sizes)
