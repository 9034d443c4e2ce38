"""The root's buffer: the only place in a tree where rows lie uncompressed, though in integers as narrow as they fit in.

Its arrays are made once and filled again and again: arrays that came and went with every insert would leave holes all
over the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt import columns
from elf.cbt.columns import Columns, Words
from elf.cbt.native import Argument, argument
from elf.cbt.rows import Rows, State, numbered, sorted_orders

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
        values = self.view(count)
        return values if columns.is_constant(values) else values.astype(np.uint64, copy=False)

    def view(self, count: int) -> npt.NDArray[Any]:
        """The first values, as narrow as they are held."""
        return columns.constant(self._same, count) if self._values is None else self._values[:count]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 0 if self._values is None else self._values.nbytes


class RootBuffer:
    """Rows of one key width, in any order.

    Args:
        rows: rows it is expected to hold at most.
        order: the place of each key in the tree's order; computed again when it is needed.
    """

    def __init__(self, rows: int, order: Callable[[Columns], Words]) -> None:
        self._expected = rows
        self._order = order
        self._rows = self._capacity = 0
        #: The words, then the states that are numbers.
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

    def append(self, words: Columns, states: Sequence[State]) -> None:
        """Copy rows in."""
        if not self._rows:
            self._begin(words, states)
        count = words[0].shape[0]
        total = self._rows + count
        if total > self._capacity:
            grown = max(self._capacity * 3 // 2, _CAPACITY_MIN)
            self._capacity = max(total, min(grown, self._expected))
        numbers = iter(self._columns)
        for word in words:
            next(numbers).put(word, self._rows, self._capacity)
        for kept, state in zip(self._states, states, strict=True):
            if isinstance(kept, list):
                assert isinstance(state, pl.Series)
                kept.append(state)
            else:
                next(numbers).put(_as_words(state), self._rows, self._capacity)
        self._rows = total

    def rows(self) -> Rows:
        """What it holds, at least one row; good until the next append."""
        words, states = self.columns()
        return Rows(words, self._order(words), states)

    def columns(self) -> tuple[Columns, list[State]]:
        """The words and states of the rows, at least one; good until the next append."""
        numbers = iter(self._columns)
        words = [next(numbers).get(self._rows) for _ in range(self._width)]
        states: list[State] = []
        for kept in self._states:
            if isinstance(kept, list):
                states.append(kept[0] if len(kept) == 1 else pl.concat(kept))
            else:
                values = next(numbers).get(self._rows)
                states.append(values.astype(np.uint8) if kept == np.uint8 else values.view(kept))
        return words, states

    def ranked(self) -> tuple[Words, int]:
        """The rows' orders, sorted, with their numbers in the lower bits; and how many orders there are. O(rows)."""
        words = [column.view(self._rows) for column in self._columns[: self._width]]
        return sorted_orders(numbered(self._order(words)))

    def arguments(self) -> list[Argument] | None:
        """Words and states as kernels take them, at least one row; None if some are none for them."""
        if any(isinstance(state, list) for state in self._states):
            return None
        return [argument(column.view(self._rows)) for column in self._columns]

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
            self.append(part.words, part.states)

    def _begin(self, words: Columns, states: Sequence[State]) -> None:
        self._width = len(words)
        self._states = [[] if isinstance(state, pl.Series) else state.dtype for state in states]
        numbers = self._width + sum(not isinstance(state, list) for state in self._states)
        self._columns = self._columns or [_Column() for _ in range(numbers)]


def _as_words(state: State) -> Words:
    assert isinstance(state, np.ndarray)
    return state.astype(np.uint64) if state.dtype == np.uint8 else state.view(np.uint64)
