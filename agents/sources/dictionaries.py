"""Dictionaries of columns of texts: each value of a column has a number, from block to block.

Numbered are values as they are written. For each number a dictionary has the text that it stands for, redacted, as a
code (`elf.agents.language.codes`), and what is made of it, such as a request's path; columns of frames are looked up
in that. So no text is read, redacted or copied again that was there before.

A dictionary has a bound. One that is full gives way to a new one. A column whose values hardly come again has none any
more after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from elf.agents.language.codes import Codes
from elf.agents.sources import arrow
from elf.agents.sources.native import DictionaryKernels, Spans, built_for_dictionaries

#: Values that a dictionary has at most, and their bytes.
ENTRIES_MAX, TEXT_BYTES_MAX = 1 << 16, 2 << 20
#: With how many it begins, and how much larger it gets each time.
_ENTRIES, _TEXT_BYTES, _GROWTH = 1 << 10, 1 << 15, 2
#: A dictionary was worth it if it had so many rows for each of its values when it was full.
ROWS_PER_ENTRY = 4
#: A column has no more dictionaries once so many in a row were not worth it.
WASTED_MAX = 2

#: Makes of values, as they are written, those of a column: of each from one number on.
Make = Callable[[bytes, Spans], pl.Series]
#: Finds parts of values.
Find = Callable[[bytes, Spans], Spans]
Redacted = Callable[[pl.Series], pl.Series]


class Values:
    """What the numbers of a dictionary stand for in one column; texts are codes."""

    def __init__(self) -> None:
        self.by_number: pl.Series | None = None
        self._codes = Codes()

    @property
    def known(self) -> int:
        """How many numbers there are values of."""
        return 0 if self.by_number is None else self.by_number.len()

    def add(self, values: pl.Series) -> None:
        """Take the values of the next numbers."""
        values = self._codes.of(values) if values.dtype == pl.String else values
        known = self.by_number
        self.by_number = values if known is None else pl.concat([known, values], rechunk=True)


class Dictionary:
    """The values of a column, as they are written, by number.

    Args:
        redacted: redacts a column of texts.
    """

    def __init__(self, redacted: Redacted) -> None:
        self._redacted = redacted
        self._slots = np.zeros(2 * _ENTRIES, np.uint64)
        self._texts = np.empty(_TEXT_BYTES, np.uint8)
        self._offsets = np.zeros(_ENTRIES + 1, np.int64)
        self._columns: dict[str, Values] = {}
        self._parts: dict[str, Dictionary] = {}
        self.known = 0
        self.rows = 0

    def numbers(self, block: bytes, spans: Spans) -> pl.Series | None:
        """Return the numbers of values; None: there is no room for all."""
        kernels = built_for_dictionaries()
        assert kernels is not None, "without kernels there are no dictionaries"
        rows = len(spans)
        codes, valid = np.empty(rows, np.uint32), arrow.bitmap(rows)
        reached = nulls = 0
        while True:
            reached, self.known, more = kernels.look_up(
                block, spans, reached, self._slots, self._texts, self._offsets, self.known, codes, valid
            )
            nulls += more
            if reached == rows:
                break
            begin, end = spans[reached].tolist()
            if not self._grow(kernels, end - begin):
                return None
        self.rows += rows
        return arrow.numbers("", arrow.UINT32, codes, valid) if nulls else pl.Series(codes)

    def _grow(self, kernels: DictionaryKernels, size: int) -> bool:
        """Make room for another value of a size; tell whether there is any."""
        used, entries = int(self._offsets[self.known]), len(self._offsets) - 1
        if used + size > len(self._texts):
            if used + size > TEXT_BYTES_MAX:
                return False
            grown = min(max(_GROWTH * len(self._texts), used + size), TEXT_BYTES_MAX)
            texts = np.empty(grown, np.uint8)  # what is not used yet takes no memory
            texts[:used] = self._texts[:used]
            self._texts = texts
            return True
        # Or too many of its values are alike: that will be better, or the dictionary is full.
        if entries == ENTRIES_MAX:
            return False
        entries = min(_GROWTH * entries, ENTRIES_MAX)
        self._offsets = np.concatenate([self._offsets, np.zeros(entries + 1 - len(self._offsets), np.int64)])
        self._slots = np.zeros(2 * entries, np.uint64)
        return kernels.fill_slots(self._slots, self._texts, self._offsets, self.known) == self.known

    def column(self, name: str, numbers: pl.Series, make: Make) -> pl.Series:
        """Return a column that is made of the values with these numbers; null where there is none."""
        values = self._columns.setdefault(name, Values())
        if values.known < self.known or values.by_number is None:
            made = make(*self._entries(values.known)).alias(name)
            values.add(self._redacted(made) if made.dtype == pl.String else made)
        assert values.by_number is not None
        return values.by_number[numbers].alias(name)

    def part(self, name: str, numbers: pl.Series, find: Find, make: Make) -> pl.Series | None:
        """Return a column that is made of parts of these values, each once; None if there is no room for them.

        Args:
            name: the column's name.
            numbers: of the values.
            find: finds the parts of values.
            make: makes the column's values of them.
        """
        dictionary = self._parts.setdefault(name, Dictionary(self._redacted))
        values = self._columns.setdefault(name, Values())
        if values.known < self.known or values.by_number is None:
            block, spans = self._entries(values.known)
            parts = dictionary.numbers(block, find(block, spans))
            if parts is None:
                return None
            values.add(dictionary.column(name, parts, make))
        assert values.by_number is not None
        return values.by_number[numbers].alias(name)

    def _entries(self, first: int) -> tuple[bytes, Spans]:
        """Return the values from a number on, as they are written, as texts of a block."""
        begin, end = int(self._offsets[first]), int(self._offsets[self.known])
        places = self._offsets[first : self.known + 1] - begin
        return self._texts[begin:end].tobytes(), np.stack([places[:-1], places[1:]], axis=1).astype(np.int32)


class Coded(NamedTuple):
    """The values of a block's lines.

    Attributes:
        dictionary: what they are numbered by.
        numbers: of each line; null where it has no value.
    """

    dictionary: Dictionary
    numbers: pl.Series

    def column(self, name: str, make: Make) -> pl.Series:
        """Return a column that is made of the values; null where there is none."""
        return self.dictionary.column(name, self.numbers, make)

    def part(self, name: str, find: Find, make: Make) -> pl.Series | None:
        """Return a column that is made of parts of the values; None if there is no room for them."""
        return self.dictionary.part(name, self.numbers, find, make)


class Dictionaries:
    """The dictionaries of a source's columns; used by one thread at a time.

    Args:
        redacted: redacts a column of texts, named as the source's: nobody sees a code before.
    """

    def __init__(self, redacted: Redacted) -> None:
        self._redacted = redacted
        self._columns: dict[str, Dictionary | None] = {}
        self._wasted: dict[str, int] = {}

    def coded(self, name: str, block: bytes, spans: Spans) -> Coded | None:
        """Number the values of a column of a block; None: they are too many for that."""
        if name not in self._columns:
            self._columns[name] = Dictionary(self._redacted) if built_for_dictionaries() else None
        dictionary = self._columns[name]
        while dictionary is not None:
            numbers = dictionary.numbers(block, spans)
            if numbers is not None:
                return Coded(dictionary, numbers)
            is_new = not dictionary.rows
            dictionary = self._columns[name] = self._next(name, dictionary)
            if is_new:
                break
        return None

    def has_given_up(self, column: str) -> bool:
        """Tell whether a column has no dictionaries any more."""
        return self._columns.get(column, self) is None

    def _next(self, name: str, full: Dictionary) -> Dictionary | None:
        is_worth_it = full.rows >= ROWS_PER_ENTRY * full.known
        self._wasted[name] = 0 if is_worth_it else self._wasted.get(name, 0) + 1
        return None if self._wasted[name] >= WASTED_MAX else Dictionary(self._redacted)
