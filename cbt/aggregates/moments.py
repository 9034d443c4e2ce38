"""Variance and standard deviation from count, mean and the sum of squared differences from the mean.

Paper: T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances" (1979). Merging is commutative to the bit, associative up to rounding.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import polars as pl

from elf.cbt.aggregates.contract import Merge, Plain, States


@dataclasses.dataclass(frozen=True)
class _Moments(Plain):
    """States `n`, `mean` and `m2`."""

    #: What the divisor is less than the count, and so the most values that give NULL.
    freedom: ClassVar[int]
    root: ClassVar[bool]

    @property
    def output(self) -> pl.DataType:
        """DOUBLE."""
        return pl.Float64()

    def states(self, name: str) -> dict[str, pl.DataType]:
        """A count and two doubles."""
        return {f"{name}_n": pl.Int64(), f"{name}_mean": pl.Float64(), f"{name}_m2": pl.Float64()}

    def identity(self, name: str) -> dict[str, object]:
        """Zeros."""
        return {f"{name}_n": 0, f"{name}_mean": 0.0, f"{name}_m2": 0.0}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Count, mean and squared differences of the values that are not null."""
        if value is None:
            raise ValueError(f"{self.kind} needs an input column")
        value = value.cast(pl.Float64)
        count = value.count().cast(pl.Int64)
        m2 = value.var(ddof=0) * count.cast(pl.Float64)
        states = (count, value.mean().fill_null(0.0), m2.fill_null(0.0))
        return [state.alias(column) for state, column in zip(states, self.states(name), strict=True)]

    def merges(self, name: str) -> list[Merge]:
        """All three at once."""
        return [Merge(tuple(self.states(name)), _combine)]

    def finish(self, name: str) -> pl.Expr:
        """NULL for no values, and for a single one where the divisor would be 0."""
        count, _, m2 = (pl.col(column) for column in self.states(name))
        variance = m2 / (count - self.freedom).cast(pl.Float64)
        return pl.when(count > self.freedom).then(variance.sqrt() if self.root else variance)


@dataclasses.dataclass(frozen=True)
class VarPop(_Moments):
    """`var_pop(x)`."""

    kind: ClassVar[str] = "var_pop"
    freedom: ClassVar[int] = 0
    root: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class VarSamp(_Moments):
    """`var_samp(x)`, in SQL also `variance(x)`."""

    kind: ClassVar[str] = "var_samp"
    freedom: ClassVar[int] = 1
    root: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class StddevPop(_Moments):
    """`stddev_pop(x)`."""

    kind: ClassVar[str] = "stddev_pop"
    freedom: ClassVar[int] = 0
    root: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class StddevSamp(_Moments):
    """`stddev_samp(x)`, in SQL also `stddev(x)` and `std(x)`."""

    kind: ClassVar[str] = "stddev_samp"
    freedom: ClassVar[int] = 1
    root: ClassVar[bool] = True


def _combine(left: States, right: States) -> States:
    # The larger part stands left, so that the sum does not depend on who merges whom.
    swap = (right[0] > left[0]) | ((right[0] == left[0]) & (right[1] > left[1]))
    n_left, mean_left, m2_left = (np.where(swap, b, a) for a, b in zip(left, right, strict=True))
    n_right, mean_right, m2_right = (np.where(swap, a, b) for a, b in zip(left, right, strict=True))
    count = n_left + n_right
    with np.errstate(invalid="ignore", over="ignore"):
        share = n_right / np.maximum(count, 1)
        delta = mean_right - mean_left
        mean = mean_left + delta * share
        m2 = m2_left + m2_right + delta * delta * n_left * share
    alone = n_right == 0
    return count, np.where(alone, mean_left, mean), np.where(alone, m2_left, m2)
