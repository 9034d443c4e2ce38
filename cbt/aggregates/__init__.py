"""Aggregates as columns: what they keep, how it merges, what they answer (DESIGN section 4)."""

from __future__ import annotations

from typing import Any

import polars as pl

from cbt.aggregates import contract
from cbt.aggregates.cardinality import ApproxCountDistinct
from cbt.aggregates.contract import (
    AggregateLimit,
    AggregateOverflow,
    Combine,
    Merge,
    Plain,
    Slotted,
    States,
)
from cbt.aggregates.counts import Count
from cbt.aggregates.extremes import AnyValue, BoolAnd, BoolOr, Max, Min
from cbt.aggregates.moments import StddevPop, StddevSamp, VarPop, VarSamp
from cbt.aggregates.ordered import FirstBy, LastBy
from cbt.aggregates.quantiles import ApproxPercentile
from cbt.aggregates.segments import segmented
from cbt.aggregates.sets import CollectSet, CountDistinct, TopK
from cbt.aggregates.sums import Avg, Sum
from cbt.aggregates.totals import check_sums
from cbt.aggregates.user import UserAggregate, UserPao, register

_CLASSES: tuple[type[contract.Aggregate], ...] = (
    *(Count, Sum, Avg, Min, Max, AnyValue, BoolAnd, BoolOr, VarPop, VarSamp, StddevPop, StddevSamp, FirstBy, LastBy),
    *(CountDistinct, ApproxCountDistinct, ApproxPercentile, CollectSet, TopK, UserAggregate),
)
_KINDS = {each.kind: each for each in _CLASSES}
#: The names that `aggregate` knows.
KINDS = tuple(_KINDS)


def aggregate(kind: str, dtype: pl.DataType | None = None, **options: Any) -> contract.Aggregate:
    """Make an aggregate by name.

    Args:
        kind: one of `KINDS`.
        dtype: the input's type; Int64 unless given.
        options: as the class of this kind takes them.

    Raises:
        ValueError: there is no such kind, or it does not take this type or these options' values.
    """
    if kind not in _KINDS:
        raise ValueError(f"there is no aggregate {kind!r}")
    return _KINDS[kind](dtype if dtype is not None else pl.Int64(), **options)


__all__ = [
    "KINDS",
    "AggregateLimit",
    "AggregateOverflow",
    "Combine",
    "Merge",
    "Plain",
    "Slotted",
    "States",
    "UserPao",
    "aggregate",
    "check_sums",
    "register",
    "segmented",
]
