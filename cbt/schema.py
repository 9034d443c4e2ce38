"""The shape of a job's PAOs: which columns are keys, which are states, and how rows of equal keys merge."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import polars as pl

from cbt.aggregates import Aggregate

#: The first key of every PAO: the index of its interval, start_ms // interval_ms.
INTERVAL = "interval"


@dataclasses.dataclass(frozen=True)
class PaoSchema:
    """Columns of a PAO frame: `interval`, then the keys, then the states of each aggregate.

    Attributes:
        keys: name and type of each key column, `interval` not among them; may be empty.
        aggregates: name and definition of each aggregate, in state-column order.
    """

    keys: tuple[tuple[str, pl.DataType], ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    @functools.cached_property
    def key_names(self) -> tuple[str, ...]:
        """The key columns without `interval`."""
        return tuple(name for name, _ in self.keys)

    @functools.cached_property
    def columns(self) -> dict[str, pl.DataType]:
        """All columns of a PAO frame with their types, in order."""
        columns: dict[str, pl.DataType] = {INTERVAL: pl.Int64(), **dict(self.keys)}
        for name, aggregate in self.aggregates:
            columns |= aggregate.states(name)
        return columns

    @functools.cached_property
    def _merges(self) -> list[pl.Expr]:
        return [merge for name, aggregate in self.aggregates for merge in aggregate.merge(name)]

    def empty(self) -> pl.DataFrame:
        """Return a PAO frame without rows."""
        return pl.DataFrame(schema=self.columns)

    def merge(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Merge PAO frames into one with a row per (interval, keys). O(rows)."""
        if not frames:
            return self.empty()
        return self._group(pl.concat(frames), (INTERVAL, *self.key_names)).select(*self.columns)

    def merge_window(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Merge PAO frames of several intervals into one row per key, without the `interval` column. O(rows)."""
        columns = [column for column in self.columns if column != INTERVAL]
        rows = pl.concat([frame.drop(INTERVAL, strict=False) for frame in frames] or [self.empty().drop(INTERVAL)])
        return self._group(rows, self.key_names).select(columns)

    def _group(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        if not by:
            return rows.select(self._merges) if rows.height else rows
        if not self._merges:
            return rows.unique(subset=by)
        return rows.group_by(by).agg(self._merges)
