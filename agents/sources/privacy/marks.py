"""Whether a column of texts may hold certain bytes, found out where the texts lie instead of in a copy of them.

In Arrow's string views texts of up to 12 bytes lie in the 16 bytes of their view behind the length, padded with zeros,
longer ones in buffers, which may hold other texts, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

_INLINE_BYTES = 12
#: Buffers more than so many times as large as the texts are another column's, too: copying the texts costs less.
_SHARED_MOST = 2

Bytes = npt.NDArray[np.uint8]


def marks_held(texts: pl.Series, marks: bytes) -> frozenset[int]:
    """Return which of these bytes a text may have; they are neither 0 nor parts of longer characters.

    That a text has none of the others is certain. O(bytes) for each that is not met.
    """
    left, held = set(marks), set[int]()
    for part in _parts(texts):
        held |= {mark for mark in left if (part == mark).any()}
        left -= held
        if not left:
            break
    return frozenset(held)


def _parts(texts: pl.Series) -> Iterator[Bytes]:
    """Yield bytes in which all texts are."""
    for chunk in nanoarrow.c_array_stream(texts):
        view, part = chunk.view(), slice(chunk.offset, chunk.offset + chunk.length)
        quarters = np.frombuffer(view.buffer(1), np.uint32).reshape(-1, 4)[part]
        halves = np.frombuffer(view.buffer(1), np.uint64).reshape(-1, 2)[part]
        sizes = quarters[:, 0]
        yield np.ascontiguousarray(quarters[:, 1]).view(np.uint8)
        # The second half of a longer one's view says where it is.
        yield np.where(sizes > _INLINE_BYTES, 0, halves[:, 1]).view(np.uint8)
        buffers = [np.frombuffer(view.buffer(number), np.uint8) for number in range(2, view.n_buffers - 1)]
        held = sum(buffer.size for buffer in buffers)
        if held > _SHARED_MOST * int(sizes.sum(dtype=np.int64)) + texts.len():
            buffers = [np.frombuffer(texts.str.join("").cast(pl.Binary).item(), np.uint8)]
        yield from buffers
