"""String columns to padded 64-bit words and back, through Arrow's string views (no copy through Python objects).

A view is 16 bytes: the length, and either the text itself (up to 12 bytes) or its first 4 bytes, a buffer's number and
an offset in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt import columns
from elf.cbt.columns import Columns, Index, Words
from elf.cbt.hashing import WIDE_WORDS
from elf.cbt.native import kernels

_INLINE_BYTES = 12
#: Strings' buffers are copied whole if they are at most so many times as large as the strings.
_SHARED_MOST = 8
_LENGTH = np.uint64(0xFFFFFFFF)
#: Strings that Python joins in less time than a query takes.
FEW = 1_024
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
        #: All text, and where each string begins in it.
        self._flat: tuple[Words, Words] | None = None
        #: Its views, and the buffers that these point into.
        self._views: tuple[Words, list[npt.NDArray[np.uint8]]] | None = None

    def words(self, sizes: Words, width: int, rows: Index | None = None) -> Columns:
        """Cut strings into zero-padded words.

        Args:
            sizes: bytes of every string.
            width: columns wanted; enough for the strings asked for.
            rows: which strings; None means all.

        Returns:
            So many columns, or a single wide one.
        """
        if rows is None and width == 2 and len(self._text) and int(sizes.max()) <= _INLINE_BYTES:
            first, second = _views(self._text)
            low = second << _HALF
            low |= first >> _HALF
            return [low, second >> _HALF]
        if kernels is not None and width <= WIDE_WORDS:
            count = len(self._text) if rows is None else rows.size
            words = np.empty((width, count), dtype=np.uint64)
            if count:
                if self._views is None:
                    self._views = _buffers(self._text)
                kernels.words_of_views(*self._views, rows, count, words.reshape(-1))
            return list(words)
        if self._flat is None:
            self._flat = _flattened(self._text, sizes)
        flat, starts = self._flat
        if rows is not None:
            starts, sizes = starts[rows], sizes[rows]
        if width > WIDE_WORDS:
            return [_padded(flat.view(np.uint8), starts, sizes, width)]
        return gather(flat, starts, sizes, width)


def from_words(words: Columns, lengths: Columns) -> Iterator[pl.Series]:
    """Yield the string columns whose text lies in these words.

    Args:
        words: the text.
        lengths: of each column's strings, in bytes plus one, 0 for null.
    """
    if words and columns.is_wide(words[0]):
        yield from _from_wide(words[0], lengths)
        return
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
    return sizes(series), _text(series)


def from_flat(text: memoryview, sizes: Words, dtype: pl.DataType) -> pl.Series:
    """The inverse of `flat`; strings have to be valid UTF-8 already."""
    kind = nanoarrow.large_string() if dtype == pl.String else nanoarrow.large_binary()
    return _consecutive(kind, bytes(text), sizes.view(np.int64), np.ones(sizes.size, dtype=bool))


def _text(series: pl.Series) -> bytes:
    """The bytes of strings without nulls, one after the other."""
    if len(series) <= FEW:
        return "".join(series.to_list()).encode()
    joined: bytes = series.str.join("").cast(pl.Binary).item()
    return joined


def _padded(text: npt.NDArray[np.uint8], starts: Words, sizes: Words, width: int) -> Words:
    """`gather` for wide text, into one column."""
    padded = np.zeros((starts.size, 8 * width), dtype=np.uint8)
    for row, start, size in zip(padded, starts.tolist(), sizes.tolist(), strict=True):
        row[:size] = text[start : start + size]
    return padded.view(np.uint64)


def _from_wide(words: Words, lengths: Columns) -> Iterator[pl.Series]:
    """`from_words` for wide text."""
    padded = words.view(np.uint8)
    starts = np.zeros(len(padded), dtype=np.int64)
    for length in lengths:
        ends = starts + (length - (length > 0)).view(np.int64)
        places = zip(padded, starts.tolist(), ends.tolist(), strict=True)
        text = b"".join([row[start:end].data for row, start, end in places])
        yield _consecutive(nanoarrow.large_string(), text, ends - starts, length > 0)
        starts = ends


def _chunk(text: pl.Series) -> tuple[Any, Words]:
    """The string views and what they point into; shape (strings, 2)."""
    chunk = next(iter(nanoarrow.c_array_stream(text.rechunk())))
    view = chunk.view()
    pairs = np.frombuffer(view.buffer(1), dtype=np.uint64).reshape(-1, 2)
    return view, pairs[chunk.offset : chunk.offset + len(text)]


def _buffers(text: pl.Series) -> tuple[Words, list[npt.NDArray[np.uint8]]]:
    """String views, one after the other, and the buffers of longer text."""
    view, pairs = _chunk(text)
    return pairs.reshape(-1), [
        np.frombuffer(view.buffer(number), dtype=np.uint8) for number in range(2, view.n_buffers - 1)
    ]


def _views(text: pl.Series) -> tuple[Words, Words]:
    """The two halves of each string's view."""
    _, pairs = _chunk(text)
    return pairs[:, 0], pairs[:, 1]


