"""The types of a job's last result, which are those of its own columns: those that change no more. Pure.

A column that is made of the last result has the type that it has where that is NULL, as it is before the first window,
unless that leaves it open: `coalesce(r.label, e.src)` is of the type of `src`. What stays open has to be written: CAST.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.errors import JobSpecError
from agents.jobs.dialect import refused
from agents.jobs.expressions import compile_expression
from agents.jobs.grouping import keys_of
from agents.jobs.last_result import LAST_RESULT
from agents.jobs.last_scopes import JoinedGroups, JoinedScope
from agents.jobs.query import Item, Query
from agents.jobs.scopes import Key, RowScope
from agents.jobs.sorting import output_value
from agents.jobs.types import ArrayType, SqlType

Kind = SqlType | ArrayType
#: Types only widen from one round to the next, INT to BIGINT to DOUBLE: more rounds find nothing.
_ROUNDS = 6


def types_of_last(query: Query, rows: RowScope) -> Mapping[str, Kind]:
    """Return the type of each output column, in their order.

    Raises:
        JobSpecError: a column cannot be compiled, or its type is open.
    """
    known: dict[str, Kind | None] = {item.name: None for item in query.items}
    for _ in range(_ROUNDS):
        found = {item.name: _type_of(item, query, rows, known) for item in query.items}
        kinds = {name: kind if not isinstance(kind, JobSpecError) else None for name, kind in found.items()}
        if kinds == known:
            break
        known = kinds
    settled = {name: kind for name, kind in known.items() if kind is not None}
    for item in query.items:
        error = found[item.name]
        if isinstance(error, JobSpecError):
            raise _why_open(item, query, rows, known, error)
    return settled


def _type_of(item: Item, query: Query, rows: RowScope, known: Mapping[str, Kind | None]) -> Kind | JobSpecError:
    joined = JoinedScope(rows, known)
    try:
        keys: tuple[Key, ...] = keys_of(query, joined)
        return output_value(item, compile_expression(item.node, JoinedGroups(query, joined, keys)))[1]
    except JobSpecError as error:
        return error


def _why_open(
    item: Item, query: Query, rows: RowScope, known: Mapping[str, Kind | None], error: JobSpecError
) -> JobSpecError:
    """Tell an open type from a mistake: with some type for what is open it can be compiled."""
    for kind in SqlType:
        guess = {name: kind if each is None else each for name, each in known.items()}
        if not isinstance(_type_of(item, query, rows, guess), JobSpecError):
            message = f"the type of {item.name!r} is made of what it was before, in {LAST_RESULT}"
            return refused(item.node, message, "say which it is, such as CAST(r.n AS BIGINT), where it is read")
    return error
