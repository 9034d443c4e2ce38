"""A job's query as Spark DataFrame calls.

Owns how clauses become DataFrame steps; what names mean is `elf.offline.scopes`, expressions are
`elf.offline.expressions`, which files are read is `elf.offline.events`. HAVING, ORDER BY and LIMIT act within one
window, so the events of one window come first and everything else after. Shares the parser with the agents, and none
of what evaluates.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from agents.errors import JobSpecError
from agents.jobs.query import Query, aggregate_call, parse_query
from elf.offline.aggregates import spark_aggregate
from elf.offline.expressions import to_column
from elf.offline.scopes import EventScope, GroupScope, OutputScope, Window, same
from elf.offline.tolerance import EXACT, Tolerance, tolerance_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


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

        Raises:
            JobSpecError: a name or a function is unknown, or Spark refuses the types.
        """
        from pyspark.errors import AnalysisException

        try:
            typed = self.rows(events, window)
        except AnalysisException as error:
            raise JobSpecError(f"Spark refuses the query: {str(error).strip().splitlines()[0]}") from None
        width = len(self.query.items)
        cells = typed.select(*[_collectable(field.dataType, field.name) for field in typed.schema.fields])
        rows = self._head(cells, width)
        return OfflineRows(
            names=tuple(item.name for item in self.query.items),
            types=tuple(field.dataType.simpleString() for field in typed.schema.fields[:width]),
            keys=self._key_columns(),
            rows=[row[:width] for row in rows],
            orders=[row[width:] for row in rows],
            limit=self.query.limit,
            near=self._near,
            near_orders=self._near_orders,
            guessed=self.query.having is not None and tolerance_of(self.query.having, self._items).estimate,
        )

    def _head(self, cells: DataFrame, width: int) -> list[tuple[Any, ...]]:
        """Collect in order up to LIMIT, together with every row whose order keys equal those of the last one."""
        limit, order = self.query.limit, self._order()
        ordered = cells.orderBy(*order) if order else cells
        if limit is None:
            return [tuple(row) for row in ordered.collect()]
        cells.persist()
        try:
            head = [tuple(row) for row in ordered.limit(limit + 1).collect()]
            if len(head) <= limit or limit == 0:
                return head[:limit]
            cut = head[limit - 1][width:]
            near = self._near_orders
            before = itertools.takewhile(lambda row: not close(row[width:], cut, near), head)
            ties = cells.filter(_all_close(cells, width, cut, near))
            return [*before, *(tuple(row) for row in (ties.orderBy(*order) if order else ties).collect())]
        finally:
            cells.unpersist()

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

    def rows(self, events: DataFrame, window: Window | None) -> DataFrame:
        """Return the window's rows before ORDER BY and LIMIT: `o0..` are the output, `s0..` the order keys."""
        from pyspark.sql import functions as F

        if window is not None:
            start, end = (F.timestamp_millis(F.lit(bound_ms)) for bound_ms in window)
            events = events.filter((F.col("ts") >= start) & (F.col("ts") < end))
        in_events = EventScope(events.columns)
        if self.query.where is not None:
            events = events.filter(to_column(self.query.where, in_events))
        events = events.select("*", *[to_column(key, in_events).alias(f"__k{i}") for i, key in enumerate(self._groups)])
        aggregates = [spark_aggregate(node, in_events).alias(f"__a{i}") for i, node in enumerate(self._aggregates)]
        keys = [F.col(f"__k{i}") for i in range(len(self._groups))]
        if self.query.window is not None:
            # GROUP BY window(...) has no row for a window without events; no GROUP BY at all has always one.
            keys.append(F.lit(1).alias("__w"))
        grouped = events.groupBy(*keys).agg(*aggregates) if aggregates else events.select(*keys).distinct()
        after = GroupScope(self._groups, self._aggregates, window)
        if self.query.having is not None:
            grouped = grouped.filter(to_column(self.query.having, OutputScope(after, self._items, False)))
        in_order = OutputScope(after, self._items, True)
        items = [to_column(item.node, after).alias(f"o{i}") for i, item in enumerate(self.query.items)]
        order = [
            to_column(self._by_position(node.this), in_order).alias(f"s{i}") for i, node in enumerate(self.query.order)
        ]
        return grouped.select(*items, *order)

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


def _collectable(kind: DataType, name: str) -> Column:
    """Turn a cell into what Python receives exactly: times as microseconds, decimals as doubles."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DecimalType, TimestampType

    if isinstance(kind, TimestampType):
        return F.unix_micros(F.col(name)).alias(name)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, TimestampType):
        return F.transform(F.col(name), F.unix_micros).alias(name)
    return F.col(name).cast("double").alias(name) if isinstance(kind, DecimalType) else F.col(name)


def _all_close(rows: DataFrame, width: int, cut: tuple[Any, ...], near: tuple[Tolerance, ...]) -> Column:
    """Build the condition that a row's order keys equal those at the cut, doubles and estimates nearly."""
    from pyspark.sql import functions as F

    condition = F.lit(True)
    for position, (value, each) in enumerate(zip(cut, near, strict=True)):
        column = F.col(rows.columns[width + position])
        same = column.eqNullSafe(F.lit(value))
        if isinstance(value, float) or (each.estimate and isinstance(value, int)):
            off = F.greatest(F.lit(each.relative) * F.greatest(F.abs(column), F.lit(abs(value))), F.lit(each.absolute))
            same = same | (F.abs(column - F.lit(value)) <= off)
        condition = condition & same
    return condition
