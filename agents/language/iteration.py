"""What a query means that joins its own last result: PAOs of a window and that result in, PAOs of its groups out. Pure.

Agents never join. They reduce events by all that the join, and what mixes columns of events with those of the last
result, needs of an event: these expressions are the keys of their PAOs. The master joins a window's merged PAOs with
the result of the window that ended one slide before, and groups what it gets by the query's own keys: states of
aggregates over events merge, as often as their events match, and aggregates of anything else are computed here, each
value as often as it is there. Paper: section 2.1, dataflow cycles; DESIGN section 7.

Like all of the job language it means what Spark says of a join of events with that result: NULL equals nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import msgspec
import numpy as np
import polars as pl
from sqlglot import exp

from elf.agents.errors import JobError
from elf.agents.language.aggregates import Aggregated, compile_aggregate
from elf.agents.language.combination import Joining, join_frames
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import compile_expression
from elf.agents.language.groups import MapSide, Shown, compile_shown, input_of, keys_of, schema_of
from elf.agents.language.last_checks import check_met, check_reachable
from elf.agents.language.last_result import LAST_RESULT, has_last
from elf.agents.language.last_scopes import JoinedGroups, JoinedScope, framed
from elf.agents.language.last_types import types_of_last
from elf.agents.language.operators import condition
from elf.agents.language.query import Query
from elf.agents.language.required_text import conjuncts
from elf.agents.language.scopes import RowScope
from elf.agents.language.types import ArrayType, SqlType
from elf.cbt import INTERVAL, PaoSchema
from elf.cbt.aggregates import AggregateOverflow
from elf.cbt.folding import completed

#: The most that a last result may have: it is joined with each window anew, and written with each commit.
ROWS_MAX, BYTES_MAX = 100_000, 32 << 20
#: How many events a joined row stands for, where it matters.
_TIMES = "times"
#: Aggregates of which a value counts as often as it is there; of the others that are allowed, it does not matter.
_WEIGHTED = ("sum", "avg", "count")


class Iterating(msgspec.Struct, frozen=True, eq=False):
    """How PAOs of a window are joined with the last result, and grouped.

    Attributes:
        schema: the shape of the groups' PAOs.
        read: the columns of the last result that are read.
    """

    schema: PaoSchema
    read: Mapping[str, SqlType]
    _join: Joining
    _where: pl.Expr | None
    _keys: tuple[pl.Expr, ...]
    #: Aggregate -> what it reads of joined rows; None: it counts them. Of those that are not over events alone.
    _inputs: Mapping[str, pl.Expr | None]
    #: The state of agents' PAOs that says how many events a row stands for; "" where nobody needs it.
    _times: str
    _written: Mapping[str, str]

    def regroup(self, paos: pl.DataFrame, last: pl.DataFrame) -> pl.DataFrame:
        """Join the PAOs of a window with the last result, and group them. O(rows log rows) of the join.

        Args:
            paos: as agents make them, merged, without `interval`.
            last: the last result, under its columns' names; without rows before the first window.

        Raises:
            JobError: both have the same keys so often that the rows would be too many, or a sum left its range.
        """
        right = last.select(pl.col(name).alias(framed(name)) for name in self.read)
        joined = join_frames(paos, right, self._join, LAST_RESULT)
        if self._where is not None:
            joined = joined.filter(self._where)
        if not joined.height:
            return self.schema.empty().drop(INTERVAL)
        slots = list(self.schema.slots)
        kept = [name for name in self.schema.states if name in paos.columns]
        inputs = [expr.alias(name) for name, expr in self._inputs.items() if expr is not None]
        times = [pl.col(self._times).alias(_TIMES)] if self._times else []
        rows = joined.select(*self._keys, *slots, *kept, *inputs, *times, pl.lit(0, dtype=pl.Int64).alias(INTERVAL))
        parts = [completed(rows.select(*self.schema.key_names, *slots, *kept, INTERVAL), self.schema, {})]
        try:
            if self._inputs:
                plain = rows.filter(pl.all_horizontal(pl.col(slots).is_null())) if slots else rows
                parts.append(completed(self._counted(plain), self.schema, {INTERVAL: 0}))
            return self.schema.merge_window(parts)
        except AggregateOverflow as error:
            of = {state: name for name, each in self.schema.aggregates for state in (name, *each.states(name))}
            name = of.get(error.column, error.column)
            raise JobError(f"the sum in column {self._written.get(name, name)!r} does not fit into 64 bits") from None

    def _counted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Compute the states of the aggregates that are not over events alone: a row for some rows of equal keys."""
        mixed = tuple((name, each) for name, each in self.schema.aggregates if name in self._inputs)
        creates = [
            state
            for name, each in mixed
            for state in each.create(name, None if self._inputs[name] is None else pl.col(name))
        ]
        by = [*self.schema.key_names, *([_TIMES] if self._times else [])]
        made = rows.lazy().group_by(by).agg(creates).collect() if by else rows.select(creates)
        if not self._times:
            return made
        keys = (*self.schema.keys, (_TIMES, pl.Int64()))
        weighted = PaoSchema((), tuple((name, each) for name, each in mixed if each.kind in _WEIGHTED))
        return _multiplied(completed(made, PaoSchema(keys, mixed), {INTERVAL: 0}), weighted)


