"""The types of a job's last result, which are those of its own columns: those that change no more. Pure.

A column that is made of the last result has the type that it has where that is NULL, as it is before the first window,
unless that leaves it open: `coalesce(r.label, e.src)` is of the type of `src`. What stays open has to be written: CAST.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from msgspec.structs import replace

from elf.agents.errors import JobSpecError
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import compile_expression
from elf.agents.language.groups import keys_of
from elf.agents.language.last_result import LAST_RESULT, is_last
from elf.agents.language.last_scopes import JoinedGroups, JoinedScope
from elf.agents.language.query import Item, Query
from elf.agents.language.scopes import Key, RowScope
from elf.agents.language.sort_keys import output_value
from elf.agents.language.types import ArrayType, SqlType

Kind = SqlType | ArrayType
#: Types only widen, NULL to INT to BIGINT to DOUBLE to STRING: one that changes more often never settles.
_CHANGES_MAX = 6


def types_of_last(query: Query, rows: RowScope) -> Mapping[str, Kind]:
    """Return the type of each output column, in their order.

    Raises:
        JobSpecError: a column cannot be compiled, or its type is open.
    """
    known: dict[str, Kind | None] = {item.name: None for item in query.items}
    found: dict[str, Kind | JobSpecError] = {}
    changes = dict.fromkeys(known, 0)
    reads = {item.name: {node.name.lower() for node in item.node.walk() if is_last(node)} for item in query.items}
    pending = query.items
    while pending:
        found |= {item.name: _type_of(item, query, rows, known, every_key=False) for item in pending}
        kinds = {item.name: None if isinstance(kind := found[item.name], JobSpecError) else kind for item in pending}
        changed = {name: kind for name, kind in kinds.items() if kind is not known[name]}
        for name in changed:
            changes[name] += 1
        known |= changed
        # Types go from column to column, one further with each round.
        news = {name.lower() for name in changed}
        pending = tuple(item for item in query.items if reads[item.name] & news and changes[item.name] < _CHANGES_MAX)
    settled = {name: kind for name, kind in known.items() if kind is not None}
    for item in query.items:
        error = found[item.name]
        if isinstance(error, JobSpecError):
            raise _why_open(item, query, rows, known, error)
    return settled


def _type_of(
    item: Item, query: Query, rows: RowScope, known: Mapping[str, Kind | None], *, every_key: bool = True
) -> Kind | JobSpecError:
    joined = JoinedScope(rows, known)
    try:
        keys = keys_of(query, joined) if every_key else _keys_known(query, joined)
        return output_value(item, compile_expression(item.node, JoinedGroups(query, joined, keys)))[1]
    except JobSpecError as error:
        return error


def _keys_known(query: Query, joined: JoinedScope) -> tuple[Key, ...]:
    """Return the group keys that have a type already; the others hold up only what is made of them."""
    keys: list[Key] = []
    for group in query.groups:
        with contextlib.suppress(JobSpecError):
            keys += keys_of(replace(query, groups=(group,)), joined)
    return tuple(keys)


def _why_open(
    item: Item, query: Query, rows: RowScope, known: Mapping[str, Kind | None], error: JobSpecError
) -> JobSpecError:
    """Tell an open type from a mistake: with some type for what is open it can be compiled."""
    told: dict[str, JobSpecError] = {}
    for kind in SqlType:
        guess = {name: kind if each is None else each for name, each in known.items()}
        found = _type_of(item, query, rows, guess)
        if not isinstance(found, JobSpecError):
            message = f"the type of {item.name!r} is made of what it was before, in {LAST_RESULT}"
            return refused(item.node, message, "say which it is, such as CAST(r.n AS BIGINT), where it is read")
        told[str(found)] = found
    # What is wrong with any type is the mistake, in a key or in the column itself.
    return next(iter(told.values())) if len(told) == 1 else error
