"""The two halves of what a plan computes: of events, on every agent that has some; of PAOs, where results are made.

Pure. Both are made of the query's text, so a plan lets go of them until it is used: an agent has many plans, most of
them for few events or for copies of masters that others lead, and expressions are most of what a plan takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import polars as pl

from elf.agents.jobs.coded import Condition, conditions_of, texts_of
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.intervals import Numbering
from elf.agents.language.expressions import compile_expression
from elf.agents.language.groups import MapSide, Shown, compile_shown, input_of, keys_of
from elf.agents.language.iteration import Iterating, compile_iterating
from elf.agents.language.operators import filtering
from elf.agents.language.own_functions import bound
from elf.agents.language.query import TIME_COLUMN, Query, parse_query
from elf.agents.language.scopes import GroupScope, RowScope
from elf.agents.language.sort_keys import Order
from elf.agents.language.types import SqlType
from elf.cbt.schema import INTERVAL


class MapHalf(NamedTuple):
    """What is computed of events.

    Attributes:
        conditions: the filter; none where there is none.
        inputs: what PAOs are made of.
        texts: the columns that have to be texts for that.
    """

    conditions: tuple[Condition, ...]
    inputs: tuple[pl.Expr, ...]
    texts: frozenset[str]


class ResultHalf(NamedTuple):
    """What is computed of PAOs; `written` says how the query writes its aggregates."""

    having: pl.Expr | None
    results: tuple[pl.Expr, ...]
    order: tuple[Order, ...]
    written: Mapping[str, str]


class Halves(msgspec.Struct, eq=False):
    """What somebody has used of a plan."""

    map: MapHalf | None
    result: ResultHalf | None


def map_half(mapped: MapSide, numbering: Numbering, rows: RowScope) -> MapHalf:
    """Return what is computed of events."""
    inputs = [interval_of(pl.col(TIME_COLUMN).cast(pl.Datetime("ms")).cast(pl.Int64), numbering).alias(INTERVAL)]
    inputs += [input_of(key) for key in mapped.keys]
    inputs += [made.input.alias(name) for name, made in mapped.aggregates if made.input is not None]
    conditions = conditions_of(mapped.where, rows) if mapped.where is not None else ()
    return MapHalf(conditions, tuple(inputs), texts_of(inputs, 1 + len(mapped.keys)))


def result_half(shown: Shown, written: Mapping[str, str]) -> ResultHalf:
    """Return what is computed of PAOs."""
    return ResultHalf(shown.having, tuple(expr for expr, _ in shown.results), shown.order, written)


def interval_of(at_ms: pl.Expr, numbering: Numbering) -> pl.Expr:
    """Return the number of the interval that event times lie in, whole numbers of ms."""
    number = at_ms // numbering.length_ms
    return number + numbering.shift if numbering.shift else number


def understood(query: Query, rows: RowScope) -> tuple[MapSide, Shown, Mapping[str, str], Iterating | None]:
    """Return what is done with events, what a result is made of, how the query writes its aggregates, and iterates."""
    if query.last is not None:
        return compile_iterating(query, rows)
    if query.where is not None:
        # First, for of several mistakes the first in the text is told.
        filtering(compile_expression(query.where, rows), "WHERE")
    keys = keys_of(query, rows)
    groups = GroupScope(query, rows, keys)
    shown = compile_shown(query, groups)
    return MapSide(query.where, keys, tuple(groups.aggregates.values()), groups.calls), shown, groups.written, None


def parsed_again(definition: Definition, columns: Mapping[str, SqlType]) -> tuple[Query, RowScope]:
    """Return the query of a job that was checked before, and its names; `columns`: at least those that it reads."""
    own = bound(definition.creator, definition.name, definition.functions, None)
    query = parse_query(definition.query)
    return query, RowScope(query, columns, own)
