"""The root's buffer: the only place in a tree where rows lie uncompressed, though in integers as narrow as they fit in.

Its arrays are made once and filled again and again: arrays that came and went with every insert would leave holes all
over the heap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt import columns
from cbt.hashing import Words
from cbt.rows import Rows, State

_CAPACITY_MIN = 512


class _Column:
    """Values of one column: as narrow as the largest so far, and without memory as long as they are all the same."""

    def __init__(self) -> None:
        self._values: npt.NDArray[Any] | None = None
        self._same = 0

    def put(self, words: Words, start: int, capacity: int) -> None:
        """Write values behind the first `start` ones."""
        if self._values is None:
            if columns.is_constant(words) and (start == 0 or int(words[0]) == self._same):
                self._same = int(words[0])
                return
            self._values = np.full((capacity, *words.shape[1:]), self._same, dtype=np.min_scalar_type(self._same))
        dtype = np.promote_types(self._values.dtype, np.min_scalar_type(words.max(initial=0)))
        if len(self._values) < start + len(words) or dtype != self._values.dtype:
            grown = np.empty((capacity, *words.shape[1:]), dtype)
            grown[:start] = self._values[:start]
            self._values = grown
        self._values[start : start + len(words)] = words

    def get(self, count: int) -> Words:
        """The first values; a view, if nothing narrower holds them."""
        if self._values is None:
            return columns.constant(self._same, count)
        return self._values[:count].astype(np.uint64, copy=False)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 0 if self._values is None else self._values.nbytes


class RootBuffer:
    """Rows of one key width, in any order.

    Args:
        rows: rows it is expected to hold at most.
    """

    def __init__(self, rows: int) -> None:
        self._expected = rows
        self._rows = self._capacity = 0
        #: The words, the order, then the states that are numbers.
        self._columns: list[_Column] = []
        #: The states: the numbers' type, or the series of each append.
        self._states: list[np.dtype[Any] | list[pl.Series]] = []
        self._width = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        series = [part for state in self._states if isinstance(state, list) for part in state]
        return sum(column.nbytes for column in self._columns) + sum(int(part.estimated_size()) for part in series)

    def append(self, rows: Rows) -> None:
        """Copy rows in."""
        if not self._rows:
            self._begin(rows)
        total = self._rows + len(rows)
        if total > self._capacity:
            doubled = max(2 * self._capacity, _CAPACITY_MIN)
            self._capacity = max(total, min(doubled, self._expected))
        numbers = iter(self._columns)
        for words in [*rows.words, rows.order]:
            next(numbers).put(words, self._rows, self._capacity)
        for kept, state in zip(self._states, rows.states, strict=True):
            if isinstance(kept, list):
                assert isinstance(state, pl.Series)
                kept.append(state)
            else:
                next(numbers).put(_as_words(state), self._rows, self._capacity)
        self._rows = total

    def rows(self) -> Rows:
        """What it holds, at least one row; good until the next append."""
        numbers = iter(self._columns)
        words = [next(numbers).get(self._rows) for _ in range(self._width)]
        order = next(numbers).get(self._rows)
        states: list[State] = []
        for kept in self._states:
            if isinstance(kept, list):
                states.append(kept[0] if len(kept) == 1 else pl.concat(kept))
            else:
                values = next(numbers).get(self._rows)
                states.append(values.astype(np.uint8) if kept == np.uint8 else values.view(kept))
        return Rows(words, order, states)

    def clear(self) -> None:
        """Forget the rows; keep the memory of numbers, of which the next ones need as much."""
        self._rows = 0
        for state in self._states:
            if isinstance(state, list):
                state.clear()

    def replace(self, parts: Sequence[Rows]) -> None:
        """Hold these rows instead."""
        self.clear()
        for part in parts:
            self.append(part)

    def _begin(self, rows: Rows) -> None:
        self._width = len(rows.words)
        self._states = [[] if isinstance(state, pl.Series) else state.dtype for state in rows.states]
        numbers = self._width + 1 + sum(not isinstance(state, list) for state in self._states)
        self._columns = self._columns or [_Column() for _ in range(numbers)]


def _as_words(state: State) -> Words:
    assert isinstance(state, np.ndarray)
    return state.astype(np.uint64) if state.dtype == np.uint8 else state.view(np.uint64)
