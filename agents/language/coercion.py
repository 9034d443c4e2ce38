"""Spark's implicit casts with ANSI mode off.

Which common type two operands meet in, and what a function's argument may be converted to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.casts import cast_expr
from elf.agents.language.dialect import refused
from elf.agents.language.types import SqlType
from elf.agents.language.values import NUMERIC, Type, Untyped, Value

_DATETIME = (SqlType.DATE, SqlType.TIMESTAMP)
#: What Spark reads as a time only where it is written in the query, and what it reads as one, unlike jobs.
_TIME_WORD = re.compile(r"\s*(epoch|now|today|tomorrow|yesterday)", re.IGNORECASE)
_NO_DAY = re.compile(r"\s*(?:T[0-9]|[0-9]{1,2}:)")
_NAMED_ZONE = re.compile(r"\s*[+-]?[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}[ T][0-9].*[A-Za-z]{2}", re.DOTALL)


def cast(value: Value, target: SqlType, node: exp.Expr | None = None) -> Value:
    """Convert a value as an explicit CAST would.

    Raises:
        JobSpecError: there is no such cast.
    """
    at = node or value.node
    if value.type is target:
        return value
    if value.is_null:
        return Value(pl.lit(None, dtype=target.dtype), target, at)
    if value.type is Untyped.DECIMAL:
        return _cast_decimal(value, target, at)
    if not isinstance(value.type, SqlType):
        raise _no_cast(at, value.type, target)
    if isinstance(value.constant, str) and target in _DATETIME:
        _check_time(value.constant, target, at)
    expr = cast_expr(value.expr, value.type, target)
    if expr is None:
        raise _no_cast(at, value.type, target)
    constant = value.constant if value.type in NUMERIC and target in NUMERIC else None
    if isinstance(constant, int) and target is SqlType.DOUBLE:
        constant = float(constant)
    elif target is not SqlType.DOUBLE and isinstance(constant, float):
        constant = None
    return Value(expr, target, at, constant)


def implicit(value: Value, target: SqlType) -> Value | None:
    """Convert a function's argument to the type the function takes; None where Spark would refuse."""
    if value.type is target or value.is_null:
        return cast(value, target)
    if value.type in (SqlType.STRING, *NUMERIC, Untyped.DECIMAL) and target in NUMERIC:
        return cast(value, target)
    if target is SqlType.STRING or (value.type in (SqlType.STRING, *_DATETIME) and target in _DATETIME):
        return cast(value, target)
    return None


def comparison_type(left: Type, right: Type) -> SqlType | None:
    """The type two compared values meet in; None if they cannot be compared. Decimals are handled by the caller."""
    if left is right:
        return left if isinstance(left, SqlType) else None
    for one, other in ((left, right), (right, left)):
        if one is Untyped.NULL and isinstance(other, SqlType):
            return other
        if one is SqlType.STRING and isinstance(other, SqlType):
            return other
        if one is SqlType.STRING and other is Untyped.DECIMAL:
            return SqlType.DOUBLE
    return _wider(left, right)


def common_type(types: Sequence[Type], *, promote_to_string: bool = True) -> SqlType | None:
    """The type of CASE, IF, COALESCE and IN over values of these types; None if there is none."""
    found: Type = Untyped.NULL
    for each in types:
        if each is Untyped.NULL or each is found:
            continue
        if found is Untyped.NULL:
            found = each
            continue
        wider: Type | None = _wider(found, each)
        if wider is None and promote_to_string and SqlType.STRING in (found, each):
            other = each if found is SqlType.STRING else found
            wider = SqlType.STRING if other is not SqlType.BOOLEAN else None
        if wider is None:
            return None
        found = wider
    return found if isinstance(found, SqlType) else None


def unify(values: Sequence[Value], node: exp.Expr, *, promote_to_string: bool = True) -> tuple[list[Value], SqlType]:
    """Convert values to their common type.

    Raises:
        JobSpecError: they have none.
    """
    target = common_type([value.type for value in values], promote_to_string=promote_to_string)
    if target is None:
        decimal = next((value for value in values if value.type is Untyped.DECIMAL), None)
        if decimal is not None:
            raise decimal_refused(decimal)
        names = ", ".join(sorted({value.type.value for value in values}))
        raise refused(node, f"values of types {names} have no common type", "use CAST(... AS ...)")
    return [cast(value, target) for value in values], target


def decimal_refused(value: Value) -> JobSpecError:
    """The error for a decimal literal where Spark would compute with decimals."""
    text = str(value.constant)
    return refused(
        value.node,
        f"{text} is a DECIMAL in Spark, which jobs compare but do not compute with",
        f"write {text}D for a DOUBLE",
    )


def _wider(left: Type, right: Type) -> SqlType | None:
    pair = {left, right}
    if Untyped.NULL in pair:
        rest = pair - {Untyped.NULL}
        found = rest.pop() if rest else None
        return found if isinstance(found, SqlType) else None
    if pair <= set(NUMERIC):
        return next(each for each in reversed(NUMERIC) if each in pair)
    if pair == {Untyped.DECIMAL, SqlType.DOUBLE}:
        return SqlType.DOUBLE
    return SqlType.TIMESTAMP if pair == set(_DATETIME) else None


def _cast_decimal(value: Value, target: SqlType, node: exp.Expr) -> Value:
    number = value.constant
    if target is SqlType.STRING:
        return Value(pl.lit(str(number)), target, node, str(number))
    if target is SqlType.DOUBLE:
        exact = float(number)  # type: ignore[arg-type]
        return Value(pl.lit(exact, dtype=pl.Float64), target, node, exact)
    if target in NUMERIC:
        whole = int(number)  # type: ignore[arg-type]
        low, high = (-(2**31), 2**31 - 1) if target is SqlType.INT else (-(2**63), 2**63 - 1)
        if low <= whole <= high:
            return Value(pl.lit(whole, dtype=target.dtype), target, node, whole)
        raise refused(node, f"{number} does not fit into {target.value}")
    raise _no_cast(node, value.type, target)


def _check_time(text: str, target: SqlType, node: exp.Expr) -> None:
    """Refuse a literal that Spark reads as a time and jobs do not: it would be NULL."""
    word = _TIME_WORD.match(text)
    if word is not None:
        hint = "write 1970-01-01" if word[1].lower() == "epoch" else "a job's answer must not depend on when it runs"
        raise refused(node, f"{text!r} is a word for a time, which jobs do not read", hint)
    if target is SqlType.TIMESTAMP and _NO_DAY.match(text):
        raise refused(node, f"{text!r} is a time of the day on which it is read", "write the day, too")
    if target is SqlType.TIMESTAMP and _NAMED_ZONE.match(text):
        known = cast_expr(pl.lit(text), SqlType.STRING, target)
        if known is not None and pl.select(known).item() is None:
            raise refused(node, f"{text!r} is no time, or one in a zone with a name", "write the zone as +01:00")


def _no_cast(node: exp.Expr, source: Type, target: SqlType) -> JobSpecError:
    if source is SqlType.DOUBLE and target is SqlType.STRING:
        return refused(
            node,
            "the text of a DOUBLE differs between Java versions, so jobs do not compute it",
            "CAST(... AS BIGINT) first, or leave the number as it is",
        )
    return refused(node, f"{source.value} cannot be cast to {target.value}")
