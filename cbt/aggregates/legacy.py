"""Aggregates as columns: create, merge, finish (DESIGN section 4; paper section 3.1, "PAOs execution").

An aggregate of a name `a0` owns the state columns `a0_<state>`. Its laws, which the tests hold: merge is associative
and commutative, and finish of merged parts equals the aggregate of the whole. Everything is a Polars expression, so
one frame costs the same few calls whatever its height.

Null rules are SQL's: `count` counts, every other aggregate skips nulls and is null where nothing was left.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import polars as pl

Kind = Literal["count", "sum", "avg", "min", "max"]
KINDS: tuple[Kind, ...] = ("count", "sum", "avg", "min", "max")


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """One aggregate over one input column.

    Attributes:
        kind: which aggregate.
        dtype: the input's Polars type; ignored by `count`. Sums of integers are kept in Int64, of floats in Float64.
    """

    kind: Kind
    dtype: pl.DataType = dataclasses.field(default_factory=pl.Int64)

    def states(self, name: str) -> dict[str, pl.DataType]:
        """Name the state columns and their types."""
        match self.kind:
            case "count":
                return {f"{name}_n": pl.Int64()}
            case "sum" | "avg":
                return {f"{name}_sum": self._sum_dtype, f"{name}_n": pl.Int64()}
            case "min" | "max":
                return {f"{name}_{self.kind}": self.dtype}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Reduce raw input values to state columns; for use inside `group_by().agg()`.

        Args:
            name: prefix of the state columns.
            value: the input expression; None counts rows and is legal for `count` only.
        """
        if value is None:
            if self.kind != "count":
                raise ValueError(f"{self.kind} needs an input column")
            return [pl.len().cast(pl.Int64).alias(f"{name}_n")]
        match self.kind:
            case "count":
                return [value.count().cast(pl.Int64).alias(f"{name}_n")]
            case "sum" | "avg":
                return [
                    value.cast(self._sum_dtype).sum().alias(f"{name}_sum"),
                    value.count().cast(pl.Int64).alias(f"{name}_n"),
                ]
            case "min" | "max":
                return [self._extreme(value).alias(f"{name}_{self.kind}")]

    def merge(self, name: str) -> list[pl.Expr]:
        """Combine the state columns of a group of PAOs into one; for use inside `group_by().agg()`."""
        if self.kind in ("min", "max"):
            return [self._extreme(pl.col(f"{name}_{self.kind}")).alias(f"{name}_{self.kind}")]
        return [pl.col(column).sum() for column in self.states(name)]

    def finish(self, name: str) -> pl.Expr:
        """Compute the aggregate's value from its state columns, row by row."""
        match self.kind:
            case "count":
                return pl.col(f"{name}_n")
            case "sum":
                return pl.when(pl.col(f"{name}_n") > 0).then(pl.col(f"{name}_sum"))
            case "avg":
                total, count = pl.col(f"{name}_sum").cast(pl.Float64), pl.col(f"{name}_n")
                return pl.when(count > 0).then(total / count)
            case "min" | "max":
                return pl.col(f"{name}_{self.kind}")

    @property
    def _sum_dtype(self) -> pl.DataType:
        return pl.Float64() if self.dtype.is_float() else pl.Int64()

    def _extreme(self, value: pl.Expr) -> pl.Expr:
        """The group's smallest or largest value; NaN counts as larger than any number, as in Spark."""
        if self.kind == "min":
            return value.min()
        return value.nan_max() if self.dtype.is_float() else value.max()
