"""Keys as columns of 64-bit words: what the buffer tree sorts, compares, hashes and packs.

A key is `interval`, one word for the nulls of its fixed-width columns, one word for each of them, one word for the
length of each string (plus one; 0 is null, so null and empty differ), and the strings' bytes one after the other,
padded with zeros. Keys whose text needs about the same number of words form one *width*; every operation within a
width is then the same few NumPy calls on whole columns, whatever the keys mean. Two keys are equal if and only if
they have the same width and the same words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl

from elf.cbt import columns, strings
from elf.cbt.columns import Columns, Index, Words
from elf.cbt.hashing import hash_padded, hash_words, mix64

#: Rows are ordered by the upper bits of the hash; the lower ones leave room for a row number while sorting.
ORDER_BITS = 40
ROWS_MAX = 1 << (64 - ORDER_BITS)
ORDER_MASK = np.uint64(2**64 - ROWS_MAX)

#: The widths of keys with text, in words: steps of a third to a half, so at most a third of a row is padding.
_STEPS = [2, 3] + [step << shift for shift in range(1, 30) for step in (2, 3)]
WIDTHS: Index = np.array(_STEPS, dtype=np.int64)
#: Values of these types are words, equal where the values are.
_FIXED = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.Float64, pl.Boolean)
_TIMES = (pl.Date, pl.Datetime, pl.Duration, pl.Time)
_FIXED_MAX = 64
_CANONICAL_NAN = np.uint64(0x7FF8000000000000)


class KeyLayout(msgspec.Struct, frozen=True, dict=True):
    """Where the columns of a key lie in its words.

    Attributes:
        columns: name and Polars type of every key column, `interval` first.

    Raises:
        ValueError: keys cannot be of such a type, or are too many.
    """

    columns: tuple[tuple[str, pl.DataType], ...]

    def __post_init__(self) -> None:
        for name, dtype in self.columns:
            if dtype.base_type() not in (*_FIXED, *_TIMES, pl.String):
                raise ValueError(f"key column {name!r} is of type {dtype}, by whose values the tree cannot group")
        if len(self.fixed) > _FIXED_MAX:
            raise ValueError(f"{len(self.fixed)} key columns that are not strings; at most {_FIXED_MAX} are possible")

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """The string columns."""
        return tuple(name for name, dtype in self.columns[1:] if dtype == pl.String)

    @functools.cached_property
    def fixed(self) -> dict[str, pl.DataType]:
        """The other columns without `interval`."""
        return {name: dtype for name, dtype in self.columns[1:] if dtype != pl.String}

    @functools.cached_property
    def lengths_at(self) -> int:
        """Row of the first string length; before it lie interval, nulls and fixed-width columns."""
        return 2 + len(self.fixed) if self.fixed else 1

    @functools.cached_property
    def text_at(self) -> int:
        """Row of the first word of text."""
        return self.lengths_at + len(self.texts)

    def text_bytes(self, words: Columns) -> Words:
        """The bytes of text in each key; shape (keys,)."""
        lengths = words[self.lengths_at : self.text_at]
        if len(lengths) == 1 and columns.is_constant(lengths[0]) and lengths[0].size:
            return columns.constant(max(int(lengths[0][0]) - 1, 0), lengths[0].size)
        total = np.zeros(words[0].size, dtype=np.uint64)
        for length in lengths:
            total += length
            total -= length > 0
        return total

    def order(self, words: Columns) -> Words:
        """The place of each key in the tree's order: upper bits of its hash, `interval` mixed in. O(keys)."""
        return self._placed(self.partition_hash(words), words[0])

    def partition_hash(self, words: Columns) -> Words:
        """The fixed hash of each key without its interval. O(keys)."""
        return hash_words(words[1:], words[0].size)

    def encode(self, frame: pl.DataFrame) -> Iterator[tuple[Index | None, Columns]]:
        """Turn the key columns of a frame into words, width by width.

        Yields:
            The numbers of the rows (None: all of them) and their words; at least one row each time.
        """
        if not frame.height:
            return
        head = self._head(frame)
        if not self.texts:
            yield None, head
            return
        text, total = self._text(frame, head)
        widths = np.searchsorted(WIDTHS * 8, total.view(np.int64)) if total.max() > 8 * WIDTHS[0] else None
        if widths is None:
            yield None, head + text.words(total, int(WIDTHS[0]))
            return
        present = np.flatnonzero(np.bincount(widths))
        for width in present.tolist():
            rows = np.flatnonzero(widths == width)
            top = [columns.take(word, rows) for word in head]
            yield rows, top + text.words(total, int(WIDTHS[width]), rows)

    def encode_padded(self, frame: pl.DataFrame, words_max: int) -> tuple[Columns, Words] | None:
        """Turn the key columns of a frame, which has rows, into words of one width for all, that of the longest text.

        Args:
            frame: the keys, among other columns.
            words_max: of a key; at most `WIDE_WORDS`.

        Returns:
            The words, and the place of each key in the tree's order; None where a key would need more words.
        """
        head = self._head(frame)
        if not self.texts:
            return head, self.order(head)
        text, total = self._text(frame, head)
        own = WIDTHS.take(np.searchsorted(WIDTHS * 8, total.view(np.int64)))
        widest = int(own.max())
        if len(head) + widest > words_max:
            return None
        words = head + text.words(total, widest)
        hashed = hash_padded(words[1:], (own + (len(head) - 1)).view(np.uint64))
        return words, self._placed(hashed, words[0])

    def widths(self, words: Columns) -> Index:
        """The width of each key's own text, of keys of one width for all, in words. O(keys)."""
        return WIDTHS.take(np.searchsorted(WIDTHS * 8, self.text_bytes(words).view(np.int64)))

    def decode(self, words: Columns) -> dict[str, pl.Series]:
        """Turn words back into key columns, in the layout's order."""
        series: dict[str, pl.Series] = {}
        for number, (name, dtype) in enumerate(self.fixed.items()):
            column = _from_word(words[2 + number], dtype)
            null = (words[1] >> np.uint64(number)) & np.uint64(1)
            series[name] = column.set(pl.Series(null.astype(bool)), None) if null.any() else column
        lengths = words[self.lengths_at : self.text_at]
        series |= dict(zip(self.texts, strings.from_words(words[self.text_at :], lengths), strict=True))
        interval = pl.Series(words[0].view(np.int64))
        return {name: (series[name] if number else interval) for number, (name, _) in enumerate(self.columns)}

    def _placed(self, hashed: Words, intervals: Words) -> Words:
        """Make keys' places of their partition hashes, in their place."""
        hashed ^= mix64(intervals[:1] if columns.is_constant(intervals) else intervals)
        hashed &= ORDER_MASK
        return hashed

    def _text(self, frame: pl.DataFrame, head: Columns) -> tuple[strings.Texts, Words]:
        """Add the lengths of a key's strings to its head; returns all its text, and the bytes of each key's."""
        series = [frame[name] for name in self.texts]
        sizes = [strings.sizes(column) for column in series]
        for column, size in zip(series, sizes, strict=True):
            length = size + np.uint64(1)
            if column.null_count():
                length[column.is_null().to_numpy()] = 0
            head.append(columns.simplified(length))
        total = sizes[0] if len(sizes) == 1 else functools.reduce(np.add, sizes)
        return strings.Texts(strings.joined(series)), total

    def _head(self, frame: pl.DataFrame) -> Columns:
        """Fill the words before the lengths."""
        head = [columns.simplified(frame[self.columns[0][0]].to_numpy().view(np.uint64))]
        if not self.fixed:
            return head
        nulls = np.zeros(frame.height, dtype=np.uint64)
        for number, name in enumerate(self.fixed):
            if frame[name].null_count():
                nulls |= frame[name].is_null().to_numpy().astype(np.uint64) << np.uint64(number)
        return [*head, columns.simplified(nulls), *(columns.simplified(_to_word(frame[name])) for name in self.fixed)]


def _to_word(series: pl.Series) -> Words:
    """One word a value; values that group together (NaNs, the zeros) get the same word, nulls any."""
    # Each of these is a query in Polars, and takes longer than all the rest for the few rows of most frames.
    if series.dtype == pl.Boolean:
        return _without_nulls(series, False).to_numpy().astype(np.uint64)
    if not (series.dtype.is_integer() or series.dtype.is_float()):
        series = series.to_physical()
    values = _without_nulls(series, 0).to_numpy()
    if values.dtype.kind == "f":
        word = (values + 0.0).view(np.uint64)
        return np.where(np.isnan(values), _CANONICAL_NAN, word)
    return values.astype(np.int64).view(np.uint64)


def _without_nulls(series: pl.Series, value: int) -> pl.Series:
    return series.fill_null(value) if series.null_count() else series


def _from_word(word: Words, dtype: pl.DataType) -> pl.Series:
    if dtype.is_float():
        return pl.Series(word.view(np.float64))
    if dtype == pl.Boolean:
        return pl.Series(word != 0)
    values = pl.Series(word.view(np.int64))
    return values.cast(pl.Int32).cast(dtype) if dtype in (pl.Int32, pl.Date) else values.cast(dtype)
