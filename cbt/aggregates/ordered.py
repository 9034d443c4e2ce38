"""`first_by` and `last_by`: the value at the least or greatest order key; with event time, the first and last event.

The input is a struct with the fields `by` and `value`. Rows without an order key do not count; a null value does, and
comes before all others. Rows of equal keys are told apart by their values, the least first and the greatest last, so
the answer does not depend on the order of merging: it is Spark's `min_by(value, struct(by, value))`. Further fields,
before the value or behind it, tell rows apart beside it: aggregates that have the same fields show values of one row.
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
    """States `has`, whether there is a row, its key `by`, and of each value whether it is there, and what it is."""

    last: ClassVar[bool]

    def __post_init__(self) -> None:
        names = [field.name for field in self.dtype.fields] if isinstance(self.dtype, pl.Struct) else []
        if names[:1] != ["by"] or names.count("value") != 1:
            raise ValueError(f"{self.kind} takes a struct of by and value, not {self.dtype}")
        for dtype in self._fields.values():
            physical(dtype)

    @property
    def output(self) -> pl.DataType:
        """The value's type."""
        return self._fields["value"]

    @property
    def _fields(self) -> dict[str, pl.DataType]:
        """What rows are told apart by: the key, then the values."""
        assert isinstance(self.dtype, pl.Struct)
        return {
            field.name: field.dtype() if isinstance(field.dtype, type) else field.dtype for field in self.dtype.fields
        }

    @property
    def _values(self) -> list[tuple[str, pl.DataType]]:
        return list(self._fields.items())[1:]

    def states(self, name: str) -> dict[str, pl.DataType]:
        """Two columns for the key and two for each value."""
        states: dict[str, pl.DataType] = {f"{name}_has": pl.Boolean(), f"{name}_by": physical(self._fields["by"])}
        for field, dtype in self._values:
            states[_valid(name, field)] = pl.Boolean()
            states[f"{name}_{field}"] = physical(dtype)
        return states

    def identity(self, name: str) -> dict[str, object]:
        """No row."""
        nothing: list[object] = [False, lowest(self._fields["by"])]
        for _, dtype in self._values:
            nothing += [False, lowest(dtype)]
        return dict(zip(self.states(name), nothing, strict=True))

    def added(self, name: str) -> dict[str, object]:
        """What tells rows apart beside the value: null, if it is not known."""
        others = [field for field, _ in self._values if field != "value"]
        states = [state for field in others for state in (_valid(name, field), f"{name}_{field}")]
        return {state: value for state, value in self.identity(name).items() if state in states}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Find the group's first or last row."""
        if value is None:
            raise ValueError(f"{self.kind} needs an input column")
        by_dtype = self._fields["by"]
        by = kept(value.struct.field("by"), by_dtype)
        found = greatest(by, by_dtype) if self.last else least(by)
        states, rows = [by.count() > 0, found], by == found
        for field, dtype in self._values:
            values = kept(value.struct.field(field), dtype)
            if self.last:
                chosen = greatest(values.filter(rows), dtype)
                valid = chosen.is_not_null()
            else:
                valid = (by.count() > 0) & ~(rows & values.is_null()).any()
                chosen = pl.when(valid).then(least(values.filter(rows)))
            states += [valid, chosen]
            rows = rows & values.eq_missing(chosen)
        nothing = self.identity(name)
        return [
            state.fill_null(pl.lit(nothing[column], dtype=dtype)).alias(column)
            for state, (column, dtype) in zip(states, self.states(name).items(), strict=True)
        ]

    def merges(self, name: str) -> list[Merge]:
        """All at once."""
        return [Merge(tuple(self.states(name)), _later if self.last else _earlier)]

    def finish(self, name: str) -> pl.Expr:
        """NULL where there is no row, or its value is null."""
        has, valid, value = (pl.col(column) for column in (f"{name}_has", _valid(name, "value"), f"{name}_value"))
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


def _valid(name: str, field: str) -> str:
    """Name the flag that a value is there."""
    return f"{name}_valid" if field == "value" else f"{name}_{field}_valid"


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
