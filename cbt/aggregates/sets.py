"""Aggregates of distinct values: a slot row per value, with how often it came.

The count makes all of them invertible: a value is gone when as many were taken out as were put in. -0.0 is 0.0 and NaN
equals NaN, as in Spark's GROUP BY. Nulls are no values.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import polars as pl

from elf.cbt.aggregates.contract import Merge, Slotted
from elf.cbt.aggregates.physical import one_of_equals

#: Distinct values of one key that may end up in one result cell, or be held to choose from.
LIMIT_DEFAULT = 10_000


@dataclasses.dataclass(frozen=True)
class _Values(Slotted):
    """Slot `slot`, the value (of several columns `slot0`, `slot1`, ...); state `n`."""

    def states(self, name: str) -> dict[str, pl.DataType]:
        """How often the value came."""
        return {f"{name}_n": pl.Int64()}

    def identity(self, name: str) -> dict[str, object]:
        """Never."""
        return {f"{name}_n": 0}

    def slots(self, name: str) -> dict[str, pl.DataType]:
        """The value, or each part of it."""
        if not isinstance(self.dtype, pl.Struct):
            return {f"{name}_slot": self.dtype}
        types = (field.dtype for field in self.dtype.fields)
        return {f"{name}_slot{i}": kind() if isinstance(kind, type) else kind for i, kind in enumerate(types)}

    def item(self, value: pl.Expr) -> pl.Expr:
        """The value with one bit pattern for all that are equal; null if any part is."""
        if not isinstance(self.dtype, pl.Struct):
            return one_of_equals(value, self.dtype)
        names = [field.name for field in self.dtype.fields]
        parts = [
            one_of_equals(value.struct.field(part), kind).alias(part)
            for part, kind in zip(names, self.slots("").values(), strict=True)
        ]
        return pl.when(pl.all_horizontal([part.is_not_null() for part in parts])).then(pl.struct(parts))

    def slot(self, name: str, item: pl.Expr) -> dict[str, pl.Expr]:
        """The item, or each part of it."""
        if not isinstance(self.dtype, pl.Struct):
            return {f"{name}_slot": item}
        names = (field.name for field in self.dtype.fields)
        return {slot: item.struct.field(part) for slot, part in zip(self.slots(name), names, strict=True)}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Count the value's rows."""
        return [pl.len().cast(pl.Int64).alias(f"{name}_n")]

    def merges(self, name: str) -> list[Merge]:
        """Add up."""
        return [Merge((f"{name}_n",), "sum")]


@dataclasses.dataclass(frozen=True)
class CountDistinct(_Values):
    """`count(DISTINCT x)`, exact."""

    kind: ClassVar[str] = "count_distinct"

    @property
    def output(self) -> pl.DataType:
        """BIGINT."""
        return pl.Int64()

    @property
    def nothing(self) -> object:
        """No values."""
        return 0

    def fold(self, name: str) -> pl.Expr:
        """Count the slots that are left."""
        return (pl.col(f"{name}_n") > 0).sum().cast(pl.Int64)


@dataclasses.dataclass(frozen=True)
class _Bounded(_Values):
    """Aggregates that refuse keys with very many values rather than answer from a part of them.

    Attributes:
        distinct_max: the most distinct values of a key.
    """

    distinct_max: int = LIMIT_DEFAULT

    def __post_init__(self) -> None:
        if isinstance(self.dtype, pl.Struct):
            raise ValueError(f"{self.kind} takes one column")
        if self.distinct_max < 1:
            raise ValueError(f"{self.kind} needs a limit of at least 1, not {self.distinct_max}")

    @property
    def limit(self) -> int | None:
        """`distinct_max`."""
        return self.distinct_max

    @property
    def nothing(self) -> object:
        """An empty list."""
        return []


@dataclasses.dataclass(frozen=True)
class CollectSet(_Bounded):
    """`collect_set(x)`: the distinct values, ascending."""

    kind: ClassVar[str] = "collect_set"

    @property
    def output(self) -> pl.DataType:
        """ARRAY of the input's type."""
        return pl.List(self.dtype)

    def fold(self, name: str) -> pl.Expr:
        """Collect the slots that are left."""
        return pl.col(f"{name}_slot").filter(pl.col(f"{name}_n") > 0).sort()


@dataclasses.dataclass(frozen=True)
class TopK(_Bounded):
    """`top_k(x, k)`: the k most frequent values with their counts, most frequent first, then the least value; exact.

    Attributes:
        k: the most values of the answer.
    """

    kind: ClassVar[str] = "top_k"
    k: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise ValueError(f"top_k needs a k of at least 1, not {self.k}")

    @property
    def output(self) -> pl.DataType:
        """ARRAY of STRUCT<value, count>."""
        return pl.List(pl.Struct({"value": self.dtype, "count": pl.Int64}))

    def fold(self, name: str) -> pl.Expr:
        """Order the slots that are left by count."""
        value, count = pl.col(f"{name}_slot"), pl.col(f"{name}_n")
        entry = pl.struct(value.alias("value"), count.alias("count"))
        left = count > 0
        order = entry.filter(left).sort_by(count.filter(left), value.filter(left), descending=[True, False])
        return order.head(self.k)
