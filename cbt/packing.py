"""Columns of a block as bytes: bit-packed, and of text without the words that short texts leave empty.

`elf.cbt.bits` says what the bytes are; they are the same whether NumPy or a kernel (`elf.cbt.native`) makes them. Pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from elf.cbt import bits, columns, strings
from elf.cbt.columns import Index, Words
from elf.cbt.native import argument, kernels

#: A word of text that a larger share of keys reaches is packed for all: to pick rows would cost more than it saves.
_REACHED_MOST = 0.875

Parts = list[bytes | npt.NDArray[np.uint8]]


def pack(values: Words, *, relative: bool = False) -> Parts:
    """Pack a column of at least one row; `relative` as for `bits.pack`."""
    if kernels is not None:
        return [kernels.pack(argument(values), values.size, None, 0, relative)]
    return bits.pack(values, relative=relative)


def unpack(body: memoryview, at: int, count: int) -> tuple[Words, int]:
    """Unpack a column of `count` values that begins at byte `at`; also return where the next begins."""
    if kernels is None or not bits.varies(body, at):
        return bits.unpack(body, at, count)
    values = np.empty(count, dtype=np.uint64)
    return values, kernels.unpack(body, at, None, 0, values)


def pack_text(word: Words, sizes: Words, number: int) -> Parts:
    """Pack the word of that number of texts of so many bytes; nothing where no text reaches it."""
    if kernels is not None:
        return [kernels.pack(argument(word), word.size, argument(sizes), number, False)]
    longer = _longer(sizes, number)
    if longer is None:
        return bits.pack(word, strings.keep_masks(sizes, number))
    return bits.pack(word[longer], strings.keep_masks(sizes[longer], number)) if longer.size else []


def unpack_text(body: memoryview, at: int, sizes: Words, number: int) -> tuple[Words, int]:
    """The inverse of `pack_text`; what is behind a text is zero."""
    if kernels is not None:
        spread = np.empty(sizes.size, dtype=np.uint64)
        at = kernels.unpack(body, at, argument(sizes), number, spread)
        return columns.simplified(spread), at
    longer = _longer(sizes, number)
    if longer is not None and not longer.size:
        return columns.constant(0, sizes.size), at
    own = sizes if longer is None else sizes[longer]
    word, at = bits.unpack(body, at, own.size)
    masks = strings.keep_masks(own, number)
    if masks is not None:
        word = word & masks
    if longer is None:
        return (word if masks is None else columns.simplified(word)), at
    spread = np.zeros(sizes.size, dtype=np.uint64)
    spread[longer] = word
    return spread, at


def _longer(sizes: Words, number: int) -> Index | None:
    """The rows whose text reaches the word of that number; None where most do, and all are packed."""
    if columns.is_constant(sizes) and sizes.size and int(sizes[0]) > 8 * number:
        return None
    longer = np.flatnonzero(sizes > np.uint64(8 * number))
    return longer if longer.size <= _REACHED_MOST * sizes.size else None
