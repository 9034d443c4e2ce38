"""Every aggregate over every kind of input, with what it must answer for a list of values."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import polars as pl
from hypothesis import strategies as st

from elf.cbt.aggregates import aggregate, register
from elf.cbt.aggregates.contract import Aggregate

EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
longs = st.sampled_from(EDGES) | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1)
tame = st.integers(-3, 3) | st.integers(-(2**57), 2**57)
doubles = st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 5e-324, 1.7e308]) | st.floats(width=64)
#: Whose sum overflows in no order; what becomes of one that does depends on the order, as with any doubles.
summable = doubles.filter(lambda value: not 1e300 < abs(value) < math.inf)
moderate = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])
texts = st.sampled_from(["", "a", "b", "a\0", "\0", "ä", "日本", "😀", "ÿ"]) | st.text(max_size=3)
decimals = st.decimals(min_value=-(10**29), max_value=10**29, places=4) | st.sampled_from([Decimal("0.0001")])
days = st.dates(date(1, 1, 1), date(9999, 12, 31))
times = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))


class Longest:
    """A user's PAO: the longest text, of equally long ones the greatest."""

    output = pl.String()

    def create(self, values: list[Any]) -> Any:
        return {"best": max(values, key=lambda text: (len(text), text))}

    def merge(self, left: Any, right: Any) -> Any:
        return {"best": max(left["best"], right["best"], key=lambda text: (len(text), text))}

    def finish(self, state: Any) -> Any:
        return state["best"]


register("longest", Longest())


@dataclasses.dataclass(frozen=True)
class Case:
    """An aggregate, its input, and its meaning over the values of one key, nulls left out."""

    aggregate: Aggregate
    values: st.SearchStrategy[Any]
    meaning: Callable[[list[Any]], Any]
    #: Whether PAOs are associative to the bit.
    exact: bool = True

    @property
    def label(self) -> str:
        return f"{self.aggregate.kind}-{self.aggregate.dtype}"


def by_size(value: Any) -> Any:
    """Order of values: NaN greatest."""
    return (math.isnan(value), value) if isinstance(value, float) else value


