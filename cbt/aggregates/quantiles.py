"""`approx_percentile`: DDSketch, a slot row per bucket.

Paper: C. Masson, J. E. Rim and H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees" (VLDB 2019). Bucket i holds the values in (gamma^(i-1), gamma^i], gamma = (1 + a) / (1 - a), and answers
2 gamma^i / (gamma + 1), which is off by at most the share a of any value in it. The answer stands for the value whose
rank is ceil(percentage * values), the least being of rank 1, as Spark's.

Differs from the paper: buckets are never collapsed. Values of one sign and of 12 orders of magnitude take some 1,400
buckets at 1 %, whatever their number. Negative numbers have buckets of their own, and zero, the infinities and NaN
(greatest, as in Spark) one each, so those are exact. Numbers below 1e-300 may be off by more.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.aggregates.contract import Merge, Slotted
from elf.cbt.aggregates.grouped import convert

#: Relative accuracy unless asked for another.
ACCURACY_DEFAULT = 0.01
#: Finer buckets than this would be as many as the values themselves.
ACCURACY_BOUNDS = (1e-4, 0.5)

_INFINITY = 2**30
_NAN = 2**30 + 1
#: The natural logarithm of the smallest double is above minus this.
_LOGARITHM_MAX = 746.0


def accuracy_of(spark_accuracy: int) -> float:
    """The relative accuracy for Spark's third argument, whose inverse is its relative error of ranks.

    One cannot be had from the other; the inverse is taken for the error of values, within what the sketch can do.
    """
    return min(max(1 / spark_accuracy, ACCURACY_BOUNDS[0]), ACCURACY_BOUNDS[1])


@dataclasses.dataclass(frozen=True)
class ApproxPercentile(Slotted):
    """`approx_percentile(x, percentage)`. Slot: the bucket; state `n`: how many values it holds.

    Attributes:
        percentage: which share of the values the answer is not below, 0 to 1.
        accuracy: the largest relative error of the answer.
    """

    kind: ClassVar[str] = "approx_percentile"
    percentage: float = 0.5
    accuracy: float = ACCURACY_DEFAULT

    def __post_init__(self) -> None:
        low, high = ACCURACY_BOUNDS
        if not 0 <= self.percentage <= 1:
            raise ValueError(f"approx_percentile takes a percentage from 0 to 1, not {self.percentage}")
        if not low <= self.accuracy <= high:
            raise ValueError(f"approx_percentile takes an accuracy from {low} to {high}, not {self.accuracy}")
        if not (self.dtype.is_integer() or self.dtype.is_float()):
            raise ValueError(f"approx_percentile takes numbers, not {self.dtype}")

    @property
    def output(self) -> pl.DataType:
        """The input's type; answers for integers are rounded."""
        return self.dtype

    def states(self, name: str) -> dict[str, pl.DataType]:
        """How many values the bucket holds."""
        return {f"{name}_n": pl.Int64()}

    def identity(self, name: str) -> dict[str, object]:
        """None."""
        return {f"{name}_n": 0}

    def slots(self, name: str) -> dict[str, pl.DataType]:
        """The bucket: ascending with its values, 0 for zero, of equal size and opposite sign for x and -x."""
        return {f"{name}_slot": pl.Int32()}

    def item(self, value: pl.Expr) -> pl.Expr:
        """The bucket of each value."""
        return convert(value, pl.Int32(), self._buckets)

    def slot(self, name: str, item: pl.Expr) -> dict[str, pl.Expr]:
        """The bucket."""
        return {f"{name}_slot": item}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Count one bucket's values."""
        return [pl.len().cast(pl.Int64).alias(f"{name}_n")]

    def merges(self, name: str) -> list[Merge]:
        """Add up."""
        return [Merge((f"{name}_n",), "sum")]

    def fold(self, name: str) -> pl.Expr:
        """Go up the buckets to the wanted rank."""
        slot, count = pl.col(f"{name}_slot"), pl.col(f"{name}_n")
        rank = (count.sum() * self.percentage).ceil().clip(lower_bound=1)
        bucket = slot.sort().filter(count.sort_by(slot).cum_sum() >= rank).first()
        return convert(bucket, self.output, self._values)

    @property
    def _gamma_log(self) -> float:
        return math.log1p(2 * self.accuracy / (1 - self.accuracy))

    @property
    def _offset(self) -> int:
        """Makes the bucket numbers of all positive doubles positive."""
        return math.ceil(_LOGARITHM_MAX / self._gamma_log) + 1

    def _buckets(self, values: pl.Series) -> pl.Series:
        numbers = values.cast(pl.Float64).fill_null(0.0).to_numpy()
        size = np.abs(numbers)
        inside = np.isfinite(numbers) & (size > 0)
        indices = np.ceil(np.log(np.where(inside, size, 1.0)) / self._gamma_log).astype(np.int32) + self._offset
        buckets = np.where(inside, indices, np.where(size == 0, 0, _INFINITY)).astype(np.int32)
        buckets = np.where(numbers < 0, -buckets, buckets)
        buckets = np.where(np.isnan(numbers), np.int32(_NAN), buckets)
        series = pl.Series(values.name, buckets)
        return series.set(values.is_null(), None) if values.null_count() else series

    def _values(self, buckets: pl.Series) -> pl.Series:
        numbers = buckets.fill_null(0).to_numpy()
        estimates = self._estimates(np.abs(numbers)) * np.sign(numbers)
        if not self.output.is_float():
            estimates = _whole(estimates, np.dtype(str(self.output).lower()))
        return pl.Series(buckets.name, estimates).cast(self.output).set(buckets.is_null(), None)

    def _estimates(self, sizes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        logs = (sizes - self._offset) * self._gamma_log + math.log(1 - self.accuracy)
        with np.errstate(over="ignore"):
            estimates = np.minimum(np.exp(logs), np.finfo(np.float64).max)
        estimates[sizes == 0] = 0.0
        estimates[sizes == _INFINITY] = np.inf
        estimates[sizes == _NAN] = np.nan
        return estimates


def _whole(estimates: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Round to an integer type; what lies beyond its bounds becomes the bound."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    inside = (estimates > float(low)) & (estimates < float(high))
    rounded = np.rint(np.where(inside, estimates, 0.0)).astype(dtype)
    return np.where(inside, rounded, np.where(estimates < 0, low, high).astype(dtype))
