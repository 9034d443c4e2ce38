"""A job's query as Spark DataFrame calls.

Owns how clauses become DataFrame steps; what names mean is `elf.offline.scopes`, expressions are
`elf.offline.expressions`, which files are read is `elf.offline.events`, which windows an event falls into is
`elf.offline.grid`. HAVING, ORDER BY and LIMIT act within each window, of which one pass computes many.
Shares the parser with the agents, and none of what evaluates.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from agents.errors import JobSpecError
from agents.jobs.query import Query, aggregate_call, parse_query
from elf.offline.aggregates import spark_aggregate
from elf.offline.expressions import to_column
from elf.offline.grid import START, Grid, Window
from elf.offline.scopes import EventScope, GroupScope, OutputScope, same
from elf.offline.tolerance import EXACT, Tolerance, tolerance_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class OfflineRows:
    """What Spark computed for one window.

    Attributes:
        names: output columns.
        types: their Spark types; TIMESTAMP cells are int microseconds since 1970, DECIMAL cells doubles.
        keys: indices of the columns that together identify a row; empty where no columns do.
        rows: in order; where LIMIT cuts through equal order keys, all rows with those keys.
        orders: the order key of each row; equal ones may stand in any order.
        limit: the most rows of the result, None without LIMIT.
        near: how far cells of each column may be off; empty where all are exact.
        near_orders: the same of the order keys.
        guessed: whether HAVING goes by an estimate, so that rows near its bound may be there or not.
        single: whether there is at most one row, for nothing is grouped by but the window.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    keys: tuple[int, ...]
    rows: list[tuple[Any, ...]]
    orders: list[tuple[Any, ...]]
    limit: int | None
    near: tuple[Tolerance, ...] = ()
    near_orders: tuple[Tolerance, ...] = ()
    guessed: bool = False
    single: bool = False

    def close(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        """Whether two rows of cells are equal within each column's tolerance."""
        return close(one, other, self.near)

    def tie(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        """Whether two order keys are equal within each one's tolerance."""
        return close(one, other, self.near_orders)


class SparkPlan:
    """One query, ready to run over the events of any window.

    Args:
        query: the text of the job's query, or the parsed query.

    Raises:
        JobSpecError: the query is not in the job language.
    """

    def __init__(self, query: str | Query) -> None:
        self.query = parse_query(query) if isinstance(query, str) else query
        self._items = {item.name.lower(): item.node for item in self.query.items}
        self._groups = [self._group(node) for node in self.query.groups]
        self._aggregates: list[exp.Expr] = []
        parts = [item.node for item in self.query.items] + [node.this for node in self.query.order]
        for part in [*parts, *([self.query.having] if self.query.having is not None else [])]:
            for node in part.walk(prune=lambda node: aggregate_call(node) is not None):
                if aggregate_call(node) is not None and not any(same(node, known) for known in self._aggregates):
                    self._aggregates.append(node)
        self._near = tuple(tolerance_of(item.node, {}) for item in self.query.items)
        self._near_orders = tuple(tolerance_of(self._by_position(node.this), self._items) for node in self.query.order)

    def run(self, events: DataFrame, window: Window | None) -> OfflineRows:
        """Compute one window from the source's events: `ts` TIMESTAMP and the columns that the query reads.

        Args:
            events: the source's events.
            window: its bounds; None for all events.

        Raises:
            JobSpecError: a name or a function is unknown, or Spark refuses the types.
        """
        grid = None if window is None else Grid(window[0], window[0], window[1] - window[0], window[1] - window[0])
        return self.run_all(events, grid)[0 if grid is None else grid.first_ms]

    def run_all(self, events: DataFrame, grid: Grid | None) -> dict[int, OfflineRows]:
        """Compute all windows of a grid in one pass; errors as `run`.

        Returns:
            The rows of each window by its start; of a query without window, or without a grid, those of its only one.
        """
        from pyspark.errors import AnalysisException

        try:
            typed = self.rows(events, grid)
        except AnalysisException as error:
            raise JobSpecError(f"Spark refuses the query: {str(error).strip().splitlines()[0]}") from None
        width = len(self.query.items)
        fields = typed.schema.fields
        kept = [collectable(field.dataType, field.name) for field in fields[:-1]]
        rows: dict[int, list[tuple[Any, ...]]] = {start_ms: [] for start_ms in (grid.starts if grid else (0,))}
        for row in self._heads(typed.select(*kept, START)).collect():
            rows[grid.first_ms if grid is not None and self.query.window is None else row[-1]].append(tuple(row[:-1]))
        shape = OfflineRows(
            names=tuple(item.name for item in self.query.items),
            types=tuple(field.dataType.simpleString() for field in fields[:width]),
            keys=self._key_columns(),
            rows=[],
            orders=[],
            limit=self.query.limit,
            near=self._near,
            near_orders=self._near_orders,
            guessed=self.query.having is not None and tolerance_of(self.query.having, self._items).estimate,
            single=not self._groups,
        )
        return {
            start_ms: dataclasses.replace(
                shape, rows=[row[:width] for row in found], orders=[row[width:] for row in found]
            )
            for start_ms, found in rows.items()
        }

    def table(self, events: DataFrame, grid: Grid | None) -> DataFrame:
        """Return the rows of each window as a person gets them: output columns by name, then the window's start.

        Unlike `run_all`, no more than LIMIT: rows with equal order keys come in the order of all output columns, as
        agents have it. Rows of a window are in one partition, in order. Errors as `run`.
        """
        from pyspark.errors import AnalysisException
        from pyspark.sql import Window as W
        from pyspark.sql import functions as F

        try:
            cells = self.rows(events, grid).repartition(START)
            order = [*self._order(), *(F.asc_nulls_first(f"o{i}") for i in range(len(self.query.items)))]
            if self.query.limit is not None:
                ranked = W.partitionBy(START).orderBy(*order)
                cells = cells.withColumn("rank", F.row_number().over(ranked)).filter(F.col("rank") <= self.query.limit)
            names = [F.col(f"o{i}").alias(item.name) for i, item in enumerate(self.query.items)]
            return cells.sortWithinPartitions(START, *order).select(*names, START)
        except AnalysisException as error:
            raise JobSpecError(f"Spark refuses the query: {str(error).strip().splitlines()[0]}") from None

    def _heads(self, cells: DataFrame) -> DataFrame:
        """Order each window's rows and cut them at LIMIT; rows with order keys equal to the last one's stay."""
        from pyspark.sql import Window as W
        from pyspark.sql import functions as F

        limit, order = self.query.limit, self._order()
        if limit == 0:
            return cells.filter(F.lit(False))
        if limit is not None:
            names = [f"s{position}" for position in range(len(order))]
            ranked = W.partitionBy(START).orderBy(*(order or [F.lit(0)]))
            whole = ranked.rowsBetween(W.unboundedPreceding, W.unboundedFollowing)
            cuts = [F.nth_value(name, limit).over(whole).alias(f"cut_{name}") for name in names]
            cells = cells.select("*", F.row_number().over(ranked).alias("rank"), *cuts)
            cells = cells.filter((F.col("rank") <= limit) | _at_cut(cells, names, self._near_orders))
            cells = cells.drop("rank", *(f"cut_{name}" for name in names))
        elif order:
            cells = cells.repartition(START)
        # All rows of a window are in one partition, so nothing has to be sampled for a sort of everything.
        return cells.sortWithinPartitions(START, *order) if order else cells

    def _order(self) -> list[Column]:
        from pyspark.sql import functions as F

        order = []
        for position, node in enumerate(self.query.order):
            column = F.col(f"s{position}")
            first = bool(node.args.get("nulls_first"))
            if node.args.get("desc"):
                order.append(column.desc_nulls_first() if first else column.desc_nulls_last())
            else:
                order.append(column.asc_nulls_first() if first else column.asc_nulls_last())
        return order

    def rows(self, events: DataFrame, grid: Grid | None) -> DataFrame:
        """Return the windows' rows before ORDER BY and LIMIT.

        Columns: `o0..` are the output, `s0..` the order keys, then the window's start in ms (0 without one).
        """
        from pyspark.sql import functions as F

        grouped = self._grouped(events, grid, self._aggregates)
        bounds = None
        if self.query.window is not None and grid is not None:
            bounds = tuple(F.timestamp_millis(F.col(START) + F.lit(length_ms)) for length_ms in (0, grid.size_ms))
        after = GroupScope(self._groups, self._aggregates, bounds)
        if self.query.having is not None:
            grouped = grouped.filter(to_column(self.query.having, OutputScope(after, self._items, False)))
        in_order = OutputScope(after, self._items, True)
        items = [to_column(item.node, after).alias(f"o{i}") for i, item in enumerate(self.query.items)]
        order = [
            to_column(self._by_position(node.this), in_order).alias(f"s{i}") for i, node in enumerate(self.query.order)
        ]
        start = F.col(START) if bounds is not None else F.lit(0).cast("bigint").alias(START)
        return grouped.select(*items, *order, start)

    def chosen(self, events: DataFrame, grid: Grid | None) -> DataFrame:
        """Return the events that the query counts, one row for each window: with `__start` and the group keys."""
        from pyspark.sql import functions as F

        in_events = EventScope(events.columns)
        if grid is not None:
            events = grid.place(events, self.query.window is not None)
        if self.query.window is None:
            events = events.withColumn(START, F.lit(0 if grid is None else grid.first_ms))
        if self.query.where is not None:
            events = events.filter(to_column(self.query.where, in_events))
        return events.select("*", *[to_column(key, in_events).alias(f"__k{i}") for i, key in enumerate(self._groups)])

    def totals(self, events: DataFrame, grid: Grid | None, aggregates: list[exp.Expr]) -> dict[Row, Row]:
        """Compute aggregates, at least one, before HAVING: (start, *group keys) -> values."""
        from pyspark.sql import functions as F

        grouped = self._grouped(events, grid, aggregates)
        width = len(self._groups)
        if self.query.window is None:
            grouped = grouped.withColumn(START, F.lit(0 if grid is None else grid.first_ms))
        names = [START, *(f"__k{i}" for i in range(width)), *(f"__a{i}" for i in range(len(aggregates)))]
        kept = [collectable(grouped.schema[name].dataType, name) for name in names]
        rows = [tuple(row) for row in grouped.select(*kept).collect()]
        return {row[: width + 1]: row[width + 1 :] for row in rows}

    def _grouped(self, events: DataFrame, grid: Grid | None, aggregates: list[exp.Expr]) -> DataFrame:
        in_events = EventScope(events.columns)
        calls = [spark_aggregate(node, in_events).alias(f"__a{i}") for i, node in enumerate(aggregates)]
        chosen = self.chosen(events, grid)
        keys = [f"__k{i}" for i in range(len(self._groups))]
        if self.query.window is not None:
            # GROUP BY window(...) has no row for a window without events; no GROUP BY at all has always one.
            keys.append(START)
        return chosen.groupBy(*keys).agg(*calls) if calls else chosen.select(*keys).distinct()

    def _group(self, node: exp.Expr) -> exp.Expr:
        """Resolve a position or an output's name in GROUP BY; a column of the events comes first, as in Spark."""
        node = self._by_position(node)
        if isinstance(node, exp.Column) and not node.table and (item := self._items.get(node.name.lower())) is not None:
            reads = {column.name.lower() for column in self._columns_outside_groups()}
            return node if node.name.lower() in reads else item
        return node

    def _columns_outside_groups(self) -> list[exp.Column]:
        parts = [item.node for item in self.query.items]
        parts += [self.query.where] if self.query.where is not None else []
        return [column for part in parts for column in part.find_all(exp.Column)]

    def _by_position(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            position = int(node.name)
            if not 1 <= position <= len(self.query.items):
                raise JobSpecError(f"position {position} is not in the select list of {len(self.query.items)}")
            return self.query.items[position - 1].node
        return node

    def _key_columns(self) -> tuple[int, ...]:
        """Return the output columns that show the group keys, or none where a key is not shown."""
        found = []
        for key in self._groups:
            shown = [i for i, item in enumerate(self.query.items) if same(item.node, key)]
            if not shown:
                return ()
            found.append(shown[0])
        return tuple(found)


def close(one: tuple[Any, ...], other: tuple[Any, ...], near: tuple[Tolerance, ...] = ()) -> bool:
    """Whether two rows of cells are equal, each within its tolerance."""
    return len(one) == len(other) and all(
        (near[i] if near else EXACT).close(cell, other[i]) for i, cell in enumerate(one)
    )


def collectable(kind: DataType, name: str) -> Column:
    """Turn a cell into what Python receives exactly: times as microseconds, decimals as doubles."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DecimalType, TimestampType

    if isinstance(kind, TimestampType):
        return F.unix_micros(F.col(name)).alias(name)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, TimestampType):
        return F.transform(F.col(name), F.unix_micros).alias(name)
    return F.col(name).cast("double").alias(name) if isinstance(kind, DecimalType) else F.col(name)


def _at_cut(rows: DataFrame, names: list[str], near: tuple[Tolerance, ...]) -> Column:
    """Build the condition that a row's order keys equal those at the cut, doubles and estimates nearly."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DoubleType, FloatType, NumericType

    condition = F.lit(True)
    for name, each in zip(names, near, strict=True):
        column, cut = F.col(name), F.col(f"cut_{name}")
        same = column.eqNullSafe(cut)
        kind = rows.schema[name].dataType
        if isinstance(kind, DoubleType | FloatType) or (each.estimate and isinstance(kind, NumericType)):
            off = F.greatest(F.lit(each.relative) * F.greatest(F.abs(column), F.abs(cut)), F.lit(each.absolute))
            # Beside an infinite cut, or NaN, everything would be near.
            same = same | ((F.abs(column - cut) <= off) & (off < F.lit(math.inf)))
        condition = condition & same
    return condition
