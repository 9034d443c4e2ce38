"""Merging many frames one after the other, without holding all of them.

Frames of the same keys in the same order, as merged frames of the same keys are, merge column by column: nothing is
sorted and no key is copied. All others wait until there are many rows.
"""

from __future__ import annotations

import polars as pl

from elf.cbt.schema import INTERVAL, PaoSchema

#: Rows that wait to be merged, at most, and a frame.
WAITING_ROWS = 1 << 20


class Merging:
    """Merges frames over all their intervals; each has one row for every (interval, keys, slots).

    Args:
        schema: of all frames.
    """

    def __init__(self, schema: PaoSchema) -> None:
        self._schema = schema
        self._waiting: list[pl.DataFrame] = []
        #: Which of those waiting has most keys, each once; others are held against it.
        self._largest: int | None = None
        self._rows = 0
        #: Rows added.
        self.count = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Add a frame, which may lack the `interval` column. O(rows), merging apart."""
        if not frame.height:
            return
        self.count += frame.height
        single = INTERVAL not in frame.columns or frame[INTERVAL].min() == frame[INTERVAL].max()
        frame = self._schema.at_zero(frame)
        largest = None if self._largest is None else self._waiting[self._largest]
        if single and largest is not None and self._largest is not None:
            together = self._schema.merge_alike(largest, frame)
            if together is not None:
                self._waiting[self._largest] = together
                return
        if single and (largest is None or frame.height > largest.height):
            self._largest = len(self._waiting)
        self._waiting.append(frame)
        self._rows += frame.height
        if self._rows > WAITING_ROWS:
            merged = self._schema.merge(self._waiting)
            self._waiting = [merged]
            self._largest = 0
            self._rows = 0

    def result(self) -> pl.DataFrame:
        """Return all rows merged, in interval 0. O(rows log rows)."""
        if len(self._waiting) == 1 and self._largest == 0:
            return self._waiting[0]
        return self._schema.merge(self._waiting)
