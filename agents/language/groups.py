"""GROUP BY, and what is shown of groups: the same over events and over what a job joins with these.

Pure. `plan` puts them together; `iterating` does, too, for jobs that read their last result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl
from sqlglot import exp

from elf.agents.language.aggregates import Aggregated
from elf.agents.language.canonical import canonical
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import compile_expression
from elf.agents.language.operators import condition
from elf.agents.language.query import Query, aggregate_call, is_window_field
from elf.agents.language.scopes import GroupScope, Key, Rows
from elf.agents.language.sort_keys import Order, by_position, output_value
from elf.agents.language.types import ArrayType, SqlType
from elf.cbt.schema import PaoSchema

#: Keys and slots of one PAO row: the tree notes which are null in one word.
_KEY_COLUMNS_MAX = 64


class MapSide(NamedTuple):
    """What is done with events, before PAOs are merged.

    Attributes:
        where: the row filter.
        keys: what events are grouped by.
        aggregates: name -> what is kept of each aggregate.
        calls: the call of each aggregate, by its name.
    """

    where: exp.Expr | None
    keys: tuple[Key, ...]
    aggregates: tuple[tuple[str, Aggregated], ...]
    calls: Mapping[str, exp.Expr]

    @property
    def groups(self) -> tuple[exp.Expr, ...]:
        """What events are grouped by, as it is written."""
        return tuple(key.value.node for key in self.keys)


class Shown(NamedTuple):
    """What of groups makes a result: the output columns with their types, the filter of groups, the sort keys."""

    results: list[tuple[pl.Expr, SqlType | ArrayType]]
    having: pl.Expr | None
    order: tuple[Order, ...]


def compile_shown(query: Query, groups: GroupScope) -> Shown:
    """Compile what the master computes: the output columns, HAVING and ORDER BY."""
    results = [output_value(item, compile_expression(item.node, groups)) for item in query.items]
    groups.outputs = "last"
    having = condition(compile_expression(query.having, groups)) if query.having is not None else None
    groups.outputs = "first"
    return Shown(results, having, tuple(_order(query, groups, node) for node in query.order))


def schema_of(query: Query, keys: tuple[Key, ...], aggregates: Sequence[tuple[str, Aggregated]]) -> PaoSchema:
    """Return the shape of PAOs of these keys and aggregates; JobSpecError where that is too wide."""
    schema = PaoSchema(
        keys=tuple((key.column, key.type.dtype) for key in keys),
        aggregates=tuple((name, made.aggregate) for name, made in aggregates),
    )
    columns = len(schema.keys) + len(schema.slots)
    if columns > _KEY_COLUMNS_MAX:
        raise refused(
            query.select,
            f"{columns} group keys, distinct counts, sets and sketches are more than {_KEY_COLUMNS_MAX}",
            "make two jobs of it",
        )
    return schema


def keys_of(query: Query, rows: Rows) -> tuple[Key, ...]:
    """Compile the keys that rows are grouped by."""
    keys: dict[object, Key] = {}
    for written in query.groups:
        node = _group_node(written, query, rows)
        if is_window_field(node) and query.window is not None:
            continue  # The window is a key anyway.
        value = compile_expression(node, rows)
        if not isinstance(value.type, SqlType):
            raise refused(written, "a literal is no group key")
        identity = canonical(node)
        keys.setdefault(identity, Key(f"k{len(keys)}", value, identity))
    return tuple(keys.values())


def _group_node(written: exp.Expr, query: Query, rows: Rows) -> exp.Expr:
    """What a GROUP BY entry stands for: an output column by position or name, or the expression itself."""
    node = by_position(written, query.items, "GROUP BY")
    if node is None and isinstance(written, exp.Column) and not written.table and not rows.has(written.name):
        node = next((item.node for item in query.items if item.name.lower() == written.name.lower()), None)
    if node is None:
        return written
    for inner in node.walk():
        if aggregate_call(inner) is not None:
            raise refused(written, "this output column holds an aggregate, so it is no group key")
    return node


def _order(query: Query, scope: GroupScope, node: exp.Ordered) -> Order:
    chosen = by_position(node.this, query.items, "ORDER BY")
    if chosen is not None:
        before = scope.outputs
        scope.outputs = "hidden"
        value = compile_expression(chosen, scope)
        scope.outputs = before
    else:
        value = compile_expression(node.this, scope)
    return Order.of(node, value.expr)


def input_of(key: Key) -> pl.Expr:
    """What a key is computed by, under its column's name."""
    value = key.value.expr
    # Spark groups 0.0 and -0.0 together and shows 0.0.
    value = pl.when(value == 0.0).then(0.0).otherwise(value) if key.type is SqlType.DOUBLE else value
    return value.alias(key.column)
