"""Aggregates as columns: what they keep, how it merges, what they answer (DESIGN section 4).

A kind's module is loaded when one of that kind is first made: most jobs use two or three, and all of them together
would be a tenth of the time in which an agent starts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import polars as pl

from elf.cbt.aggregates import contract
from elf.cbt.aggregates.contract import (
    AggregateLimit,
    AggregateOverflow,
    Combine,
    Merge,
    Plain,
    Slotted,
    States,
    UserPaoError,
)
from elf.cbt.aggregates.segments import segmented
from elf.cbt.aggregates.totals import check_sums

if TYPE_CHECKING:
    from elf.cbt.aggregates.user import UserPao, register

#: Module -> its classes, by kind.
_CLASSES = {
    "counts": {"count": "Count"},
    "sums": {"sum": "Sum", "avg": "Avg"},
    "extremes": {"min": "Min", "max": "Max", "any_value": "AnyValue", "bool_and": "BoolAnd", "bool_or": "BoolOr"},
    "moments": {"var_pop": "VarPop", "var_samp": "VarSamp", "stddev_pop": "StddevPop", "stddev_samp": "StddevSamp"},
    "ordered": {"first_by": "FirstBy", "last_by": "LastBy"},
    "sets": {"count_distinct": "CountDistinct", "collect_set": "CollectSet", "top_k": "TopK"},
    "cardinality": {"approx_count_distinct": "ApproxCountDistinct"},
    "quantiles": {"approx_percentile": "ApproxPercentile"},
    "user": {"user": "UserAggregate"},
}
_KINDS = {kind: (module, name) for module, names in _CLASSES.items() for kind, name in names.items()}
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
    module, name = _KINDS[kind]
    made = getattr(import_module(f"elf.cbt.aggregates.{module}"), name)
    result: contract.Aggregate = made(dtype if dtype is not None else pl.Int64(), **options)
    return result


def __getattr__(name: str) -> Any:
    if name in ("UserPao", "register"):
        return getattr(import_module("elf.cbt.aggregates.user"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    "UserPaoError",
    "aggregate",
    "check_sums",
    "register",
    "segmented",
]
