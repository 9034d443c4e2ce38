"""The last result of a job as an input of its next one: `FROM edges e LEFT JOIN last_result r ON e.src = r.node`.

Owns the shape of such a join and how its columns are told from those of events; what it means is `iterating`'s. Paper:
section 2.1, dataflow cycles: "a new epoch's input is based on the last epoch's feedback result".
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from elf.agents.language.dialect import refused
from elf.agents.language.join_form import How, join_form

#: What a query names its own last result: that of the window which ended one slide before.
LAST_RESULT = "last_result"
_HINT = f"LEFT JOIN {LAST_RESULT} r ON e.key = r.key"
#: Where a node says that it is a column of the last result.
_MARK = "last_result"


class Last(NamedTuple):
    """How a query joins its last result: pairs of a column of events and one of that result are to be equal."""

    node: exp.Expr
    how: How
    on: tuple[tuple[exp.Column, exp.Column], ...]


def take_last(tree: exp.Select, events: frozenset[str], outputs: frozenset[str]) -> Last | None:
    """Return how a query joins its last result, and mark all columns of that; None if it does not.

    Args:
        tree: the query.
        events: lower-case words by which events go.
        outputs: lower-case names of the query's output columns, which are those of its last result.

    Raises:
        JobSpecError: it joins something else, or so that nobody could say which column is meant.
    """
    joins = tree.args.get("joins") or []
    if not joins:
        return None
    join = joins[0]
    table = join.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refused(join, f"JOIN is not in the job language but with {LAST_RESULT}", _HINT)
    if table.name.lower() != LAST_RESULT or len(joins) > 1:
        at = join if table.name.lower() != LAST_RESULT else joins[1]
        hint = f"{_HINT}, or read several jobs: FROM job('creator/name')"
        raise refused(at, f"JOIN is not in the job language but with {LAST_RESULT}, once", hint)
    alias = table.args.get("alias")
    extra = [part for name, part in table.args.items() if part and name not in ("this", "alias")]
    if extra or (alias is not None and alias.args.get("columns")):
        raise refused(table, f"{LAST_RESULT} has a name after AS, and nothing else", _HINT)
    word = (table.alias or table.name).lower()
    if word in events or word == "window":
        raise refused(table, f"{LAST_RESULT} needs a name of its own here", _HINT)
    _mark(tree, word, outputs)
    how, pairs = join_form(join, "events and results", _HINT)
    return Last(join, how, tuple(_sides(pair) for pair in pairs))


def is_last(node: exp.Expr) -> bool:
    """Tell whether a node is a column of the job's last result."""
    return isinstance(node, exp.Column) and _MARK in node.meta


def has_last(node: exp.Expr) -> bool:
    """Tell whether an expression reads the job's last result."""
    return any(is_last(column) for column in node.find_all(exp.Column))


def _mark(tree: exp.Select, word: str, outputs: frozenset[str]) -> None:
    """Mark the columns that go by a word; refuse those that could be of either side.

    In ORDER BY a plain name is an output column.
    """
    order = tree.args.get("order")
    ordered = {id(column) for column in order.find_all(exp.Column)} if order is not None else set()
    for column in tree.find_all(exp.Column):
        name = column.name
        if column.table.lower() == word and not column.args.get("db"):
            if name.lower() not in outputs:
                message = f"{LAST_RESULT} has no column {name!r}: its columns are those that the query selects"
                raise refused(column, message, f"columns: {', '.join(sorted(outputs))}")
            column.meta[_MARK] = True
        elif not column.table and name.lower() in outputs and id(column) not in ordered:
            message = f"{name!r} could be a column of events or of {LAST_RESULT}"
            raise refused(column, message, f"write which, such as {word}.{name}")


def _sides(pair: exp.EQ) -> tuple[exp.Column, exp.Column]:
    """Return the event's column and the last result's."""
    left, right = pair.this, pair.expression
    if is_last(left) == is_last(right):
        raise refused(pair, f"the join compares a column of events with one of {LAST_RESULT}", _HINT)
    return (right, left) if is_last(left) else (left, right)
