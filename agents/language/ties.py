"""What tells events apart that come at one time, or have equal keys: all that calls of one order show of them. Pure.

`last(path)` and `last(status)` are of one event, so both have to choose it alike: by the time, then by path and status.
Each call alone would choose by its own value, and show the path of one request beside the status of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

from elf.agents.language.aggregate_facts import BY_NAME
from elf.agents.language.canonical import canonical
from elf.agents.language.last_result import has_last
from elf.agents.language.query import Query, aggregate_call


class Tie(NamedTuple):
    """A value that tells events apart, and whether it is the one that the call shows."""

    value: exp.Expr
    is_own: bool


class Ties:
    """The orders by which calls of aggregates choose an event, and the values that each of them shows.

    Args:
        calls: with or without FILTER or IGNORE NULLS.
    """

    def __init__(self, calls: Iterable[exp.Expr]) -> None:
        self._values: dict[object, dict[str, exp.Expr]] = {}
        for call in calls:
            order, value = _order(call), _value(call)
            if order is not None and value is not None:
                self._values.setdefault(order, {})[_written(value)] = value

    @classmethod
    def among(cls, query: Query) -> Ties:
        """Return those of all calls of a query."""
        return cls(_calls(query))

    def of(self, call: exp.Expr) -> list[Tie]:
        """Return the values that tell a call's events apart, its own among them; none if its own is the only one.

        Their order does not depend on the one in which the query has them.
        """
        own, values = _value(call), self._values.get(_order(call), {})
        if own is None or len(values) < 2:
            return []
        return [Tie(values[text], text == _written(own)) for text in sorted(values)]


def _calls(query: Query) -> Iterator[exp.Expr]:
    """Yield the calls over events; what the last result is joined with is not kept by agents, nor chosen with these."""
    shown = [item.node for item in query.items]
    for node in (*shown, *(() if query.having is None else (query.having,)), *query.order):
        yield from (inner for inner in node.walk() if aggregate_call(inner) is not None and not has_last(inner))


def _order(call: exp.Expr) -> object:
    """Return what is equal for calls that choose by one order; None of others."""
    inner = aggregate_call(call)
    fact = None if inner is None else BY_NAME.get(inner.name.lower())
    if inner is None or fact is None:
        return None
    if fact.form == "by_value" and len(inner.expressions) == 2:
        return fact.kind, repr(canonical(inner.expressions[1]))
    if fact.form == "by_time":
        return fact.kind
    return fact.form if fact.form == "any_value" else None


def _value(call: exp.Expr) -> exp.Expr | None:
    inner = aggregate_call(call)
    if inner is None or not inner.expressions:
        return None
    first: exp.Expr = inner.expressions[0]
    shown: exp.Expr = first.this if isinstance(first, exp.IgnoreNulls) else first
    return shown


def _written(value: exp.Expr) -> str:
    return repr(canonical(value))
