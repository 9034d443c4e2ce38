"""Packed columns: the kernel writes and reads the very bytes that NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import columns, packing, strings
from elf.cbt.columns import Words
from tests.cbt.kernels import built, without_kernels

u64 = st.integers(0, 2**64 - 1)
#: A column: values that share bits, as columns do.
COLUMNS = st.builds(
    lambda values, mask, constant, repeat: np.array(
        [value & mask | constant & ~mask for value in values] * repeat, dtype=np.uint64
    ),
    st.lists(u64, min_size=1, max_size=30),
    st.sampled_from([0, 0xFF, 0x1F1F1F1F1F1F1F1F, 0x0F0F0F0F0F0F0F0F, 0x8421842184218421, 2**64 - 1]) | u64,
    u64,
    st.sampled_from([1, 20]),
)


def bytes_of(parts: packing.Parts) -> bytes:
    return b"".join(bytes(part) for part in parts)


@given(COLUMNS, st.booleans())
def test_the_kernel_packs_as_numpy_does(column: Words, relative: bool) -> None:
    found = bytes_of(packing.pack(column, relative=relative))
    values, end = packing.unpack(memoryview(found), 0, column.size)
    assert (values.tolist(), end) == (column.tolist(), len(found))
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        assert bytes_of(packing.pack(column, relative=relative)) == found
        assert packing.unpack(memoryview(found), 0, column.size)[0].tolist() == column.tolist()


@given(COLUMNS, st.lists(st.integers(0, 26), min_size=1, max_size=40), st.booleans(), st.integers(0, 3))
def test_the_kernel_packs_text_as_numpy_does(column: Words, lengths: list[int], alike: bool, number: int) -> None:
    drawn = np.resize(np.array(lengths, dtype=np.uint64), column.size)
    sizes = columns.constant(lengths[0], column.size) if alike else drawn
    masks = strings.keep_masks(sizes, number)
    word = column if masks is None else column & masks
    found = bytes_of(packing.pack_text(word, sizes, number))
    read, end = packing.unpack_text(memoryview(found), 0, sizes, number)
    assert (read.tolist(), end) == (word.tolist(), len(found))
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        assert bytes_of(packing.pack_text(word, sizes, number)) == found
        assert packing.unpack_text(memoryview(found), 0, sizes, number)[0].tolist() == word.tolist()


@given(COLUMNS, st.data())
def test_a_column_that_is_cut_short_is_refused(column: Words, data: st.DataObject) -> None:
    kernels, packed = built(), bytes_of(packing.pack(column))
    cut = packed[: data.draw(st.integers(0, len(packed) - 1))]
    with pytest.raises(ValueError, match="fewer bytes"):
        kernels.unpack(cut, 0, None, 0, np.empty(column.size, dtype=np.uint64))


@given(st.binary(max_size=120), st.integers(-2, 130), st.integers(0, 40), st.integers(0, 3), st.booleans())
def test_any_bytes_are_read_or_refused(drawn: bytes, at: int, rows: int, number: int, text: bool) -> None:
    out = np.empty(rows, dtype=np.uint64)
    sizes = np.arange(rows, dtype=np.uint64) if text else None
    try:
        assert at <= built().unpack(drawn, at, sizes, number, out) <= len(drawn)
    except ValueError as error:
        assert "fewer bytes" in str(error)
