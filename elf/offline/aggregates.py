"""Aggregate calls as Spark columns.

Most are Spark's own. Where Spark leaves the answer open, or estimates, the call is put so that it has one answer, the
one the job language promises: `first` and `last` by event time, ties by value, sorted arrays, NULL for sums that leave
their type, exact counts and percentiles that `elf.offline.verify.tolerance` holds the estimates against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from sqlglot import exp

from elf.agents.language.installed.installed import find_aggregate
from elf.agents.language.query import TIME_COLUMN, aggregate_call
from elf.agents.language.ties import Ties
from elf.cbt.aggregates.sets import LIMIT_DEFAULT
from elf.offline.expressions import Resolve, call, to_column
from elf.offline.functions import aggregate_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PERCENTILES = ("approx_percentile", "percentile_approx")


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an aggregate as Spark columns.

    Attributes:
        name: in lower case.
        parts: its arguments as written.
        values: its arguments; a star is 1.
        distinct: DISTINCT is written.
        skips_nulls: IGNORE NULLS is, in either place.
        only: gives a column where FILTER lets the row through, else NULL.
    """

    name: str
    parts: list[exp.Expr]
    values: list[Column]
    distinct: bool
    skips_nulls: bool
    only: Callable[[Column], Column]


def read_call(node: exp.Expr, resolve: Resolve) -> Call:
    """Take a call of an aggregate apart, with or without FILTER or IGNORE NULLS; it has to be one (`aggregate_call`).

    Raises:
        JobSpecError: an argument has a part this planner does not know.
    """
    from pyspark.sql import functions as F

    inner = _inner(node)
    test = to_column(node.expression.this, resolve) if isinstance(node, exp.Filter) else None

    def only(column: Column) -> Column:
        """The column where FILTER lets the row through, else NULL."""
        return column if test is None else F.when(test, column)

    parts = list(inner.expressions)
    skips_nulls = isinstance(node.this if isinstance(node, exp.Filter) else node, exp.IgnoreNulls)
    if parts and isinstance(parts[0], exp.IgnoreNulls):
        skips_nulls, parts[0] = True, parts[0].this
    distinct = bool(parts) and isinstance(parts[0], exp.Distinct)
    if distinct:
        parts = parts[0].expressions
    values = [F.lit(1) if isinstance(part, exp.Star) else to_column(part, resolve) for part in parts]
    return Call(inner.name.lower(), parts, values, distinct, skips_nulls, only)


def spark_aggregate(node: exp.Expr, resolve: Resolve, ties: Ties) -> Column:
    """Translate a call of an aggregate but percentiles; errors as in `read_call`.

    Args:
        node: the call.
        resolve: what names in it mean.
        ties: of all calls of the query.
    """
    from pyspark.sql import functions as F

    read = read_call(node, resolve)
    parts, values, distinct, only, skips_nulls = read.parts, read.values, read.distinct, read.only, read.skips_nulls
    tied = [to_column(tie.value, resolve) for tie in ties.of(node)]
    match read.name:
        case "count" if distinct:
            return F.count_distinct(*map(only, values))
        case "first" | "first_value" | "last" | "last_value" as name:
            skips_nulls = skips_nulls or (len(parts) == 2 and bool(parts[1].this))
            needed = values[0] if skips_nulls else None
            return _by(name.startswith("last"), values[0], [F.col(TIME_COLUMN), *tied], only, needed)
        case "min_by" | "max_by" as name:
            return _by(name == "max_by", values[0], [values[1], *tied], only, values[1])
        case "any_value" if tied:
            nulls = reduce(add, (column.isNull().cast("int") for column in tied))
            return _by(False, values[0], [nulls, *tied], only, values[0])
        case "any_value":
            return F.min(only(values[0]))
        case "collect_set":
            found = F.sort_array(F.collect_set(only(values[0])))
            return F.when(F.size(found) <= LIMIT_DEFAULT, found)
        case "sum":
            return _sum(only(values[0]))
        case "approx_count_distinct":
            return F.count_distinct(only(values[0]))
        case name if find_aggregate(name) is not None:
            return aggregate_column(name, only(values[0]))
        case name:
            return call(name, *map(only, values))


def _sum(value: Column) -> Column:
    """Add up; NULL where whole numbers leave BIGINT, which Spark's own sum wraps around."""
    from pyspark.sql import functions as F

    total = F.sum(value)
    # Off by 2^64 or more then, which no rounding of a sum of doubles is.
    wrapped = F.abs(F.sum(value.cast("double")) - total.cast("double")) > 2.0**62
    return F.when((F.typeof(total) != "bigint") | ~wrapped, total)


def percentile(events: DataFrame, keys: Sequence[str], node: exp.Expr, resolve: Resolve, name: str) -> DataFrame:
    """Compute a call of `approx_percentile` exactly: the value of rank ceil(percentage * values), NULL without any.

    Spark's own function can be as exact, with all values of a group in memory. Here they are counted, and sorted where
    there is room.

    Args:
        events: with the keys as columns.
        keys: names of the columns that are grouped by.
        node: the call.
        resolve: what names in it mean.
        name: of the result's column, beside the keys.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    read = read_call(node, resolve)
    value, count = F.col("__value"), F.sum("__count")
    counted = events.select(*keys, read.only(read.values[0]).alias("__value")).groupBy(*keys, "__value")
    whole = W.partitionBy(*keys)
    up_to = whole.orderBy(value).rowsBetween(W.unboundedPreceding, W.currentRow)
    ranks = counted.agg(F.count(value).alias("__count")).select(
        *keys, value, count.over(up_to).alias("__up_to"), count.over(whole).alias("__all")
    )
    rank = F.greatest(F.ceil(read.values[1].cast("double") * F.col("__all")), F.lit(1))
    return ranks.groupBy(*keys).agg(F.min(F.when(F.col("__up_to") >= rank, value)).alias(name))


def apart(nodes: Sequence[exp.Expr]) -> tuple[list[list[int]], list[int]]:
    """Part calls of aggregates, by their places: those that Spark is to compute together, and percentiles.

    For a distinct count Spark groups by the values first, and all that is computed with it has a state for each of
    them: of sets as many as there are values are more than a machine can hold.
    """
    names = [_inner(node).name.lower() for node in nodes]
    percentiles = [place for place, name in enumerate(names) if name in _PERCENTILES]
    distinct = [place for place, node in enumerate(nodes) if _is_distinct(_inner(node))]
    others = [place for place in range(len(nodes)) if place not in (*percentiles, *distinct)]
    together = [distinct, others] if any(names[place] == "collect_set" for place in others) else [distinct + others]
    return [places for places in together if places], percentiles


def _inner(node: exp.Expr) -> exp.Expr:
    """Return the call itself, without FILTER or IGNORE NULLS."""
    inner = aggregate_call(node)
    assert inner is not None, "all of them are calls of aggregates"
    return inner


def _is_distinct(inner: exp.Expr) -> bool:
    return inner.name.lower() == "approx_count_distinct" or any(isinstance(e, exp.Distinct) for e in inner.expressions)


def _by(last: bool, value: Column, by: Sequence[Column], only: object, needed: Column | None) -> Column:
    """The value at the least or greatest `by`, ties by value; of rows whose `needed` is not NULL."""
    from pyspark.sql import functions as F

    assert callable(only)
    order = F.struct(*by, value)
    order = only(order if needed is None else F.when(needed.isNotNull(), order))
    return F.max_by(value, order) if last else F.min_by(value, order)
