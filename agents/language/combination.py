"""What a query over other jobs means: their results of one window in, its own rows out. Pure.

Like all of the job language it means what Spark says: NULL equals nothing, rows that match several are there several
times. The offline side evaluates the same text with Spark and shares no code with this. DESIGN section 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import polars as pl
from polars.exceptions import PolarsError
from sqlglot import exp

from elf.agents.errors import JobError, JobSpecError, did_you_mean, nearest
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import compile_expression
from elf.agents.language.growth import check_growth
from elf.agents.language.join_form import How
from elf.agents.language.joins import Joined, JoinQuery, parse_joins
from elf.agents.language.operators import filtering
from elf.agents.language.query import aggregate_call, is_window_field
from elf.agents.language.scopes import WINDOW_END, WINDOW_START
from elf.agents.language.sort_keys import Order, by_position, output_value, sort_rows
from elf.agents.language.types import ArrayType, SqlType, parse_type
from elf.agents.language.values import Value

#: Rows that a join may make: where keys are in both jobs many times, their product.
ROWS_MAX = 4_000_000


class _Column(NamedTuple):
    """A column of a job that is read: its name among all, as its job has it, and its type."""

    frame: str
    name: str
    type: SqlType | ArrayType


class Joining(NamedTuple):
    """Which columns are to be equal, and what becomes of rows on the left that match none."""

    how: How
    left: tuple[str, ...]
    right: tuple[str, ...]


class Combining(msgspec.Struct, frozen=True, eq=False):
    """A compiled query over other jobs.

    Attributes:
        query: taken apart.
        output: name and type of each output column.
        read: of each job that is read, in their order: column -> type.
    """

    query: JoinQuery
    output: tuple[tuple[str, SqlType | ArrayType], ...]
    read: tuple[Mapping[str, SqlType | ArrayType], ...]
    _joins: tuple[Joining, ...]
    _where: pl.Expr | None
    _results: tuple[pl.Expr, ...]
    _order: tuple[Order, ...]

    def combine(self, frames: Sequence[pl.DataFrame], window: tuple[int, int]) -> pl.DataFrame:
        """Return the rows of one window, in their order; those that compare equal in the order of all columns.

        Args:
            frames: the results of the jobs that are read, at least with the columns in `read`.
            window: (start_ms, end_ms), half-open.

        Raises:
            JobError: the jobs have the same keys so often that the rows would be too many.
        """
        joined = self._frame(0, frames[0])
        for number, join in enumerate(self._joins, start=1):
            joined = join_frames(joined, self._frame(number, frames[number]), join, self.query.reads[number].job)
        bounds = [
            pl.lit(bound, dtype=pl.Int64).cast(pl.Datetime("ms")).cast(pl.Datetime("us")).alias(name)
            for name, bound in zip((WINDOW_START, WINDOW_END), window, strict=True)
        ]
        frame = joined.lazy().with_columns(*bounds)
        if self._where is not None:
            frame = frame.filter(self._where)
        names = [f"o{number}" for number in range(len(self.output))]
        sorts = [f"s{number}" for number in range(len(self._order))]
        frame = frame.with_columns(
            *(expr.alias(name) for expr, name in zip(self._results, names, strict=True)),
            *(order.expr.alias(name) for order, name in zip(self._order, sorts, strict=True)),
        ).select(*names, *sorts)
        frame = sort_rows(frame, self._order, sorts, names)
        if self.query.limit is not None:
            frame = frame.head(self.query.limit)
        return frame.select(
            pl.col(name).alias(shown) for name, (shown, _) in zip(names, self.output, strict=True)
        ).collect()

    def _frame(self, number: int, result: pl.DataFrame) -> pl.DataFrame:
        return result.select(
            pl.col(name).cast(kind.dtype).alias(_framed(number, name)) for name, kind in self.read[number].items()
        )


def compile_joined(joined: Joined) -> Combining:
    """Check a query over other jobs against what these give, and compile it.

    Raises:
        JobSpecError: the query cannot run as written, or would not mean what it means in Spark.
    """
    try:
        query = parse_joins(joined.query)
        check_growth(query.select)
        combining = _compile(query, joined)
        empty = [
            pl.DataFrame(schema={name: kind.dtype for name, kind in columns.items()}) for columns in combining.read
        ]
        # So that what Polars cannot evaluate is refused at publish.
        result = combining.combine(empty, (0, 1))
    except RecursionError:
        raise JobSpecError("the query is nested too deeply", line=1, column=1) from None
    except PolarsError as error:
        raise JobSpecError(f"the query cannot be evaluated: {str(error).splitlines()[0]}", line=1, column=1) from None
    expected = {name: kind.dtype for name, kind in combining.output}
    assert dict(result.schema) == expected, f"planned {expected}, got {dict(result.schema)}"
    return combining


def _compile(query: JoinQuery, joined: Joined) -> Combining:
    if [read.job for read in query.reads] != [use.job for use in joined.uses]:
        raise JobSpecError("the jobs of the query are not those that were looked up", line=1, column=1)
    columns = [{name: parse_type(kind) for name, kind in use.columns.items()} for use in joined.uses]
    scope = _JoinScope(query, columns)
    joins = tuple(_compile_join(scope, number, read.how, read.on) for number, read in enumerate(query.reads) if number)
    where = filtering(compile_expression(query.where, scope), "WHERE") if query.where is not None else None
    results = [output_value(item, compile_expression(item.node, scope)) for item in query.items]
    scope.shows_outputs = True
    order = tuple(_compile_order(query, scope, node) for node in query.order)
    return Combining(
        query=query,
        output=tuple((item.name, kind) for item, (_, kind) in zip(query.items, results, strict=True)),
        read=tuple(scope.read),
        _joins=joins,
        _where=where,
        _results=tuple(expr for expr, _ in results),
        _order=order,
    )


def _compile_join(scope: _JoinScope, number: int, how: str, on: Sequence[exp.EQ]) -> Joining:
    left, right = [], []
    for pair in on:
        sides = {scope.number_of(node): (node, scope.column(node)) for node in (pair.this, pair.expression)}
        earlier = [side for side in sides if side < number]
        if number not in sides or len(earlier) != 1:
            raise refused(pair, "a join compares a column of its job with one of a job before it")
        (node, column), (_, other) = sides[number], sides[earlier[0]]
        if column.type != other.type or column.type is SqlType.DOUBLE or isinstance(column.type, ArrayType):
            message = f"{other.name} is {other.type.value} and {column.name} is {column.type.value}"
            raise refused(node, message, "join by columns of one type, neither DOUBLE nor ARRAY")
        left.append(other.frame)
        right.append(column.frame)
    return Joining("left" if how == "left" else "inner", tuple(left), tuple(right))


def _compile_order(query: JoinQuery, scope: _JoinScope, node: exp.Ordered) -> Order:
    chosen = by_position(node.this, query.items, "ORDER BY")
    scope.shows_outputs = chosen is None
    value = compile_expression(node.this if chosen is None else chosen, scope)
    return Order.of(node, value.expr)


def join_frames(left: pl.DataFrame, right: pl.DataFrame, join: Joining, name: str) -> pl.DataFrame:
    """Join two frames without a column in common; NULL equals nothing.

    Raises:
        JobError: both have the same keys so often that the rows would be too many; it names the right one.
    """
    # By copies, for a column may be compared with several.
    on = [f"on{number}" for number in range(len(join.left))]
    ours = left.select(pl.col(name).alias(key) for name, key in zip(join.left, on, strict=True))
    theirs = right.select(pl.col(name).alias(key) for name, key in zip(join.right, on, strict=True))
    matches = ours.join(theirs.group_by(on).len("rows"), on=on, how="inner")["rows"].sum()
    if matches + (left.height if join.how == "left" else 0) > ROWS_MAX:
        raise JobError(
            f"joined with {name} there are {matches} rows, over the limit of {ROWS_MAX}: "
            "both sides have the same keys many times"
        )
    return left.hstack(ours).join(right.hstack(theirs), on=on, how=join.how, coalesce=True).drop(on)


def _framed(number: int, name: str) -> str:
    return f"{number}.{name}"


class _JoinScope:
    """Names over joined results: the columns of all jobs, and the window's bounds; output names where these show."""

    def __init__(self, query: JoinQuery, columns: Sequence[Mapping[str, SqlType | ArrayType]]) -> None:
        self._aliases = {read.alias: number for number, read in enumerate(query.reads)}
        self._columns = columns
        self._outputs = {item.name.lower(): item.node for item in query.items}
        #: Whether output names hide columns, as in ORDER BY.
        self.shows_outputs = False
        #: Of each job: the columns that are read.
        self.read: list[dict[str, SqlType | ArrayType]] = [{} for _ in columns]

    def resolve(self, node: exp.Expr) -> Value | None:
        """Resolve columns; refuse aggregates."""
        if aggregate_call(node) is not None:
            raise refused(node, "an aggregate has no meaning here", "aggregate in a job that this one reads")
        if not isinstance(node, exp.Column):
            return None
        if is_window_field(node):
            return Value(pl.col(WINDOW_START if node.name.lower() == "start" else WINDOW_END), SqlType.TIMESTAMP, node)
        if self.shows_outputs and not node.table and node.name.lower() in self._outputs:
            self.shows_outputs = False
            try:
                return compile_expression(self._outputs[node.name.lower()], self)
            finally:
                self.shows_outputs = True
        column = self.column(node)
        return Value(pl.col(column.frame), column.type, node)

    def number_of(self, node: exp.Column) -> int:
        """Return which job a column is of, in the order of the query."""
        known = self._known(node)
        if node.table and node.table.lower() not in self._aliases:
            close = did_you_mean(nearest(node.table, list(self._aliases))).lstrip("; ")
            raise refused(node, f"there is no job by the name {node.table!r} here", close or None)
        if not known:
            names = [name for columns in self._columns for name in columns]
            close = did_you_mean(nearest(node.name, names)).lstrip("; ")
            raise refused(node, f"there is no column {node.name!r}", close or f"columns: {', '.join(names[:20])}")
        if len(known) > 1:
            hint = " or ".join(f"{alias}.{node.name}" for alias, number in self._aliases.items() if number in known)
            raise refused(node, f"several jobs have a column {node.name!r}", f"write {hint}")
        return known[0]

    def column(self, node: exp.Column) -> _Column:
        """Return a column, and note that it is read."""
        number = self.number_of(node)
        name, kind = next(
            (name, kind) for name, kind in self._columns[number].items() if name.lower() == node.name.lower()
        )
        self.read[number][name] = kind
        return _Column(_framed(number, name), name, kind)

    def _known(self, node: exp.Column) -> list[int]:
        wanted = self._aliases.values() if not node.table else [self._aliases.get(node.table.lower(), -1)]
        return [
            number
            for number in wanted
            if number >= 0 and node.name.lower() in (name.lower() for name in self._columns[number])
        ]
