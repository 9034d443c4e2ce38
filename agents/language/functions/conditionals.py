"""Functions that choose among values: coalesce, if, nullif, greatest and their kin."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from elf.agents.language.coercion import cast, unify
from elf.agents.language.functions.registry import MANY, Call, special
from elf.agents.language.operators import compare, condition
from elf.agents.language.types import SqlType
from elf.agents.language.values import Untyped, Value


@special("coalesce", "ifnull", "nvl", least=1, most=MANY)
def coalesce(call: Call) -> Value:
    """The first value that is not NULL."""
    if call.name.lower() != "coalesce" and len(call.arguments) != 2:
        raise call.refused(f"{call.name}() takes 2 arguments, not {len(call.arguments)}")
    values, kind = unify(call.arguments, call.node)
    return call.value(pl.coalesce([value.expr for value in values]), kind)


@special("nvl2", least=3)
def nvl2(call: Call) -> Value:
    """The second value where the first is not NULL, else the third."""
    (one, other), kind = unify(call.arguments[1:], call.node)
    return call.value(pl.when(call.arguments[0].expr.is_not_null()).then(one.expr).otherwise(other.expr), kind)


@special("if", least=3)
def if_(call: Call) -> Value:
    """The second value where the first is true, else the third."""
    test = condition(call.arguments[0])
    (one, other), kind = unify(call.arguments[1:], call.node)
    return call.value(pl.when(test).then(one.expr).otherwise(other.expr), kind)


@special("nullif", least=2)
def nullif(call: Call) -> Value:
    """NULL where both are equal, else the first."""
    left, right = call.arguments
    if left.type is Untyped.DECIMAL or not isinstance(left.type, SqlType):
        raise call.refused("nullif() of a literal is not in the job language")
    same = compare(exp.EQ, left, right, call.node).expr
    return call.value(pl.when(same).then(None).otherwise(left.expr), left.type)


@special("greatest", "least", least=2, most=MANY)
def greatest(call: Call) -> Value:
    """The largest or smallest value; NULLs are skipped, NaN is larger than any number."""
    values, kind = unify(call.arguments, call.node, promote_to_string=False)
    largest = call.name.lower() == "greatest"
    chosen = values[0].expr
    for value in values[1:]:
        better = value.expr > chosen if largest else value.expr < chosen
        chosen = pl.when(chosen.is_null() | better).then(value.expr).otherwise(chosen)
    return call.value(chosen, kind)


@special("isnull", "isnotnull", least=1)
def isnull(call: Call) -> Value:
    """Whether the value is, or is not, NULL."""
    expr = call.arguments[0].expr
    return call.value(expr.is_null() if call.name.lower() == "isnull" else expr.is_not_null(), SqlType.BOOLEAN)


@special("isnan", least=1)
def isnan(call: Call) -> Value:
    """Whether the value is NaN; false for NULL."""
    return call.value(call.take(0, SqlType.DOUBLE).expr.is_nan().fill_null(False), SqlType.BOOLEAN)


@special("boolean", "int", "bigint", "double", "string", "date", "timestamp", least=1)
def type_name(call: Call) -> Value:
    """A type's name called as a function is a CAST."""
    return cast(call.arguments[0], SqlType.parse(call.name), call.node)
