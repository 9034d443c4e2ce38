"""How values of each type are kept in states, and how they compare there.

As in Spark, NaN is greater than any number and equal to itself, and false is less than true. -0.0 counts as 0.0, so
that equal values are the same bits and the order of merging cannot show. Strings compare by their UTF-8 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

_NARROW = (pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Date)
_WIDE = (pl.UInt32, pl.Datetime, pl.Duration, pl.Time)
_SAME = (pl.Int32, pl.Int64, pl.Float64, pl.Boolean, pl.String)


def physical(dtype: pl.DataType) -> pl.DataType:
    """The type of the state that holds values of `dtype`: dates and times as their number.

    Raises:
        ValueError: values of this type cannot be kept.
    """
    if isinstance(dtype, _SAME):
        return dtype
    if isinstance(dtype, pl.Float32):
        return pl.Float64()
    if isinstance(dtype, _NARROW):
        return pl.Int32()
    if isinstance(dtype, _WIDE):
        return pl.Int64()
    raise ValueError(f"values of type {dtype} cannot be kept in a PAO")


def kept(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value as its state holds it."""
    value = value.to_physical().cast(physical(dtype)) if not isinstance(dtype, _SAME) else value
    return pl.when(value == 0.0).then(0.0).otherwise(value) if dtype.is_float() else value


def one_of_equals(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value with one bit pattern for all that are equal."""
    if not dtype.is_float():
        return value
    nan = pl.lit(float("nan"), dtype=dtype)
    return pl.when(value == 0.0).then(pl.lit(0.0, dtype=dtype)).when(value.is_nan()).then(nan).otherwise(value)


def least(value: pl.Expr) -> pl.Expr:
    """The smallest kept value of a group; Polars takes NaN only if there is nothing else."""
    return value.min()


def greatest(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The largest kept value of a group."""
    return value.nan_max() if dtype.is_float() else value.max()


def lowest(dtype: pl.DataType) -> object:
    """A state's value that none is below."""
    state = physical(dtype)
    if isinstance(state, pl.Float64):
        return float("-inf")
    if isinstance(state, pl.String):
        return ""
    return False if isinstance(state, pl.Boolean) else int(np.iinfo(_integer(state)).min)


def highest(dtype: pl.DataType) -> object:
    """A state's value that none is above; "" of strings, which have no such value."""
    state = physical(dtype)
    if isinstance(state, pl.Float64):
        return float("nan")
    if isinstance(state, pl.String):
        return ""
    return True if isinstance(state, pl.Boolean) else int(np.iinfo(_integer(state)).max)


def less(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each left state comes before the right one."""
    before = left < right
    if left.dtype.kind == "f":
        before |= np.isnan(right) & ~np.isnan(left)
    return np.asarray(before, dtype=np.bool_)


def _integer(state: pl.DataType) -> type[np.signedinteger[Any]]:
    return np.int32 if isinstance(state, pl.Int32) else np.int64