def _flattened(text: pl.Series, sizes: Words) -> tuple[Words, Words]:
    """All text in one piece, with some words behind it, and where each string begins."""
    if not len(text):
        return np.zeros(2, dtype=np.uint64), sizes
    view, pairs = _chunk(text)
    buffers = [np.frombuffer(view.buffer(number), dtype=np.uint8) for number in range(2, view.n_buffers - 1)]
    held = sum(buffer.size for buffer in buffers)
    if held > _SHARED_MOST * int(sizes.sum()) + len(text):
        # A few strings of a large frame share its buffers: copy theirs only.
        joined = _text(text)
        buffers, starts = [np.frombuffer(joined, dtype=np.uint8)], np.cumsum(sizes) - sizes
        ends = [0, len(joined)]
    else:
        # The views themselves are the text of short strings.
        buffers.insert(0, pairs.reshape(-1).view(np.uint8))
        ends = np.cumsum([0, *(buffer.size for buffer in buffers)]).tolist()
        starts = np.arange(4, 16 * len(text), 16, dtype=np.uint64)
        long = np.flatnonzero(sizes > _INLINE_BYTES)
        places = pairs[long, 1]
        bases = np.array(ends[1:], dtype=np.uint64)
        starts[long] = bases.take((places & _LENGTH).view(np.int64)) + (places >> _HALF)
    flat = np.zeros(ends[-1] // 8 + 3, dtype=np.uint64)
    for buffer, start in zip(buffers, ends, strict=False):
        flat.view(np.uint8)[start : start + buffer.size] = buffer
    return flat, starts


def _series(words: Columns, sizes: Words, lengths: Words) -> pl.Series:
    """Hand text to Polars: as views where all of it is short, else one after the other."""
    if sizes.size and int(sizes.max()) > _INLINE_BYTES:
        padded = np.stack(words, axis=1).view(np.uint8)
        text = padded[np.arange(padded.shape[1]) < sizes.view(np.int64)[:, None]]
        return _consecutive(nanoarrow.large_string(), text, sizes.view(np.int64), lengths > 0)
    views = np.empty((sizes.size, 2), dtype=np.uint64)
    np.bitwise_or(words[0] << _HALF, sizes, out=views[:, 0])
    np.bitwise_or(words[0] >> _HALF, words[1] << _HALF, out=views[:, 1])
    return _arrow(nanoarrow.string_view(), lengths > 0, views.ravel(), np.zeros(0, dtype=np.int64))


def _consecutive(
    kind: nanoarrow.Schema, text: bytes | npt.NDArray[np.uint8], sizes: Index, valid: npt.NDArray[np.bool_]
) -> pl.Series:
    """Strings or binaries whose bytes lie one after the other."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return _arrow(kind, valid, offsets, text)


def _arrow(kind: nanoarrow.Schema, valid: npt.NDArray[np.bool_], *buffers: Any) -> pl.Series:
    validity = None if valid.all() else np.packbits(valid, bitorder="little")
    nulls = 0 if validity is None else -1
    array = nanoarrow.c_array_from_buffers(kind, valid.size, [validity, *buffers], null_count=nulls)
    return pl.Series(nanoarrow.Array(array))
