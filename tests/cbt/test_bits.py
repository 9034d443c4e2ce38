"""Packing: every column comes back, in as few bytes as its varying bits need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt import bits, columns
from elf.cbt.columns import Words

u64 = st.integers(0, 2**64 - 1)


def packed(values: Words, masks: Words | None = None, *, relative: bool = False) -> bytes:
    return b"".join(bytes(part) for part in bits.pack(values, masks, relative=relative))


def unpacked(data: bytes, count: int) -> list[int]:
    values, end = bits.unpack(memoryview(data), 0, count)
    assert end == len(data)
    return [int(value) for value in values]


@settings(max_examples=200)
@given(st.lists(u64, min_size=1, max_size=40), u64, u64, st.booleans())
def test_what_is_packed_comes_back(values: list[int], mask: int, constant: int, relative: bool) -> None:
    # The mask makes bits the same in all values, here and there.
    column = np.array([value & mask | constant & ~mask for value in values], dtype=np.uint64)
    assert unpacked(packed(column, relative=relative), len(values)) == column.tolist()


@settings(max_examples=100)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40))
def test_integers_come_back(values: list[int]) -> None:
    column = np.array(values, dtype=np.int64).view(np.uint64)
    assert unpacked(packed(column, relative=True), len(values)) == column.tolist()


@settings(max_examples=100)
@given(st.lists(st.tuples(u64, st.integers(0, 8)), min_size=1, max_size=40))
def test_bits_within_the_mask_come_back(pairs: list[tuple[int, int]]) -> None:
    masks = np.array([(1 << 8 * size) - 1 for _, size in pairs], dtype=np.uint64)
    column = np.array([value for value, _ in pairs], dtype=np.uint64) & masks
    found = np.array(unpacked(packed(column, masks), len(pairs)), dtype=np.uint64)
    assert (found & masks).tolist() == column.tolist()


@pytest.mark.parametrize(
    ("values", "relative", "each"),
    [
        ([7] * 1000, False, 0),
        (range(256), False, 1),
        (range(1_000_000, 1_000_000 + 256), False, 2),
        (range(1_000_000, 1_000_000 + 256), True, 1),
        (range(-128, 128), False, 8),
        (range(-128, 128), True, 1),
        (range(2**16), False, 2),
        (range(2**17), False, 3),
        ([0, 2**63] * 100, False, 1),
    ],
)
def test_a_value_takes_as_many_bytes_as_its_bits_need(values: range, relative: bool, each: int) -> None:
    column = np.array(values, dtype=np.int64 if min(values) < 0 else np.uint64).view(np.uint64)
    assert len(packed(column, relative=relative)) == bits.HEADER_BYTES + each * len(values)


def test_digits_take_four_bits_and_letters_five() -> None:
    digits = np.array([int.from_bytes(b"%08d" % (n * 7919 % 10**8), "little") for n in range(5000)], dtype=np.uint64)
    letters = np.random.default_rng(0).integers(97, 123, (5000, 8), dtype=np.uint8).view(np.uint64).ravel()
    assert len(packed(digits)) == bits.HEADER_BYTES + 4 * 5000
    assert len(packed(letters)) == bits.HEADER_BYTES + 5 * 5000


def test_a_constant_column_is_unpacked_as_one() -> None:
    values, _ = bits.unpack(memoryview(packed(columns.constant(9, 50))), 0, 50)
    assert columns.is_constant(values)
    assert values.tolist() == [9] * 50


def test_columns_lie_one_behind_the_other() -> None:
    first, second = np.arange(10, dtype=np.uint64), np.arange(10, dtype=np.uint64) * np.uint64(2**40)
    data = memoryview(packed(first) + packed(second))
    found, at = bits.unpack(data, 0, 10)
    again, end = bits.unpack(data, at, 10)
    assert (found.tolist(), again.tolist(), end) == (first.tolist(), second.tolist(), len(data))
