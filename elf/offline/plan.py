"""A job's query as Spark DataFrame calls.

Owns how clauses become DataFrame steps; what names mean is `elf.offline.scopes`, expressions are
`elf.offline.expressions`, which files are read is `elf.offline.events`. HAVING, ORDER BY and LIMIT act within one
window, so the events of one window come first and everything else after. Shares the parser with the agents, and none
of what evaluates.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from agents.errors import JobSpecError
from agents.jobs.query import Query, parse_query
from elf.offline.expressions import call, is_aggregate, to_column
from elf.offline.scopes import EventScope, GroupScope, OutputScope, Window, same

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

#: The tolerance of doubles: sums of the same numbers in another order differ in the last digits.
RELATIVE = 1e-9


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
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    keys: tuple[int, ...]
    rows: list[tuple[Any, ...]]
    orders: list[tuple[Any, ...]]
    limit: int | None


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
            for node in filter(is_aggregate, part.walk()):
                if not any(same(node, known) for known in self._aggregates):
                    self._aggregates.append(node)

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
            before = itertools.takewhile(lambda row: not close(row[width:], cut), head)
            return [*before, *(tuple(row) for row in cells.filter(_all_close(cells, width, cut)).collect())]
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
        aggregates = [self._aggregate(node, in_events).alias(f"__a{i}") for i, node in enumerate(self._aggregates)]
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

    def _aggregate(self, node: exp.Expr, scope: EventScope) -> Column:
        from pyspark.sql import functions as F

        name = node.name.lower()
        arguments = [F.lit(1) if isinstance(part, exp.Star) else to_column(part, scope) for part in node.expressions]
        return call(name, *arguments)

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


def close(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two rows of cells are equal, doubles within `RELATIVE`."""
    return len(one) == len(other) and all(map(close_cells, one, other))


def close_cells(one: Any, other: Any) -> bool:
    """Whether two cells are equal, doubles within `RELATIVE`; NaN equals NaN and NULL equals NULL."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE) or (math.isnan(one) and math.isnan(other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _collectable(kind: DataType, name: str) -> Column:
    """Turn a cell into what Python receives exactly: times as microseconds, decimals as doubles."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, TimestampType

    if isinstance(kind, TimestampType):
        return F.unix_micros(F.col(name)).alias(name)
    return F.col(name).cast("double").alias(name) if isinstance(kind, DecimalType) else F.col(name)


def _all_close(rows: DataFrame, width: int, cut: tuple[Any, ...]) -> Column:
    """Build the condition that a row's order keys equal those at the cut, doubles nearly."""
    from pyspark.sql import functions as F

    condition = F.lit(True)
    for position, value in enumerate(cut):
        column = F.col(rows.columns[width + position])
        same = column.eqNullSafe(F.lit(value))
        if isinstance(value, float):
            same = same | (F.abs(column - F.lit(value)) <= F.lit(RELATIVE * abs(value)))
        condition = condition & same
    return condition