def check_size(rows: pl.DataFrame) -> None:
    """Refuse a result that is too large to be read again.

    Raises:
        JobError: it says how large it may be.
    """
    if rows.height > ROWS_MAX or rows.estimated_size() > BYTES_MAX:
        size = f"{rows.height} rows of {rows.estimated_size()} bytes"
        raise JobError(f"the result has {size}, and one that is read again at most {ROWS_MAX} of {BYTES_MAX}")


def compile_iterating(query: Query, rows: RowScope) -> tuple[MapSide, Shown, Mapping[str, str], Iterating]:
    """Compile a query that joins its last result.

    Returns:
        What agents do with events, what a result is made of, how the query writes its aggregates, and the join.

    Raises:
        JobSpecError: something in it is outside the job language, or a type cannot be told.
    """
    last = query.last
    assert last is not None
    check_reachable(query)
    kinds = types_of_last(query, rows)
    joined = JoinedScope(rows, kinds)
    pairs = [(joined.event_key(event), joined.last_column(column), column) for event, column in last.on]
    for key, (_, kind), node in pairs:
        if key.type is not kind or kind is SqlType.DOUBLE:
            message = f"{key.value.node.sql()} is {key.type.value} and {node.sql()} is {kind.value}"
            raise refused(node, message, f"join {LAST_RESULT} by columns of one type that is not DOUBLE")
    pure, mixed = _divided(query.where)
    where = [condition(compile_expression(part, joined)) for part in mixed]
    if pure is not None:
        condition(compile_expression(pure, rows))
    keys = keys_of(query, joined)
    groups = JoinedGroups(query, joined, keys)
    shown = compile_shown(query, groups)
    for item, (_, given) in zip(query.items, shown.results, strict=True):
        if isinstance(given, ArrayType):
            raise refused(item.node, f"{LAST_RESULT} can have no column of arrays", "select what is one value")
        if kinds[item.name] is not given:
            raise refused(item.node, f"the type of {item.name!r} depends on what it was before", "CAST it to one type")
    check_met(query)
    mapped, times = _map_side(pure, joined, groups)
    schema = schema_of(query, keys, list(groups.aggregates.values()))
    schema_of(query, mapped.keys, mapped.aggregates)
    iterating = Iterating(
        schema=schema,
        read=dict(joined.read),
        _join=Joining(
            last.how, tuple(key.column for key, _, _ in pairs), tuple(framed(name) for _, (name, _), _ in pairs)
        ),
        _where=functools.reduce(lambda left, right: left & right, where) if where else None,
        _keys=tuple(input_of(key) for key in keys),
        _inputs={name: made.input for name, made in groups.aggregates.values() if name in groups.mixed},
        _times=times,
        _written=groups.written,
    )
    return mapped, shown, groups.written, iterating


def _divided(where: exp.Expr | None) -> tuple[exp.Expr | None, list[exp.Expr]]:
    """Return the part of a filter that agents can apply, and the conditions that need the last result."""
    if where is None:
        return None, []
    parts = conjuncts(where)
    mixed = [part for part in parts if has_last(part)]
    if not mixed:
        return where, []
    pure = [part.copy() for part in parts if not has_last(part)]
    return (functools.reduce(lambda left, right: exp.And(this=left, expression=right), pure) if pure else None), mixed


def _map_side(where: exp.Expr | None, joined: JoinedScope, groups: JoinedGroups) -> tuple[MapSide, str]:
    """Return what agents do with events, and the state that says how many a PAO stands for, "" if none needs to."""
    calls = {name: call for name, call in groups.calls.items() if name not in groups.mixed}
    kept = [(name, made) for name, made in groups.aggregates.values() if name in calls]
    weighted = [name for name, made in groups.aggregates.values() if name in groups.mixed and _counts(made)]
    times = ""
    if weighted:
        counted = next((name for name, made in kept if made.aggregate.kind == "count" and made.input is None), None)
        if counted is None:
            counted = f"a{len(groups.aggregates)}"
            calls[counted] = exp.Anonymous(this="count", expressions=[exp.Star()])
            kept.append((counted, compile_aggregate(calls[counted], joined.events)))
        (times,) = next(made.aggregate for name, made in kept if name == counted).states(counted)
    return MapSide(where, tuple(joined.keys.values()), tuple(kept), calls), times


def _counts(made: Aggregated) -> bool:
    return made.aggregate.kind in _WEIGHTED


def _multiplied(made: pl.DataFrame, schema: PaoSchema) -> pl.DataFrame:
    """Let states that add up count as often as their row says. O(rows log times).

    Doubled and added as PAOs are merged: as exact, and as sure to tell when a sum leaves its range.
    """
    format_, times = schema.format, made[_TIMES].to_numpy().copy()
    if not times.size or int(times.max()) <= 1:
        return made
    power = format_.numbers(made)
    total = [np.zeros_like(state) for state in power]
    rows = np.arange(times.size)
    while rows.size:
        odd = rows[(times[rows] & 1) == 1]
        added = schema.combine([state[odd] for state in total], [state[odd] for state in power])
        for state, sums in zip(total, added, strict=True):
            state[odd] = sums
        times >>= 1
        rows = rows[times[rows] > 0]
        doubled = schema.combine([state[rows] for state in power], [state[rows] for state in power])
        for state, sums in zip(power, doubled, strict=True):
            state[rows] = sums
    columns = dict(zip(schema.states, total, strict=True))
    return made.with_columns(pl.Series(name, column, dtype=schema.states[name]) for name, column in columns.items())
