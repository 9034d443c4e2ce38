"""Whose values of a result do not fit into their types, by the names that people know the keys by. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from sqlglot import exp

from elf.agents.completeness.overflows import NONE, TOLD_MAX, Overflow, Overflows
from elf.agents.language.canonical import canonical
from elf.agents.language.dialect import written
from elf.agents.language.json_rows import json_rows
from elf.agents.language.query import Query, is_window_field, parse_query
from elf.agents.language.sort_keys import by_position
from elf.cbt.folding import Unfit


def overflows_of(text: str, keys: Sequence[str], calls: Mapping[str, str], found: Sequence[Unfit]) -> Overflows:
    """Say whose values an aggregate cannot say.

    Args:
        text: the query.
        keys: the columns of the group keys.
        calls: aggregate -> its call as it is written.
        found: what cannot be said.
    """
    if not found:
        return NONE
    called = _names(parse_query(text))
    # A name may stand for a column or for what an output column shows; that it is told never depends on which it is.
    names = dict(zip(keys, called if len(called) == len(keys) else keys, strict=True))
    first = [
        Overflow(calls[unfit.aggregate], key, unfit.why)
        for unfit in found
        for key in _first(unfit.keys.select(keys).rename(names))
    ]
    return Overflows(tuple(first[:TOLD_MAX]), sum(unfit.rows for unfit in found))


def _first(keys: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the first keys in their order, so that equal PAOs give equal answers; one without columns if it is all."""
    return json_rows(keys.sort(keys.columns).head(TOLD_MAX)) if keys.columns else [{}]


def _names(query: Query) -> list[str]:
    """Return what each group key is called: the output column that shows it, or as it is written."""
    shown = {canonical(item.node): item.name for item in reversed(query.items)}
    nodes: dict[object, exp.Expr] = {}
    for group in query.groups:
        node = by_position(group, query.items, "GROUP BY") or group
        if isinstance(node, exp.Column) and not node.table and canonical(node) not in shown:
            node = next((item.node for item in query.items if item.name.lower() == node.name.lower()), node)
        if not is_window_field(node):
            nodes.setdefault(canonical(node), node)
    return [shown.get(identity, written(node)) for identity, node in nodes.items()]
