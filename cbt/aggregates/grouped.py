"""NumPy functions over all groups of a `group_by` at once, where Polars has no expression for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

#: Takes the values of all groups, group after group, and the first position of each (no group is empty); gives
#: columns with one row per group.
Reduction = Callable[[npt.NDArray[Any], npt.NDArray[np.int64]], tuple[npt.NDArray[Any], ...]]


def reduce_groups(
    value: pl.Expr, states: dict[str, pl.DataType], empty: tuple[object, ...], reduction: Reduction
) -> pl.Expr:
    """Reduce each group's non-null values; for use inside `group_by().agg()` or over a whole frame.

    Args:
        value: the input, of a numeric type.
        states: name and type of each column that `reduction` gives.
        empty: the states of a group without values.
        reduction: called at most once, with all groups.

    Returns:
        A struct with the fields `states`.
    """

    def reduce(groups: pl.Series) -> pl.Series:
        lengths = groups.list.len().to_numpy().astype(np.int64)
        values = groups.explode(empty_as_null=False)
        if values.null_count():
            present = values.is_not_null()
            lengths = np.bincount(np.repeat(np.arange(lengths.size), lengths)[present], minlength=lengths.size)
            values = values.filter(present)
        filled = np.flatnonzero(lengths)
        columns = [np.full(lengths.size, nothing) for nothing in empty]
        if filled.size:
            starts = (np.cumsum(lengths) - lengths)[filled]
            for column, reduced in zip(columns, reduction(values.to_numpy(), starts), strict=True):
                column[filled] = reduced
        fields = zip(states.items(), columns, strict=True)
        frame = pl.DataFrame([pl.Series(name, column).cast(dtype) for (name, dtype), column in fields])
        return frame.to_struct(groups.name)

    # On the imploded column Polars hands over the groups of a whole frame in one call, so it is "elementwise".
    return value.implode().map_batches(reduce, return_dtype=pl.Struct(states), is_elementwise=True)


def convert(value: pl.Expr, dtype: pl.DataType, function: Callable[[pl.Series], pl.Series]) -> pl.Expr:
    """Apply a function to a column of one value per row or group."""
    return value.map_batches(function, return_dtype=dtype, is_elementwise=True)
