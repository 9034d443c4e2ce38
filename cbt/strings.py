"""String columns to padded 64-bit words and back, through Arrow's string views (no copy through Python objects).

A view is 16 bytes: the length, and either the text itself (up to 12 bytes) or its first 4 bytes, a buffer's number and
an offset in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import nanoarrow
import numpy as np
import polars as pl

from cbt import columns
from cbt.columns import Columns, Index
from cbt.hashing import Words

_INLINE_BYTES = 12
_LENGTH = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
#: Entry k keeps the first k bytes of a word.
KEEP: Words = np.array([(1 << (8 * k)) - 1 for k in range(9)], dtype=np.uint64)


def keep_masks(sizes: Words, word: int) -> Words | None:
    """Masks of the bytes of text in the word of that number, shape (keys,); None where every byte is text."""
    if columns.is_constant(sizes):
        left = min(max(int(sizes[0]) - 8 * word, 0), 8)
        return None if left == 8 else columns.constant(KEEP[left], sizes.size)
    if sizes.size == 0 or int(sizes.min()) >= 8 * (word + 1):
        return None
    return KEEP.take(sizes.view(np.int64) - 8 * word, mode="clip")


def sizes(column: pl.Series) -> Words:
    """Bytes of each string, 0 for null."""
    lengths = _views(column)[0] & _LENGTH
    if column.null_count():
        lengths[column.is_null().to_numpy()] = 0
    return lengths


def joined(columns: Sequence[pl.Series]) -> pl.Series:
    """The strings of each row one after the other; null adds nothing."""
    if len(columns) == 1:
        return columns[0].fill_null("") if columns[0].null_count() else columns[0]
    frame = pl.DataFrame([column.alias(str(number)) for number, column in enumerate(columns)])
    return frame.select(pl.concat_str(pl.all(), ignore_nulls=True).fill_null("")).to_series()


class Texts:
    """Strings without nulls, to be cut into words width by width."""

    def __init__(self, text: pl.Series) -> None:
        self._text = text
        self._flat: Words | None = None

    def words(self, sizes: Words, width: int, rows: Index | None = None) -> Columns:
        """Cut strings into zero-padded words.

        Args:
            sizes: bytes of every string.
            width: columns wanted; enough for the strings asked for.
            rows: which strings; None means all.
        """
        if rows is None and width == 2 and len(self._text) and int(sizes.max()) <= _INLINE_BYTES:
            first, second = _views(self._text)
            low = second << _HALF
            low |= first >> _HALF
            return [low, second >> _HALF]
        if self._flat is None:
            text = self._text.str.join("").cast(pl.Binary).item() if len(self._text) else b""
            self._flat = np.zeros(len(text) // 8 + 2, dtype=np.uint64)
            self._flat.view(np.uint8)[: len(text)] = np.frombuffer(text, dtype=np.uint8)
        starts = np.cumsum(sizes) - sizes
        if rows is not None:
            starts, sizes = starts[rows], sizes[rows]
        return gather(self._flat, starts, sizes, width)


def from_words(words: Columns, lengths: Columns) -> Iterator[pl.Series]:
    """Yield the string columns whose text lies in these words.

    Args:
        words: the text.
        lengths: of each column's strings, in bytes plus one, 0 for null.
    """
    if len(lengths) == 1:
        yield _series(words, lengths[0] - (lengths[0] > 0), lengths[0])
        return
    rows = words[0].size if words else 0
    flat = np.zeros(rows * len(words) + len(words) + 2, dtype=np.uint64)
    if words:
        np.stack(words, axis=1, out=flat[: rows * len(words)].reshape(rows, len(words)))
    starts = np.arange(rows, dtype=np.uint64) * np.uint64(8 * len(words))
    for length in lengths:
        size = length - (length > 0)
        own = gather(flat, starts, size, max(2, -(-int(size.max(initial=0)) // 8)))
        yield _series(own, size, length)
        starts = starts + size


def gather(flat: Words, starts: Words, sizes: Words, width: int) -> Columns:
    """Collect byte ranges of a flat text into zero-padded words.

    Args:
        flat: the text.
        starts: first byte of each range.
        sizes: bytes of each range.
        width: columns wanted.
    """
    place = (starts >> np.uint64(3)).view(np.int64)
    shift = (starts & np.uint64(7)) << np.uint64(3)
    rest = np.uint64(63) - shift
    low = flat.take(place, mode="clip")
    words: Columns = []
    for number in range(width):
        high = flat.take(place + (number + 1), mode="clip")
        word: Words = np.bitwise_or(low >> shift, (high << np.uint64(1)) << rest)
        masks = keep_masks(sizes, number)
        if masks is not None:
            word &= masks
        words.append(word)
        low = high
    return words


def flat(series: pl.Series) -> tuple[Words, bytes]:
    """Sizes and bytes of strings or binaries without nulls, the bytes one after the other."""
    if series.dtype == pl.Binary:
        return series.bin.size().to_numpy().astype(np.uint64), b"".join(series.to_list())
    sizes = series.str.len_bytes().to_numpy().astype(np.uint64)
    return sizes, series.str.join("").cast(pl.Binary).item() if len(series) else b""


def from_flat(text: memoryview, sizes: Words, dtype: pl.DataType) -> pl.Series:
    """The inverse of `flat`; strings have to be valid UTF-8 already."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes.view(np.int64), out=offsets[1:])
    kind = nanoarrow.large_string() if dtype == pl.String else nanoarrow.large_binary()
    array = nanoarrow.c_array_from_buffers(kind, sizes.size, [None, offsets, bytes(text)], null_count=0)
    return pl.Series(nanoarrow.Array(array))


def _views(text: pl.Series) -> tuple[Words, Words]:
    """The two halves of each string's view."""
    chunk = next(iter(nanoarrow.c_array_stream(text.rechunk())))
    pairs = np.frombuffer(chunk.view().buffer(1), dtype=np.uint64).reshape(-1, 2)
    pairs = pairs[chunk.offset : chunk.offset + len(text)]
    return pairs[:, 0], pairs[:, 1]


def _series(words: Columns, sizes: Words, lengths: Words) -> pl.Series:
    """Hand text to Polars: as views where all of it is short, else one after the other."""
    valid = lengths > 0
    validity = None if valid.all() else np.packbits(valid, bitorder="little")
    if sizes.size == 0 or int(sizes.max()) <= _INLINE_BYTES:
        views = np.empty((sizes.size, 2), dtype=np.uint64)
        np.bitwise_or(words[0] << _HALF, sizes, out=views[:, 0])
        np.bitwise_or(words[0] >> _HALF, words[1] << _HALF, out=views[:, 1])
        kind, buffers = nanoarrow.string_view(), [validity, views.ravel(), np.zeros(0, dtype=np.int64)]
    else:
        offsets = np.zeros(sizes.size + 1, dtype=np.int64)
        np.cumsum(sizes.view(np.int64), out=offsets[1:])
        padded = np.stack(words, axis=1).view(np.uint8)
        text = padded[np.arange(padded.shape[1]) < sizes.view(np.int64)[:, None]]
        kind, buffers = nanoarrow.large_string(), [validity, offsets, text]
    array = nanoarrow.c_array_from_buffers(kind, sizes.size, buffers, null_count=0 if validity is None else -1)
    return pl.Series(nanoarrow.Array(array))
