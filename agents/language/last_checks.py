"""Joins with the last result, and conditions on it, that nothing can ever meet. Pure.

A chain of results begins with an empty one. What HAVING or WHERE leaves out of a result is not in the next one's last
result either: a condition that is not true as long as the last result's columns are NULL keeps them NULL for ever.
"""

from __future__ import annotations

from sqlglot import exp

from elf.agents.language.dialect import refused, written
from elf.agents.language.last_result import LAST_RESULT, has_last, is_last
from elf.agents.language.query import Query, aggregate_call

#: What is NULL where any of its operands is.
_STRICT = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Cast)
#: Binary or unary to the parser, and not strict.
_OTHERS = (exp.And, exp.Or, exp.Not, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
#: Aggregates that are NULL where all that they are given is.
_NULL_OF_NULLS = ("sum", "avg", "min", "max")


def check_reachable(query: Query) -> None:
    """Refuse a query no row of which can ever pass, for its condition needs a last result that has rows.

    Raises:
        JobSpecError: where the condition is, and what would do.
    """
    if query.last is None or query.last.how != "left":
        return
    for clause, node in (("WHERE", query.where), ("HAVING", query.having)):
        if node is not None and has_last(node) and _is_never_true(node):
            raise refused(
                node,
                f"{LAST_RESULT} is empty at first, so {clause} {written(node)} is never true, and what it leaves out "
                "is not in the next one either",
                "show the column, and compare in a job over this one: FROM job('creator/name'); or coalesce(..., 0)",
            )


def check_met(query: Query) -> None:
    """Refuse a query whose rows are of events that meet a row of the last result, for there never is one.

    Raises:
        JobSpecError: where the join is, and what would do.
    """
    if query.last is not None and query.last.how == "inner":
        raise refused(
            query.last.node,
            f"{LAST_RESULT} is empty at first, so no event meets a row of it, and the next one is empty, too",
            f"write LEFT JOIN {LAST_RESULT}, which keeps events that meet none",
        )


def _is_never_true(node: exp.Expr) -> bool:
    """Tell whether a condition is NULL or false wherever the last result's columns are NULL."""
    match node:
        case exp.Paren():
            return _is_never_true(node.this)
        case exp.And():
            return _is_never_true(node.this) or _is_never_true(node.expression)
        case exp.Or():
            return _is_never_true(node.this) and _is_never_true(node.expression)
        case exp.Not() if isinstance(inner := node.this.unnest(), exp.Is):
            return isinstance(inner.expression, exp.Null) and _is_null(inner.this)
    return _is_null(node)


def _is_null(node: exp.Expr) -> bool:
    """Tell whether an expression is NULL wherever the last result's columns are."""
    call = aggregate_call(node)
    if call is not None:
        return call.name.lower() in _NULL_OF_NULLS and any(map(_is_null, call.expressions))
    if isinstance(node, exp.Paren | exp.Not):
        return _is_null(node.this)
    if isinstance(node, exp.In):
        return _is_null(node.this)
    if isinstance(node, _STRICT) and not isinstance(node, _OTHERS):
        return any(map(_is_null, node.iter_expressions()))
    return is_last(node) or isinstance(node, exp.Null)
