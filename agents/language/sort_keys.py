"""Output columns and sort keys: what is the same for queries over a source and for those over other jobs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl
from sqlglot import exp

from elf.agents.language.coercion import decimal_refused
from elf.agents.language.dialect import refused
from elf.agents.language.query import Item
from elf.agents.language.types import ArrayType, SqlType
from elf.agents.language.values import Untyped, Value


class Order(msgspec.Struct, frozen=True, eq=False):
    """One sort key of the result, as a column that is computed for it."""

    expr: pl.Expr
    descending: bool
    nulls_last: bool

    @classmethod
    def of(cls, node: exp.Ordered, expr: pl.Expr) -> Order:
        """Return the sort key that an entry of ORDER BY asks for; NULL comes first, as in Spark, unless it is DESC."""
        descending, nulls_first = bool(node.args.get("desc")), node.args.get("nulls_first")
        return cls(expr, descending, nulls_last=descending if nulls_first is None else not nulls_first)


def sort_rows(frame: pl.LazyFrame, order: Sequence[Order], sorts: Sequence[str], names: Sequence[str]) -> pl.LazyFrame:
    """Sort rows by their sort keys (columns `sorts`), and those that compare equal by all output columns (`names`)."""
    return frame.sort(
        *sorts,
        *names,
        descending=[each.descending for each in order] + [False] * len(names),
        nulls_last=[each.nulls_last for each in order] + [False] * len(names),
    )


def by_position(node: exp.Expr, items: Sequence[Item], clause: str) -> exp.Expr | None:
    """Return the output column that a whole number names in GROUP BY or ORDER BY; None for anything else."""
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        return None
    position = int(node.name)
    if not 1 <= position <= len(items):
        raise refused(node, f"{clause} position {position} is not in the select list", f"1 to {len(items)}")
    return items[position - 1].node


def output_value(item: Item, value: Value) -> tuple[pl.Expr, SqlType | ArrayType]:
    """Return what an output column is computed by, and its type; a literal alone may have none."""
    if value.type is Untyped.DECIMAL:
        raise decimal_refused(value)
    if value.type is Untyped.NULL:
        raise refused(item.node, "this output column is always NULL", "CAST(NULL AS STRING) gives it a type")
    assert not isinstance(value.type, Untyped)
    return value.expr, value.type