def plus(value: Any) -> Any:
    """0.0 for -0.0, and one NaN."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def float_sum(values: list[float]) -> float | None:
    if not values:
        return None
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return sum(special)
    try:
        return float(sum(map(Fraction, values)))
    except OverflowError:
        return math.inf if sum(map(Fraction, values)) > 0 else -math.inf


def variance(values: list[float], freedom: int) -> float | None:
    if len(values) <= freedom:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact) / (len(exact) - freedom))


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def decimal_sum(values: list[Decimal]) -> Decimal | None:
    with localcontext() as context:
        context.prec = 90
        return sum(values, Decimal(0)) if values else None


def decimal_mean(values: list[Decimal]) -> Decimal | None:
    if not values:
        return None
    with localcontext() as context:
        context.prec = 90
        return (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.00000001"), ROUND_HALF_UP)


def distinct(values: list[Any]) -> list[Any]:
    kept = {("nan",) if isinstance(value, float) and math.isnan(value) else plus(value) for value in values}
    return sorted((math.nan if value == ("nan",) else value for value in kept), key=by_size)


def top(values: list[Any]) -> list[dict[str, Any]]:
    counts = collections.Counter(values)
    return [{"value": v, "count": n} for v, n in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:2]]


def _extreme(kind: str, dtype: pl.DataType, values: st.SearchStrategy[Any]) -> Case:
    chosen = max if kind in ("max", "bool_or") else min
    return Case(aggregate(kind, dtype), values, lambda got: plus(chosen(got, key=by_size)) if got else None)


def _by(kind: str, fields: dict[str, pl.DataType], values: dict[str, st.SearchStrategy[Any]]) -> Case:
    dtype = pl.Struct({"by": pl.Int64(), **fields})
    shown = {name: st.none() | values[name] for name in fields}
    rows = st.fixed_dictionaries({"by": st.none() | st.integers(0, 3), **shown})

    def meaning(got: list[dict[str, Any]]) -> Any:
        counted = [row for row in got if row["by"] is not None]
        if not counted:
            return None
        chosen = min if kind == "first_by" else max
        return plus(chosen(counted, key=lambda row: (row["by"], [_null_first(row[name]) for name in fields]))["value"])

    return Case(aggregate(kind, dtype), rows, meaning)


def _null_first(value: Any) -> Any:
    return value is not None, 0 if value is None else by_size(plus(value))


TYPES: list[tuple[pl.DataType, st.SearchStrategy[Any]]] = [
    (pl.Int64(), longs),
    (pl.Int32(), ints),
    (pl.Float64(), doubles),
    (pl.Boolean(), st.booleans()),
    (pl.String(), texts),
    (pl.Date(), days),
    (pl.Datetime("us"), times),
]
F64 = pl.Float64()
#: What tells rows apart beside the value, in few values, so that it has to.
TIES: list[dict[str, pl.DataType]] = [
    {"value": pl.String(), "tie1": F64},
    {"tie0": F64, "value": pl.String()},
    {"tie0": F64, "value": pl.String(), "tie2": pl.Date()},
]
TIED: dict[str, st.SearchStrategy[Any]] = {
    "value": st.sampled_from(["", "a", "b"]),
    "tie0": st.sampled_from([math.nan, 0.0, -0.0, 1.0]),
    "tie1": st.sampled_from([math.nan, 0.0, -0.0, 1.0]),
    "tie2": st.sampled_from([date(1, 1, 1), date(2024, 2, 29)]),
}
MOMENTS: dict[str, Callable[[list[float]], float | None]] = {
    "var_pop": lambda got: variance(got, 0),
    "var_samp": lambda got: variance(got, 1),
    "stddev_pop": lambda got: root(variance(got, 0)),
    "stddev_samp": lambda got: root(variance(got, 1)),
}
CASES = [
    *(Case(aggregate("count", dtype), values, len) for dtype, values in TYPES),
    Case(aggregate("sum", pl.Int64()), tame, lambda got: sum(got) if got else None),
    Case(aggregate("sum", pl.Int32()), ints, lambda got: sum(got) if got else None),
    Case(aggregate("sum", F64), summable, float_sum, exact=False),
    Case(aggregate("sum", pl.Decimal(34, 4)), decimals, decimal_sum),
    Case(aggregate("avg", pl.Int64()), longs, lambda got: float(Fraction(sum(got), len(got))) if got else None),
    Case(aggregate("avg", pl.Int32()), ints, lambda got: float(Fraction(sum(got), len(got))) if got else None),
    Case(aggregate("avg", F64), moderate, lambda got: float_sum(got) / len(got) if got else None, exact=False),  # type: ignore[operator]
    Case(aggregate("avg", pl.Decimal(34, 4)), decimals, decimal_mean),
    *(_extreme(kind, dtype, values) for kind in ("min", "max", "any_value") for dtype, values in TYPES),
    *(_extreme(kind, pl.Boolean(), st.booleans()) for kind in ("bool_and", "bool_or")),
    *(Case(aggregate(kind, F64), moderate, meaning, exact=False) for kind, meaning in MOMENTS.items()),
    *(_by(kind, {"value": dtype}, {"value": values}) for kind in ("first_by", "last_by") for dtype, values in TYPES),
    *(_by(kind, fields, TIED) for kind in ("first_by", "last_by") for fields in TIES),
    *(Case(aggregate("count_distinct", dtype), values, lambda got: len(distinct(got))) for dtype, values in TYPES),
    *(Case(aggregate("collect_set", dtype), values, distinct) for dtype, values in TYPES),
    Case(aggregate("top_k", pl.String(), k=2), texts, top),
    Case(aggregate("top_k", pl.Int64(), k=2), longs, top),
    Case(
        aggregate("user", pl.String(), pao="longest"),
        texts,
        lambda got: max(got, key=lambda text: (len(text), text)) if got else None,
    ),
]
