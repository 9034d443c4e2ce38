"""Columns of 64-bit words in as few bytes as their varying bits need.

Bits that are the same in every value are written once; the others are moved together and cut into pieces of 4, 2 and 1
bytes. So digits of text take 4 bits, lower-case letters 5, counts as many as the largest, a constant none. Integers
are taken relative to their smallest where that leaves fewer bits.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elf.cbt.columns import Words, is_constant
from elf.cbt.columns import constant as constant_column

#: base, constant bits, mask of varying bits.
_HEADER = struct.Struct("<QQQ")
HEADER_BYTES = _HEADER.size
#: Moving a run of bits costs three operations; above this many the nearest runs are moved as one.
_RUNS_MAX = 10
_ALL = 2**64 - 1
_EACH_BYTE = _ALL // 255


def pack(values: Words, masks: Words | None = None, *, relative: bool = False) -> list[bytes | npt.NDArray[np.uint8]]:
    """Pack one column.

    Args:
        values: shape (n,), n > 0.
        masks: bits of each value that matter, the others being zero; None where all do. Unpacking gives the bits
            outside the mask any value.
        relative: the values are integers (signed, in two's complement).

    Returns:
        A header and the pieces' buffers, to be joined.
    """
    base = 0
    if is_constant(values):
        return [_HEADER.pack(0, int(values[0]), 0)]
    ones = int(np.bitwise_or.reduce(values))
    zeros = _ALL ^ int(np.bitwise_and.reduce(values if masks is None else values | ~masks))
    varying = ones & zeros
    if relative and varying:
        low, high = int(values.view(np.int64).min()), int(values.view(np.int64).max())
        if (high - low).bit_length() < varying.bit_count():
            base, varying = low & _ALL, (1 << (high - low).bit_length()) - 1
            values = values - np.uint64(base)
            ones = 0
    if not varying:
        return [_HEADER.pack(base, ones, 0)]
    moves = _moves(varying)
    while moves != (known := _moves(moves.mask)):
        # The reader knows the mask only, and has to come to the same moves.
        moves = known
    return [_HEADER.pack(base, ones & ~moves.mask, moves.mask), *_pieces(_together(values, moves), moves.bits)]


def varies(data: memoryview, at: int) -> bool:
    """Tell whether the column that begins at byte `at` has more than one value."""
    _, _, mask = _HEADER.unpack_from(data, at)
    return bool(mask)


def unpack(data: memoryview, at: int, count: int) -> tuple[Words, int]:
    """Unpack one column of `count` values that begins at byte `at`; also return where the next begins."""
    base, constant, mask = _HEADER.unpack_from(data, at)
    at += HEADER_BYTES
    if not mask:
        return constant_column((constant + base) & _ALL, count), at
    moves = _moves(mask)
    packed, at = _join(data, at, count, moves.bits)
    values = _apart(packed, moves)
    if constant:
        values |= np.uint64(constant)
    if base:
        values += np.uint64(base)
    return values, at


class _Moves(NamedTuple):
    """How the varying bits of a column are moved together.

    Attributes:
        mask: the bits that are moved; all that vary, and perhaps some between them.
        bits: how many.
        runs: (lowest bit, width) of each run that is moved by itself.
        bytewise: instead, (lowest bit, width) of the run that all bytes have, as text has: three steps for all eight.
    """

    mask: int
    bits: int
    runs: list[tuple[int, int]]
    bytewise: tuple[int, int] | None


@functools.lru_cache(4096)
def _moves(varying: int) -> _Moves:
    runs = _runs(varying)
    union = functools.reduce(int.__or__, varying.to_bytes(8, "little"))
    low = (union & -union).bit_length() - 1
    width = union.bit_length() - low
    if len(runs) > 4 and 8 * width <= varying.bit_count() + 8:
        return _Moves(((1 << width) - 1 << low) * _EACH_BYTE, 8 * width, runs, (low, width))
    mask = sum(((1 << width) - 1) << shift for shift, width in runs)
    return _Moves(mask, sum(width for _, width in runs), runs, None)


def _runs(mask: int) -> list[tuple[int, int]]:
    """Runs of ones in a mask, as (lowest bit, width), ascending; joined over the shortest gaps where they are many."""
    runs: list[tuple[int, int]] = []
    at = 0
    while mask >> at:
        rest = mask >> at
        shift = at + (rest & -rest).bit_length() - 1
        ones = mask >> shift
        width = (ones ^ (ones + 1)).bit_length() - 1
        runs.append((shift, width))
        at = shift + width
    while len(runs) > _RUNS_MAX:
        gaps = [after[0] - sum(before) for before, after in itertools.pairwise(runs)]
        nearest = gaps.index(min(gaps))
        first, last = runs[nearest], runs[nearest + 1]
        runs[nearest : nearest + 2] = [(first[0], sum(last) - first[0])]
    return runs


def _together(values: Words, moves: _Moves) -> Words:
    """Move the bits to the lower end of each value."""
    moved = np.empty_like(values)
    if moves.bytewise:
        low, width = moves.bytewise
        packed = values >> np.uint64(low)
        packed &= np.uint64(moves.mask >> low)
        for size in (8, 16, 32):
            shift, low_half, high_half = _halves(size, width)
            np.bitwise_and(packed, high_half, out=moved)
            moved >>= shift
            packed &= low_half
            packed |= moved
        return packed
    packed = np.empty_like(values)
    place = 0
    for number, (lowest, width) in enumerate(moves.runs):
        target = moved if number else packed
        np.right_shift(values, np.uint64(lowest - place), out=target)
        target &= np.uint64(((1 << width) - 1) << place)
        if number:
            packed |= moved
        place += width
    return packed


def _apart(packed: Words, moves: _Moves) -> Words:
    """The inverse of `_together`; bits that are not moved are zero."""
    moved = np.empty_like(packed)
    if moves.bytewise:
        low, width = moves.bytewise
        out = packed.copy()
        for size in (32, 16, 8):
            shift, low_half, high_half = _halves(size, width)
            np.left_shift(out, shift, out=moved)
            moved &= high_half
            out &= low_half
            out |= moved
        out <<= np.uint64(low)
        return out
    out = np.empty_like(packed)
    place = 0
    for number, (lowest, width) in enumerate(moves.runs):
        target = moved if number else out
        np.left_shift(packed, np.uint64(lowest - place), out=target)
        target &= np.uint64(((1 << width) - 1) << lowest)
        if number:
            out |= moved
        place += width
    return out


@functools.cache
def _halves(size: int, width: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """How two times `size` bits with `width` of 8 in use become neighbours: a shift, and masks of both before it."""
    used = size * width // 8
    low = ((1 << used) - 1) * (_ALL // ((1 << 2 * size) - 1))
    return np.uint64(size - used), np.uint64(low), np.uint64(low << size)


@functools.cache
def _widths(bits: int) -> list[int]:
    """Bytes of the pieces that hold this many bits."""
    count = -(-bits // 8)
    return [8] if count == 8 else [width for width in (4, 2, 1) if count & width]


def _pieces(packed: Words, bits: int) -> list[npt.NDArray[np.uint8]]:
    pieces: list[npt.NDArray[np.uint8]] = []
    for width in _widths(bits):
        pieces.append(packed.astype(f"<u{width}").view(np.uint8))
        if width < 8:
            packed = packed >> np.uint64(8 * width)
    return pieces


def _join(data: memoryview, at: int, count: int, bits: int) -> tuple[Words, int]:
    packed = np.zeros(0, dtype=np.uint64)
    place = 0
    for width in _widths(bits):
        piece = np.frombuffer(data, dtype=f"<u{width}", count=count, offset=at).astype(np.uint64)
        packed = packed | (piece << np.uint64(place)) if place else piece
        place += 8 * width
        at += width * count
    return packed, at
