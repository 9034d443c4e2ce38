"""The shape of a job's PAOs: which columns are keys, which are states, and how rows of equal keys merge."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from elf.cbt.aggregates.contract import Aggregate
from elf.cbt.aligned import added, leads, subtracted
from elf.cbt.blocks import BlockFormat
from elf.cbt.frames import FrameFormat, joined
from elf.cbt.fusing import Fusing, fusing
from elf.cbt.reducing import Combiner, combiner, reducer
from elf.cbt.rows import FEW_ROWS, NARROW_WORDS, Reduce, sort, subtract, together
from elf.cbt.words import KeyLayout

#: The first key of every PAO: the index of its interval, start_ms // interval_ms.
INTERVAL = "interval"


class PaoSchema(msgspec.Struct, frozen=True, dict=True):
    """Columns of a PAO frame: `interval`, the keys, the slots of slotted aggregates, then the states of each aggregate.

    Keys and slots may be null, states may not.

    Attributes:
        keys: name and type of each key column, `interval` not among them; may be empty.
        aggregates: name and definition of each aggregate, in state-column order.
    """

    keys: tuple[tuple[str, pl.DataType], ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    @functools.cached_property
    def key_names(self) -> tuple[str, ...]:
        """The key columns without `interval` and slots."""
        return tuple(name for name, _ in self.keys)

    @functools.cached_property
    def slots(self) -> dict[str, pl.DataType]:
        """The slot columns of all aggregates: more key columns, null in plain rows."""
        return {slot: dtype for name, each in self.aggregates for slot, dtype in each.slots(name).items()}

    @functools.cached_property
    def states(self) -> dict[str, pl.DataType]:
        """The state columns of all aggregates."""
        return {state: dtype for name, each in self.aggregates for state, dtype in each.states(name).items()}

    @functools.cached_property
    def added(self) -> dict[str, object]:
        """The states that PAOs of earlier releases do not have, with what stands for them there."""
        return {state: value for name, each in self.aggregates for state, value in each.added(name).items()}

    @functools.cached_property
    def columns(self) -> dict[str, pl.DataType]:
        """All columns of a PAO frame with their types, in order."""
        return {INTERVAL: pl.Int64(), **dict(self.keys), **self.slots, **self.states}

    @functools.cached_property
    def addressing(self) -> tuple[str, ...]:
        """The columns that tell a row from others: `interval`, keys and slots."""
        return (INTERVAL, *self.key_names, *self.slots)

    @functools.cached_property
    def invertible(self) -> bool:
        """Whether PAOs can be taken out again: there are states, and all of them add up."""
        return bool(self.states) and all(aggregate.invertible for _, aggregate in self.aggregates)

    @functools.cached_property
    def has_numbers(self) -> bool:
        """Whether all states are numbers or flags, neither text nor bytes."""
        return not any(dtype in (pl.String, pl.Binary) for dtype in self.states.values())

    @functools.cached_property
    def format(self) -> FrameFormat:
        """How its frames become rows that can be merged, and back."""
        return FrameFormat(KeyLayout(((INTERVAL, pl.Int64()), *self.keys, *self.slots.items())), self.states)

    @functools.cached_property
    def reduce(self) -> Reduce:
        """How the states of equal keys merge."""
        return reducer(tuple(self.states), [merge for name, each in self.aggregates for merge in each.merges(name)])

    def fusing(self, format: BlockFormat) -> Fusing | None:
        """What merges blocks of its rows without unpacking them; None if nothing does."""
        return fusing(format, tuple(self.states), [m for name, each in self.aggregates for m in each.merges(name)])

    @functools.cached_property
    def combine(self) -> Combiner:
        """How the states of PAOs merge row by row, where all of them are numbers."""
        return combiner(tuple(self.states), [merge for name, each in self.aggregates for merge in each.merges(name)])

    def empty(self) -> pl.DataFrame:
        """Return the PAO frame without rows, which all share: nobody may change a frame in place."""
        return self._empty

    @functools.cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.columns)

    def merge(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Merge PAO frames into one with a row per (interval, keys, slots). O(rows log rows).

        Raises:
            AggregateOverflow: an exact sum left its range.
        """
        filled = [frame for frame in frames if frame.height]
        if sum(frame.height for frame in filled) <= FEW_ROWS and (few := self._few(filled)) is not None:
            return few
        widths = self.format.widths(filled)
        merged = [rows for _, parts in sorted(widths.items()) for rows in sort(parts, self.reduce)]
        return joined([self.format.to_frame(rows) for rows in together(merged)]) if merged else self.empty()

    def _few(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        """Merge few rows in one go whatever their widths, each of which costs what a thousand rows do."""
        for frame in frames:
            self.format.validate(frame)
        if not frames:
            return None
        # Frames of one schema may have its columns in any order; putting them in one is a query.
        frame = joined([each if each.columns == [*self.columns] else each.select(*self.columns) for each in frames])
        rows = self.format.to_padded_rows(frame, NARROW_WORDS)
        if rows is None:
            return None
        (merged,) = sort([rows], self.reduce)
        return self.format.to_frame(self.format.by_width(merged))

    def merge_window(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Merge PAO frames of several intervals into one row per (keys, slots), without the `interval` column."""
        return without_interval(self.merge([self.at_zero(frame) for frame in frames]))

    def merge_alike(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame | None:
        """Merge two frames of interval 0 that have the same keys in the same order, and numbers for states. O(rows).

        Returns:
            None if they are not such frames.
        """
        if left.height != right.height or not self.has_numbers or not leads(left, right, self.addressing):
            return None
        return self.format.with_states(left, self.combine(self.format.numbers(left), self.format.numbers(right)))

    def merge_interval(self, frames: Sequence[pl.DataFrame], interval: int) -> pl.DataFrame:
        """Merge PAO frames of one interval; frames of equal keys come in the same order whatever their interval."""
        merged = self.merge([self.at_zero(frame) for frame in frames])
        at = pl.Series(INTERVAL, np.full(merged.height, interval, np.int64))
        return pl.DataFrame([at, *(column for column in merged.get_columns() if column.name != INTERVAL)])

    def at_zero(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Put all rows of a frame, which may lack the `interval` column, into interval 0. O(rows)."""
        zeros = pl.Series(INTERVAL, np.zeros(frame.height, np.int64))
        # Not `with_columns`, which is a query: it takes a tenth as long.
        return pl.DataFrame([zeros, *(frame[name] for name in self.columns if name != INTERVAL)])

    def add_to_total(
        self, total: pl.DataFrame, frames: Sequence[pl.DataFrame], later: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Merge frames into a total, all of it in interval 0; its rows keep their places. Only if `invertible`.

        Args:
            total: as this method or `merge` made it.
            frames: what is added.
            later: a total that has been made of this one and has the frames' keys: of its order, the result can be
                taken out of it by `difference` in less time.
        """
        rows = self.merge([self.at_zero(frame) for frame in frames])
        if len(self.addressing) == 1:
            return self.merge([total, rows])
        return added(total, rows, self.addressing, later)

    def difference(self, later: pl.DataFrame, earlier: pl.DataFrame, plus: Sequence[pl.DataFrame] = ()) -> pl.DataFrame:
        """Merge like `merge_window` what is in a later total and not in an earlier one, and what comes on top.

        Paper: section 3.1, PAO15 - PAO5. Only for schemas that are `invertible`, and where all of `earlier` is in
        `later` too. Rows whose states are all zero go. O(rows) where the earlier total leads the later one, else
        O(rows log rows).
        """
        if leads(earlier, later, self.addressing):
            left = without_interval(subtracted(later, earlier, self.addressing))
            return self.merge_window([left, *plus]) if plus else left
        return self._difference([later, *plus], [earlier])

    def _difference(self, frames: Sequence[pl.DataFrame], earlier: Sequence[pl.DataFrame]) -> pl.DataFrame:
        mine, theirs = (
            self.format.widths(self.at_zero(frame) for frame in each if frame.height) for each in (frames, earlier)
        )
        left: list[pl.DataFrame] = []
        for width, parts in sorted(mine.items()):
            before = sort(theirs[width], self.reduce) if width in theirs else iter(())
            left += map(self.format.to_frame, subtract(sort(parts, self.reduce), before, self.reduce))
        return without_interval(pl.concat([self.empty(), *left]))


def without_interval(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame without its `interval` column, if it has one. Not by `drop`, which is a query."""
    return pl.DataFrame([column for column in frame.get_columns() if column.name != INTERVAL])
