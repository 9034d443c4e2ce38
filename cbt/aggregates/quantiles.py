"""`approx_percentile`: DDSketch, a slot row per bucket.

Paper: C. Masson, J. E. Rim and H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees" (VLDB 2019). Bucket i holds the values in (gamma^(i-1), gamma^i], gamma = (1 + a) / (1 - a), and answers
2 gamma^i / (gamma + 1), which is off by at most the share a of any value in it. The answer stands for the value whose
rank is ceil(percentage * values), the least being of rank 1, as Spark's.

Differs from the paper: a bucket knows its least and its greatest value. Where the rank is that of one of them the
answer is exact, so with few values it mostly is, and at 0 and 1 always; no answer is outside of what was there.

Also, buckets are never collapsed. Values of one sign and of 12 orders of magnitude take some 1,400
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
from elf.cbt.aggregates.physical import greatest, highest, kept, least, lowest, physical

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
    """`approx_percentile(x, percentage)`.

    Slot: the bucket; states: `n`, how many values it holds, `low` and `high`, the least and the greatest of them.

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
        """How many values the bucket holds, and its least and greatest."""
        value = physical(self.dtype)
        return {f"{name}_n": pl.Int64(), f"{name}_low": value, f"{name}_high": value}

    def identity(self, name: str) -> dict[str, object]:
        """None; in place of values those that never win."""
        return {f"{name}_n": 0, f"{name}_low": highest(self.dtype), f"{name}_high": lowest(self.dtype)}

    def added(self, name: str) -> dict[str, object]:
        """The least and the greatest value; these always win, so that a bucket says that it does not know them."""
        return {f"{name}_low": lowest(self.dtype), f"{name}_high": highest(self.dtype)}

    def slots(self, name: str) -> dict[str, pl.DataType]:
        """The bucket: ascending with its values, 0 for zero, of equal size and opposite sign for x and -x."""
        return {f"{name}_slot": pl.Int32()}

    def item(self, value: pl.Expr) -> pl.Expr:
        """The value itself."""
        return value

    def slot(self, name: str, item: pl.Expr) -> dict[str, pl.Expr]:
        """The bucket of each value."""
        return {f"{name}_slot": convert(item, pl.Int32(), self._buckets)}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Count one bucket's values, and find its least and greatest."""
        assert value is not None
        value = kept(value, self.dtype)
        return [
            pl.len().cast(pl.Int64).alias(f"{name}_n"),
            least(value).alias(f"{name}_low"),
            greatest(value, self.dtype).alias(f"{name}_high"),
        ]

    def merges(self, name: str) -> list[Merge]:
        """Add up, and take the lesser and the greater."""
        return [Merge((f"{name}_n",), "sum"), Merge((f"{name}_low",), "min"), Merge((f"{name}_high",), "max")]

    def fold(self, name: str) -> pl.Expr:
        """Go up the buckets to the wanted rank."""
        slot, count = pl.col(f"{name}_slot"), pl.col(f"{name}_n")
        rank = (count.sum() * self.percentage).ceil().clip(lower_bound=1)
        up_to = count.sort_by(slot).cum_sum()

        def there(state: pl.Expr) -> pl.Expr:
            return state.sort_by(slot).filter(up_to >= rank).first()

        found = pl.struct(
            there(slot).alias("bucket"),
            there(pl.col(f"{name}_low")).alias("low"),
            there(pl.col(f"{name}_high")).alias("high"),
            there(count).alias("count"),
            (up_to.filter(up_to >= rank).first() - rank).alias("above"),
        )
        return convert(found, self.output, self._answers)

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

    def _answers(self, found: pl.Series) -> pl.Series:
        """Answer by buckets: estimates within their values, and these where the rank is that of one."""
        bucket, low, high, count, above = (
            found.struct.field(part) for part in ("bucket", "low", "high", "count", "above")
        )
        estimates = self._values(bucket).cast(physical(self.dtype))
        unknown = low.eq(lowest(self.dtype)) & high.eq(highest(self.dtype))
        inside = pl.select(
            pl.when(unknown)
            .then(estimates)
            .when(above == 0)
            .then(high)
            .when(above == count - 1)
            .then(low)
            .otherwise(pl.max_horizontal(low, pl.min_horizontal(high, estimates)))
        ).to_series()
        return inside.cast(self.output).alias(found.name)

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
