"""PAOs of many intervals that have few rows each, in one table: N intervals cost what N rows cost. Pure.

A buffer tree for each would take some 10 KiB and, whenever all of them are read out, a tenth of a millisecond; and
whoever writes lines chooses how many there are. What the table has does not change until it is made anew, so it is
stored once; stored beside it is what has come since, and which intervals have been taken out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.completeness.runs import RunsAfter, union
from elf.agents.worker.paos import ascending, chosen
from elf.cbt import INTERVAL, PaoSchema
from elf.cbt.frames import joined

#: Rows that come are merged into the table once they are so many, and no less than this part of it: each row is then
#: merged a few times, however many there are.
FRESH_ROWS, FRESH_PART = 4_096, 1 / 4
#: So few that rest are stored again each time rather than the table.
RESTING_ROWS = 256
#: Runs that are remembered as taken out; with more the table is made anew.
GONE_MAX = 256

Ints = npt.NDArray[np.int64]


class Scattered:
    """Rows of one kind of PAOs.

    Args:
        schema: theirs.
        numbers: yields numbers for tables, ascending.

    Attributes:
        schema: theirs.
        table: most of them, ascending by interval; one row for each interval and key.
        number: rises whenever the table is made anew.
        gone: runs of intervals, (after, through], that were taken out of the table since.
    """

    __slots__ = ("_at", "_fresh", "_fresh_rows", "_made_rows", "_numbers", "_seen", "gone", "number", "schema", "table")

    def __init__(self, schema: PaoSchema, numbers: Iterator[int]) -> None:
        self.schema = schema
        self._numbers = numbers
        self._fresh: list[pl.DataFrame] = []
        self._fresh_rows = 0
        #: Frames that have come, and how many there were when they were stored last.
        self._seen = 0
        self._renew(schema.empty())

    def _renew(self, table: pl.DataFrame) -> None:
        self.number = next(self._numbers)
        self.gone: RunsAfter = ()
        self._made_rows = table.height
        self._show(table)

    def _show(self, table: pl.DataFrame) -> None:
        self.table = table
        self._at: Ints = table[INTERVAL].to_numpy()

    def __len__(self) -> int:
        """How many rows there are, those of equal keys counted several times while they are not merged."""
        return self.table.height + self._fresh_rows

    def __contains__(self, interval: int) -> bool:
        """Whether an interval has rows. O(log table + rows that have come since it was made)."""
        first, last = np.searchsorted(self._at, [interval, interval + 1])
        return bool(first < last) or any((frame[INTERVAL] == interval).any() for frame in self._fresh)

    @property
    def memory_bytes(self) -> int:
        """Bytes held; may be asked for by any thread."""
        return sum(int(frame.estimated_size()) for frame in [self.table, *self._fresh])

    def insert(self, rows: pl.DataFrame) -> None:
        """Add rows. Amortised O(log rows) for each.

        Raises:
            ValueError: these are not the schema's columns; nothing was added.
            AggregateOverflow: an exact sum left its range.
        """
        if not rows.height:
            return
        self.schema.format.validate(rows)
        self._fresh.append(rows if rows.columns == [*self.schema.columns] else rows.select(*self.schema.columns))
        self._fresh_rows += rows.height
        if self._fresh_rows >= max(FRESH_ROWS, self.table.height * FRESH_PART):
            self.settle()

    def settle(self) -> None:
        """Merge what has come into the table. O(rows log rows)."""
        if self._fresh:
            merged = ascending(self.schema.merge([self.table, *self._fresh]))
            self._fresh = []
            self._fresh_rows = 0
            self._renew(merged)

    def resting(self) -> pl.DataFrame:
        """Return what the table lacks, to be stored beside it; what has not changed since last time, it has."""
        if self._fresh_rows > RESTING_ROWS and self._seen == len(self._fresh):
            self.settle()
        elif len(self._fresh) > 1:
            self._fresh = [ascending(self.schema.merge(self._fresh))]
            self._fresh_rows = self._fresh[0].height
        self._seen = len(self._fresh)
        return self._fresh[0] if self._fresh else self.schema.empty()

    def intervals(self, first: int, last: int) -> Ints:
        """Return the intervals from one to another, both included, that have rows, ascending."""
        begin, end = np.searchsorted(self._at, [first, last + 1])
        found = [self._at[begin:end]]
        for frame in self._fresh:
            at = frame[INTERVAL].to_numpy()
            found.append(at[(at >= first) & (at <= last)])
        found = [each for each in found if len(each)]
        return np.unique(np.concatenate(found)) if found else self._at[:0]

    def all(self) -> pl.DataFrame:
        """Return all rows, ascending by interval; they stay. O(rows log rows) while there are any to be merged."""
        self.settle()
        return self.table

    def take(self, first: int, last: int) -> pl.DataFrame:
        """Take out the rows of these intervals, both ends included; returns them merged, ascending by interval.

        O(rows taken + rows that have come since the table was made), and now and then O(table).
        """
        begin, end = map(int, np.searchsorted(self._at, [first, last + 1]))
        parts, left = list[pl.DataFrame](), list[pl.DataFrame]()
        for frame in self._fresh:
            at = frame[INTERVAL].to_numpy()
            inside = (at >= first) & (at <= last)
            parts += [chosen(frame, inside)] if inside.any() else []
            left += [chosen(frame, ~inside)] if not inside.all() else []
        if parts:
            self._fresh = left
            self._fresh_rows = sum(frame.height for frame in left)
            self._seen = -1
        taken = self.table[begin:end]
        if begin < end:
            self.gone = union(self.gone, ((first - 1, last),))
            self._cut(begin, end)
        return ascending(self.schema.merge([taken, *parts])) if parts else taken

    def _cut(self, begin: int, end: int) -> None:
        """Take rows out of the table; what is left is made anew once that is less than half of it."""
        left = joined([part for part in (self.table[:begin], self.table[end:]) if part.height] or [self.table[:0]])
        if left.height * 2 <= self._made_rows or len(self.gone) > GONE_MAX:
            # By rows, or it would hold all that the table held.
            self._renew(left[np.arange(left.height)])
        else:
            self._show(left.rechunk())

    def keep(self, intervals: Ints) -> None:
        """Forget all other intervals. O(rows)."""
        self.settle()
        self._renew(chosen(self.table, np.isin(self._at, intervals)))

    def grown(self, rows: int) -> list[int]:
        """Return the intervals that have more rows than that in the table."""
        begins = np.flatnonzero(np.diff(self._at, prepend=np.int64(-(2**63))))
        counts = np.diff(np.append(begins, len(self._at)))
        return [int(self._at[at]) for at in begins[counts > rows]]
