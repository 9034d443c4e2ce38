"""Values of blocks of lines by columns, for what stands in the place of kernels: copies, casts, runs of rows. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources.lines import rows as rows_of
from elf.agents.sources.native import Bitmap, Spans


def is_text(block: bytes) -> bool:
    """Tell whether a block is valid UTF-8, as Polars has to be sure of; all but few are ASCII."""
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def runs(rows: npt.NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return runs of numbers that follow each other, half-open."""
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > 1)
    firsts, lasts = np.append(rows[0], rows[cuts + 1]), np.append(rows[cuts], rows[-1]) + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def copied(block: bytes, spans: Spans) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Copy parts of a block one behind the other; also returns where each begins and the last one ends."""
    lengths = spans[:, 1] - spans[:, 0]
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    places = np.arange(offsets[-1], dtype=np.int32)
    places += np.repeat((spans[:, 0] - offsets[:-1]).astype(np.int32), lengths)
    return np.frombuffer(block, np.uint8)[places].tobytes(), offsets


def filled(
    block: bytes,
    spans: Spans,
    cast: tuple[pl.DataType, str],
    read: Callable[[Spans, npt.NDArray[Any], Bitmap], int],
    out: npt.NDArray[Any],
    valid: Bitmap,
    bits: int = 64,
) -> int:
    """Read numbers, the usual ones by a cast; returns how many values are none.

    Args:
        block: what the values lie in.
        spans: where they are.
        cast: the type, and a pattern of the texts that are cast to it.
        read: reads other values, as a kernel does: their places, and the arrays that are filled.
        out: is filled with the numbers.
        valid: is filled with which there are.
        bits: integers have no more.
    """
    has = spans[:, 0] >= 0
    chosen = np.flatnonzero(has)
    kind, pattern = cast
    text, offsets = copied(block, spans[chosen])
    is_plain = np.zeros(len(chosen), np.bool_)
    out[: len(spans)] = 0
    if is_text(text):
        texts = rows_of(text, offsets)
        numbers = texts.cast(kind, strict=False).fill_null(0).to_numpy()
        is_plain = texts.str.contains(pattern).to_numpy().copy()
        if bits < 64:
            is_plain &= (numbers >= -(1 << bits - 1)) & (numbers < 1 << bits - 1)
        out[chosen[is_plain]] = numbers[is_plain]
    rest, unfit = chosen[~is_plain], 0
    if len(rest):
        others, flags = np.empty(len(rest), out.dtype), np.empty((len(rest) + 7) // 8, np.uint8)
        unfit = read(spans[rest], others, flags)
        out[rest] = others
        has[rest] = np.unpackbits(flags, count=len(rest), bitorder="little").astype(np.bool_)
    valid[:] = np.packbits(has, bitorder="little")
    return unfit
