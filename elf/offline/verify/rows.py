"""What Spark computes of a job's windows, collected to be compared with what was published.

What a query means is the plan's (`elf.offline.plan`). Here LIMIT keeps all rows that tie with the last one, for the
published result may have any of them, and cells know how far they may be off (`tolerance`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.query import Query
from elf.offline.grid import START, Grid, Window
from elf.offline.own import NONE, Own
from elf.offline.plan import SparkPlan
from elf.offline.scopes import same
from elf.offline.verify.tolerance import EXACT, Tolerance, tolerance_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class OfflineRows:
    """What Spark computed for one window.

    Attributes:
        names: output columns.
        types: their Spark types; TIMESTAMP cells are int microseconds since 1970, DATE cells days, DECIMAL cells
            doubles.
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


class RowsPlan(SparkPlan):
    """A query whose windows are collected with all that comparing them needs.

    Args:
        query, own: see `SparkPlan`.

    Raises:
        JobSpecError: the query is not in the job language.
    """

    def __init__(self, query: str | Query, own: Own = NONE) -> None:
        super().__init__(query, own)
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
    """Turn a cell into what Python receives exactly: times as microseconds, dates as days, decimals as doubles."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DateType, DecimalType, TimestampType

    for made, numbered in ((TimestampType, F.unix_micros), (DateType, F.unix_date)):
        if isinstance(kind, made):
            return numbered(F.col(name)).alias(name)
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, made):
            return F.transform(F.col(name), numbered).alias(name)
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
