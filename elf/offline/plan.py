"""A job's query as Spark DataFrame calls.

Owns how clauses become DataFrame steps; what names mean is `elf.offline.scopes`, expressions are
`elf.offline.expressions`, which files are read is `elf.offline.events`, which windows an event falls into is
`elf.offline.grid`. HAVING, ORDER BY and LIMIT act within each window, of which one pass computes many.
Shares the parser with the agents, and none of what evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.dialect import refused
from elf.agents.language.query import Query, aggregate_call, parse_query
from elf.agents.language.ties import Ties
from elf.offline.aggregates import apart, percentile, spark_aggregate
from elf.offline.expressions import to_column
from elf.offline.failing import without_failing
from elf.offline.grid import START, Grid
from elf.offline.own import NONE, Own
from elf.offline.scopes import EventScope, GroupScope, OutputScope, same

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class SparkPlan:
    """One query, ready to run over the events of any windows: `ts` TIMESTAMP and the columns that it reads.

    Args:
        query: the text of the job's query, or the parsed query.
        own: the functions that the job brings along.

    Raises:
        JobSpecError: the query is not in the job language.
    """

    def __init__(self, query: str | Query, own: Own = NONE) -> None:
        self._own = own
        self.query = parse_query(query) if isinstance(query, str) else query
        if self.query.last is not None:
            raise refused(self.query.last.node, "only `elf verify` has Spark compute a job that reads its last result")
        self._items = {item.name.lower(): item.node for item in self.query.items}
        self._groups = [self._group(node) for node in self.query.groups]
        self._aggregates: list[exp.Expr] = []
        parts = [item.node for item in self.query.items] + [node.this for node in self.query.order]
        for part in [*parts, *([self.query.having] if self.query.having is not None else [])]:
            for node in part.walk(prune=lambda node: aggregate_call(node) is not None):
                if aggregate_call(node) is not None and not any(same(node, known) for known in self._aggregates):
                    self._aggregates.append(node)

    def table(self, events: DataFrame, grid: Grid | None) -> DataFrame:
        """Return the rows of each window as a person gets them: output columns by name, then the window's start.

        No more than LIMIT: rows with equal order keys come in the order of all output columns, as agents have it. Rows
        of a window are in one partition, in order.

        Raises:
            JobSpecError: a name or a function is unknown, or Spark refuses the types.
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

        in_events = EventScope(events.columns, self._own)
        if grid is not None:
            events = grid.place(events, self.query.window is not None)
        if self.query.window is None:
            events = events.withColumn(START, F.lit(0 if grid is None else grid.first_ms))
        if self.query.where is not None:
            events = without_failing(events, [self.query.where], in_events)
            events = events.filter(to_column(self.query.where, in_events))
        events = without_failing(events, [*self._groups, *self._aggregates], in_events)
        return events.select("*", *[to_column(key, in_events).alias(f"__k{i}") for i, key in enumerate(self._groups)])

    def _grouped(self, events: DataFrame, grid: Grid | None, aggregates: list[exp.Expr]) -> DataFrame:
        in_events = EventScope(events.columns, self._own)
        chosen = self.chosen(events, grid)
        keys = [f"__k{i}" for i in range(len(self._groups))]
        if self.query.window is not None:
            # GROUP BY window(...) has no row for a window without events; no GROUP BY at all has always one.
            keys.append(START)
        if not aggregates:
            return chosen.select(*keys).distinct()
        together, percentiles = apart(aggregates)
        ties = Ties.among(self.query)
        calls = [
            [spark_aggregate(aggregates[at], in_events, ties).alias(f"__a{at}") for at in places] for places in together
        ]
        parts = [chosen.groupBy(*keys).agg(*each) for each in calls]
        parts += [percentile(chosen, keys, aggregates[at], in_events, f"__a{at}") for at in percentiles]
        return reduce(lambda one, other: _joined(one, other, keys), parts)

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


def _joined(one: DataFrame, other: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Put the columns of rows with equal keys, of which both have the same, side by side; NULL equals NULL."""
    from pyspark.sql import functions as F

    renamed = other.withColumnsRenamed({key: f"{key}_other" for key in keys})
    same = [F.col(key).eqNullSafe(F.col(f"{key}_other")) for key in keys]
    return one.join(renamed, same or None, "inner" if same else "cross").drop(*(f"{key}_other" for key in keys))
