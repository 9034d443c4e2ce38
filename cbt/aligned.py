"""Totals whose rows keep their places, so that the difference of two of them is one of columns.

A total that is made of an earlier one has that one's keys first, in the same order, and new keys behind them. Where
this holds, taking the earlier total out of the later one compares keys once, whole columns at a time, and sorts
nothing. Nothing depends on it for truth: totals of other orders are told apart and not subtracted here.

Only for schemas that are invertible, whose states are int64 sums. Paper: section 3.1, PAO15 - PAO5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.aggregates import AggregateOverflow

_AT = "__at"
_Sums = npt.NDArray[np.int64]


def added(total: pl.DataFrame, rows: pl.DataFrame, keys: tuple[str, ...], later: pl.DataFrame | None) -> pl.DataFrame:
    """Add rows to a total whose own rows keep their places; new keys come behind them. O(total + rows).

    Args:
        total: one row per key.
        rows: one row per key, of the same columns.
        keys: the columns that make a key, at least one; the others are int64 sums.
        later: a total that already has all keys of `rows`, in the order that the result is to have if `total` lacks
            some of them; its keys that neither has come with sums of zero.

    Raises:
        AggregateOverflow: a sum leaves 64 bits.
    """
    places = places_of(total, rows, keys)
    if later is not None and places.null_count() and leads(total, later, keys):
        total = _padded(total, later, keys)
        places = places_of(total, rows, keys)
    known = places.is_not_null()
    at = places.drop_nulls().to_numpy()
    old, new = rows.filter(known), rows.filter(~known)
    columns: list[pl.Series] = []
    for column in total.get_columns():
        if column.name not in keys:
            sums = column.to_numpy().copy()
            sums[at] = _sum(sums[at], old[column.name].to_numpy(), column.name)
            column = pl.Series(column.name, sums)
        columns.append(column)
    return pl.concat([pl.DataFrame(columns), new]).rechunk() if new.height else pl.DataFrame(columns)


def leads(earlier: pl.DataFrame, later: pl.DataFrame, keys: tuple[str, ...]) -> bool:
    """Tell whether the earlier total's keys are the first of the later one's, in the same order. O(earlier)."""
    rows = earlier.height
    return rows <= later.height and all(later[name].head(rows).equals(earlier[name]) for name in keys)


def subtracted(later: pl.DataFrame, earlier: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Take a total out of a later one that it leads; rows whose sums are all zero go. O(later).

    Raises:
        AggregateOverflow: a difference leaves 64 bits.
    """
    rows, sums = earlier.height, dict[str, _Sums]()
    changed = np.zeros(later.height, dtype=bool)
    for column in later.get_columns():
        if column.name not in keys:
            left = column.to_numpy().copy()
            before = earlier[column.name].to_numpy()
            differences = left[:rows] - before
            if bool((((left[:rows] ^ before) & (left[:rows] ^ differences)) < 0).any()):
                raise AggregateOverflow.of(column.name)
            left[:rows] = differences
            sums[column.name] = left
            changed |= left != 0
    found = _with_sums(later, sums)
    return found if changed.all() else found.filter(pl.Series(changed))


def places_of(total: pl.DataFrame, rows: pl.DataFrame, keys: tuple[str, ...]) -> pl.Series:
    """Return the row of the total that has each row's key; null where none has. O(total + rows)."""
    numbered = total.select(keys).with_row_index(_AT)
    joined = rows.select(keys).join(numbered, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined[_AT]


def _padded(total: pl.DataFrame, later: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    sums = {name: np.zeros(later.height, np.int64) for name in total.columns if name not in keys}
    for name, values in sums.items():
        values[: total.height] = total[name].to_numpy()
    return _with_sums(later, sums)


def _with_sums(frame: pl.DataFrame, sums: Mapping[str, _Sums]) -> pl.DataFrame:
    columns = frame.get_columns()
    return pl.DataFrame([pl.Series(c.name, sums[c.name]) if c.name in sums else c for c in columns])


def _sum(left: _Sums, right: npt.NDArray[Any], column: str) -> _Sums:
    total: _Sums = left + right
    if bool((((left ^ total) & (right ^ total)) < 0).any()):
        raise AggregateOverflow.of(column)
    return total
