"""What a plan computes of codes instead of texts (`elf.agents.sources.dictionaries`).

The conditions of a filter that compare a column of texts with texts are found true or not once for each text of its
dictionary, and then looked up. A group key that is a column as it is is grouped by its codes. All else gets texts, of
the events that are left by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl
from sqlglot import exp

from elf.agents.language.codes import is_coded, looked_up
from elf.agents.language.expressions import compile_expression
from elf.agents.language.operators import condition
from elf.agents.language.required_text import conjuncts
from elf.agents.language.scopes import RowScope

#: What conditions are made of that cannot fail, whatever the texts: a dictionary has those of other events, too.
_SAFE = (exp.EQ, exp.NEQ, exp.In, exp.Like, exp.Is, exp.Not, exp.Or, exp.Paren, exp.Column, exp.Identifier, exp.Null)


class Condition(NamedTuple):
    """A condition of a filter, all of which have to be true.

    Attributes:
        expr: the condition.
        reads: the columns that it reads.
        is_safe: it reads one column only, and cannot fail.
    """

    expr: pl.Expr
    reads: tuple[str, ...]
    is_safe: bool


def conditions_of(where: exp.Expr, rows: RowScope) -> tuple[Condition, ...]:
    """Divide a filter into its conditions."""
    return tuple(_condition(part, rows) for part in conjuncts(where))


def _condition(part: exp.Expr, rows: RowScope) -> Condition:
    expr = condition(compile_expression(part, rows))
    reads = tuple(dict.fromkeys(expr.meta.root_names()))
    nodes = part.walk()
    is_safe = all(node.is_string if isinstance(node, exp.Literal) else isinstance(node, _SAFE) for node in nodes)
    return Condition(expr, reads, is_safe and len(reads) == 1)


def chosen(events: pl.DataFrame, conditions: Sequence[Condition]) -> tuple[pl.Series | None, Sequence[Condition]]:
    """Tell which events meet those conditions that can be looked up, None if there are none; and return the others."""
    mask: pl.Series | None = None
    others = []
    for each in conditions:
        if each.is_safe and is_coded(events[each.reads[0]]):
            met = looked_up(events[each.reads[0]], each.expr)
            mask = met if mask is None else mask & met
        else:
            others.append(each)
    return mask, others


def texts_of(inputs: Iterable[pl.Expr], keys: int) -> frozenset[str]:
    """Return the columns that have to be texts for what is computed of events.

    Args:
        inputs: what that is, the keys first.
        keys: how many of them are keys: those that are columns as they are may be codes.
    """
    return frozenset(
        name
        for number, each in enumerate(inputs)
        if number >= keys or not each.meta.undo_aliases().meta.is_column()
        for name in each.meta.root_names()
    )
