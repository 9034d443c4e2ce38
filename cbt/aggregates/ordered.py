"""`first_by` and `last_by`: the value at the least or greatest order key; with event time, the first and last event.

The input is a struct with the fields `by` and `value`. Rows without an order key do not count; a null value does, and
comes before all others. Rows of equal keys are told apart by their values, the least first and the greatest last, so
the answer does not depend on the order of merging: it is Spark's `min_by(value, struct(by, value))`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import polars as pl

from elf.cbt.aggregates.contract import Merge, Plain, States
from elf.cbt.aggregates.physical import greatest, kept, least, less, lowest, physical


@dataclasses.dataclass(frozen=True)
class _By(Plain):
    """States `has`, whether there is a row, its key `by`, and its value: `valid` (not null) and `value`."""

    last: ClassVar[bool]

    def __post_init__(self) -> None:
        fields = [field.name for field in self.dtype.fields] if isinstance(self.dtype, pl.Struct) else None
        if fields != ["by", "value"]:
            raise ValueError(f"{self.kind} takes a struct of by and value, not {self.dtype}")
        physical(self._by)
        physical(self.output)

    @property
    def output(self) -> pl.DataType:
        """The value's type."""
        return self._field("value")

    @property
    def _by(self) -> pl.DataType:
        return self._field("by")

    def _field(self, name: str) -> pl.DataType:
        assert isinstance(self.dtype, pl.Struct)
        found = next(field.dtype for field in self.dtype.fields if field.name == name)
        return found() if isinstance(found, type) else found

    def states(self, name: str) -> dict[str, pl.DataType]:
        """Two flags, a key and a value."""
        return {
            f"{name}_has": pl.Boolean(),
            f"{name}_by": physical(self._by),
            f"{name}_valid": pl.Boolean(),
            f"{name}_value": physical(self.output),
        }

    def identity(self, name: str) -> dict[str, object]:
        """No row."""
        return dict(zip(self.states(name), (False, lowest(self._by), False, lowest(self.output)), strict=True))

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Find the group's first or last row."""
        if value is None:
            raise ValueError(f"{self.kind} needs an input column")
        by = kept(value.struct.field("by"), self._by)
        values = kept(value.struct.field("value"), self.output)
        found = greatest(by, self._by) if self.last else least(by)
        candidates = values.filter(by == found)
        if self.last:
            chosen = greatest(candidates, self.output)
            valid = chosen.is_not_null()
        else:
            valid = (by.count() > 0) & ~((by == found) & values.is_null()).any()
            chosen = pl.when(valid).then(least(candidates))
        nothing = self.identity(name)
        states = (by.count() > 0, found, valid, chosen)
        return [
            state.fill_null(pl.lit(nothing[column], dtype=dtype)).alias(column)
            for state, (column, dtype) in zip(states, self.states(name).items(), strict=True)
        ]

    def merges(self, name: str) -> list[Merge]:
        """All at once."""
        return [Merge(tuple(self.states(name)), _later if self.last else _earlier)]

    def finish(self, name: str) -> pl.Expr:
        """NULL where there is no row, or its value is null."""
        has, _, valid, value = (pl.col(column) for column in self.states(name))
        return pl.when(has & valid).then(value.cast(self.output))


@dataclasses.dataclass(frozen=True)
class FirstBy(_By):
    """The value at the least key: `min_by(value, by)`, and `first(value)` by event time."""

    kind: ClassVar[str] = "first_by"
    last: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class LastBy(_By):
    """The value at the greatest key: `max_by(value, by)`, and `last(value)` by event time."""

    kind: ClassVar[str] = "last_by"
    last: ClassVar[bool] = True


def _earlier(left: States, right: States) -> States:
    return _chosen(left, right, _before(right[1:], left[1:]))


def _later(left: States, right: States) -> States:
    return _chosen(left, right, _before(left[1:], right[1:]))


def _chosen(left: States, right: States, better: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> States:
    take = (right[0] > left[0]) | ((right[0] == left[0]) & better)
    return tuple(np.where(take, b, a) for a, b in zip(left, right, strict=True))


def _before(one: States, other: States) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Compare rows column by column; the first column that differs decides."""
    before = np.zeros(one[0].shape, dtype=np.bool_)
    for a, b in reversed(list(zip(one, other, strict=True))):
        before = less(a, b) | (~less(b, a) & before)
    return before
