"""`min`, `max` and what is made of them: `any_value`, `bool_and`, `bool_or`."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import polars as pl

from elf.cbt.aggregates.contract import Merge, Plain, States
from elf.cbt.aggregates.physical import greatest, highest, kept, least, less, lowest, physical


@dataclasses.dataclass(frozen=True)
class _Extreme(Plain):
    """States `has`, whether there is a value, and the value."""

    #: Whether the largest value wins.
    largest: ClassVar[bool]

    def __post_init__(self) -> None:
        physical(self.dtype)

    @property
    def output(self) -> pl.DataType:
        """The input's type."""
        return self.dtype

    def states(self, name: str) -> dict[str, pl.DataType]:
        """A flag and a value."""
        return {f"{name}_has": pl.Boolean(), self._value(name): physical(self.dtype)}

    def identity(self, name: str) -> dict[str, object]:
        """No value; in its place one that never wins."""
        nothing = lowest(self.dtype) if self.largest else highest(self.dtype)
        return {f"{name}_has": False, self._value(name): nothing}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Find the group's extreme value."""
        if value is None:
            raise ValueError(f"{self.kind} needs an input column")
        value = kept(value, self.dtype)
        extreme = greatest(value, self.dtype) if self.largest else least(value)
        nothing = pl.lit(self.identity(name)[self._value(name)], dtype=physical(self.dtype))
        has = value.count() > 0
        return [has.alias(f"{name}_has"), extreme.fill_null(nothing).alias(self._value(name))]

    def merges(self, name: str) -> list[Merge]:
        """Each column alone, but for the least string: no string is above all others."""
        has, value = self.states(name)
        if isinstance(self.dtype, pl.String) and not self.largest:
            return [Merge((has, value), _least_present)]
        return [Merge((has,), "max"), Merge((value,), "max" if self.largest else "min")]

    def finish(self, name: str) -> pl.Expr:
        """NULL where there is no value."""
        has, value = self.states(name)
        return pl.when(pl.col(has)).then(pl.col(value).cast(self.dtype))

    def _value(self, name: str) -> str:
        return f"{name}_{'max' if self.largest else 'min'}"


@dataclasses.dataclass(frozen=True)
class Min(_Extreme):
    """`min(x)`."""

    kind: ClassVar[str] = "min"
    largest: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class Max(_Extreme):
    """`max(x)`."""

    kind: ClassVar[str] = "max"
    largest: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class AnyValue(Min):
    """`any_value(x)`: any value will do, so the least, which does not depend on the order of events."""

    kind: ClassVar[str] = "any_value"


@dataclasses.dataclass(frozen=True)
class BoolAnd(Min):
    """`bool_and(x)`: false is the least."""

    kind: ClassVar[str] = "bool_and"


@dataclasses.dataclass(frozen=True)
class BoolOr(Max):
    """`bool_or(x)`: true is the largest."""

    kind: ClassVar[str] = "bool_or"


def _least_present(left: States, right: States) -> States:
    take = (right[0] > left[0]) | ((right[0] == left[0]) & less(right[1], left[1]))
    return left[0] | right[0], np.where(take, right[1], left[1])
