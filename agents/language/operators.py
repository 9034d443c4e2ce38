"""Spark's operators with ANSI mode off: arithmetic that wraps, division that gives NULL, three-valued logic."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import polars as pl
from sqlglot import exp

from elf.agents.language import exact
from elf.agents.language.coercion import cast, comparison_type, decimal_refused, unify
from elf.agents.language.dialect import refused
from elf.agents.language.types import SqlType
from elf.agents.language.values import INTEGRAL, NUMERIC, Untyped, Value

Comparison = Callable[[pl.Expr, pl.Expr], pl.Expr]

COMPARISONS: dict[type[exp.Expr], tuple[str, Comparison]] = {
    exp.EQ: ("=", lambda left, right: left == right),
    exp.NEQ: ("!=", lambda left, right: left != right),
    exp.LT: ("<", lambda left, right: left < right),
    exp.LTE: ("<=", lambda left, right: left <= right),
    exp.GT: (">", lambda left, right: left > right),
    exp.GTE: (">=", lambda left, right: left >= right),
    exp.NullSafeEQ: ("<=>", lambda left, right: left.eq_missing(right)),
}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


def compare(kind: type[exp.Expr], left: Value, right: Value, node: exp.Expr) -> Value:
    """Compare two values in their common type."""
    sign, operation = COMPARISONS[kind]
    if left.type is Untyped.DECIMAL and right.type in INTEGRAL:
        left, right, kind = right, left, _MIRRORED.get(kind, kind)
    if left.type in INTEGRAL and right.type is Untyped.DECIMAL:
        return boolean(_compare_with_decimal(kind, left, right), node)
    if left.is_null and right.is_null:
        return boolean(pl.lit(kind is exp.NullSafeEQ or None, dtype=pl.Boolean), node)
    if left.type is right.type is Untyped.DECIMAL:
        outcome = operation(pl.lit(_number(left)), pl.lit(_number(right)))
        return boolean(outcome, node)
    target = SqlType.DOUBLE if {left.type, right.type} == {Untyped.DECIMAL, SqlType.DOUBLE} else None
    target = target or comparison_type(left.type, right.type)
    if target is None and Untyped.DECIMAL in (left.type, right.type) and Untyped.NULL in (left.type, right.type):
        target = SqlType.DOUBLE
    if SqlType.STRING in (left.type, right.type):
        for each in (left, right):
            if isinstance(each.constant, Decimal) and each.constant.as_tuple().exponent == 0:
                # Spark reads the text as a DECIMAL of so many digits, for which most texts have too many.
                raise refused(each.node, f"{each.constant}. is a DECIMAL without a fraction", f"write {each.constant}D")
    if target is None:
        raise refused(node, f"{left.type.value} {sign} {right.type.value} cannot be compared", "use CAST(... AS ...)")
    return boolean(operation(cast(left, target).expr, cast(right, target).expr), node)


def _number(value: Value) -> float:
    return float(value.constant)  # type: ignore[arg-type]


def _compare_with_decimal(kind: type[exp.Expr], whole: Value, decimal: Value) -> pl.Expr:
    """Compare integers with a decimal literal exactly: through the whole numbers around it."""
    number = decimal.constant
    assert isinstance(number, Decimal)
    column = whole.expr.cast(pl.Int64)
    low, high = math.floor(number), math.ceil(number)
    if kind in (exp.EQ, exp.NEQ, exp.NullSafeEQ):
        if not -(2**63) <= low < 2**63:
            raise refused(decimal.node, f"{number} is beyond every BIGINT", "compare with a number that can occur")
        if low != high:
            never = pl.lit(kind is exp.NEQ)
            return never if kind is exp.NullSafeEQ else pl.when(column.is_not_null()).then(never)
        return COMPARISONS[kind][1](column, pl.lit(low, dtype=pl.Int64))
    # x < 1.5 is x < 2, x <= 1.5 is x <= 1, x > 1.5 is x > 1, x >= 1.5 is x >= 2.
    bound = high if kind in (exp.LT, exp.GTE) else low
    if not -(2**63) <= bound < 2**63:
        raise refused(decimal.node, f"{number} is beyond every BIGINT", "compare with a number that can occur")
    return COMPARISONS[kind][1](column, pl.lit(bound, dtype=pl.Int64))


def boolean(expr: pl.Expr, node: exp.Expr) -> Value:
    """Wrap a Boolean expression."""
    return Value(expr, SqlType.BOOLEAN, node)


def condition(value: Value) -> pl.Expr:
    """The expression of a value that has to be a BOOLEAN."""
    if value.is_null:
        return pl.lit(None, dtype=pl.Boolean)
    if value.type is not SqlType.BOOLEAN:
        raise refused(value.node, f"a condition is needed here, but this is {value.type.value}")
    return value.expr


def filtering(value: Value, clause: str) -> pl.Expr:
    """The expression of what WHERE or FILTER let pass; as in Spark it is not NULL itself."""
    if value.is_null:
        raise refused(value.node, f"{clause} NULL lets nothing pass")
    return condition(value)


def numeric_pair(left: Value, right: Value, node: exp.Expr, sign: str) -> tuple[Value, Value, SqlType]:
    """Convert both operands of an arithmetic operator to the type it computes in."""
    if SqlType.STRING in (left.type, right.type):
        left, right = (cast(each, SqlType.DOUBLE) if each.type is SqlType.STRING else each for each in (left, right))
    for each in (left, right):
        if each.type not in (*NUMERIC, Untyped.NULL, Untyped.DECIMAL):
            raise refused(
                node,
                f"{left.type.value} {sign} {right.type.value} is not in the job language",
                "compare times, or use date_add, datediff and unix_timestamp"
                if each.type in (SqlType.DATE, SqlType.TIMESTAMP)
                else "use CAST(... AS ...)",
            )
    if SqlType.DOUBLE not in (left.type, right.type):
        for each in (left, right):
            if each.type is Untyped.DECIMAL:
                raise decimal_refused(each)
    if left.is_null and right.is_null:
        return cast(left, SqlType.DOUBLE), cast(right, SqlType.DOUBLE), SqlType.DOUBLE
    (one, other), target = unify((left, right), node)
    return one, other, target


def arithmetic(node: exp.Expr, left: Value, right: Value) -> Value:
    """Evaluate `+`, `-` or `*`; integers wrap around."""
    signs: dict[type[exp.Expr], tuple[str, Comparison]] = {
        exp.Add: ("+", lambda a, b: a + b),
        exp.Sub: ("-", lambda a, b: a - b),
        exp.Mul: ("*", lambda a, b: a * b),
    }
    sign, operation = signs[type(node)]
    one, other, target = numeric_pair(left, right, node, sign)
    if target is SqlType.DOUBLE and 0 in (one.constant, other.constant) and not isinstance(node, exp.Mul):
        operation = exact.add if isinstance(node, exp.Add) else exact.subtract
    return Value(operation(one.expr, other.expr), target, node)


def divide(node: exp.Expr, left: Value, right: Value) -> Value:
    """Evaluate `/`: always a DOUBLE, NULL on division by zero."""
    one, other, _ = numeric_pair(left, right, node, "/")
    above, below = cast(one, SqlType.DOUBLE).expr, cast(other, SqlType.DOUBLE).expr
    return Value(pl.when(below != 0.0).then(exact.divide(above, below)), SqlType.DOUBLE, node)


def integer_divide(node: exp.Expr, left: Value, right: Value) -> Value:
    """Evaluate DIV: a BIGINT, rounded towards zero, NULL on division by zero."""
    for each in (left, right):
        if each.type not in (*INTEGRAL, Untyped.NULL):
            raise refused(each.node, f"DIV takes whole numbers, not {each.type.value}", "CAST(... AS BIGINT)")
    above, below = cast(left, SqlType.BIGINT).expr, cast(right, SqlType.BIGINT).expr
    floored = above // below
    rounded_down = (above % below != 0) & ((above < 0) != (below < 0))
    return Value(pl.when(rounded_down).then(floored + 1).otherwise(floored), SqlType.BIGINT, node)


def remainder(node: exp.Expr, left: Value, right: Value) -> Value:
    """Evaluate `%`: the sign is the dividend's, NULL on division by zero."""
    one, other, target = numeric_pair(left, right, node, "%")
    if target is SqlType.DOUBLE:
        raise refused(node, "% of DOUBLE is not in the job language", "CAST both sides AS BIGINT")
    modulo = one.expr % other.expr
    sign_differs = (modulo != 0) & ((one.expr < 0) != (other.expr < 0))
    return Value(pl.when(sign_differs).then(modulo - other.expr).otherwise(modulo), target, node)


def negate(node: exp.Expr, value: Value) -> Value:
    """Evaluate unary minus."""
    if value.type is Untyped.DECIMAL:
        assert isinstance(value.constant, Decimal)
        return Value(-value.expr, value.type, node, -value.constant)
    if value.type is SqlType.STRING or value.is_null:
        value = cast(value, SqlType.DOUBLE)
    if value.type not in NUMERIC:
        raise refused(node, f"{value.type.value} has no negative")
    constant = value.constant if isinstance(value.constant, int | float) else None
    return Value(-value.expr, value.type, node, None if constant is None else -constant)


def _has_decimal(values: list[Value]) -> bool:
    return any(value.type is Untyped.DECIMAL for value in values)


def is_in(node: exp.Expr, value: Value, options: list[Value]) -> Value:
    """Evaluate IN over a list: NULL if nothing matched and something was NULL."""
    whole = all(each.type in (*INTEGRAL, *Untyped) for each in (value, *options))
    if whole and not value.is_null and _has_decimal(options):
        tests = [compare(exp.EQ, value, each, node).expr for each in options]
        return boolean(pl.any_horizontal(tests), node)
    (subject, *items), target = unify([value, *options], node)
    same_type = all(item.type is option.type for item, option in zip(items, options, strict=True))
    constants = [item.constant for item in items]
    if target is not SqlType.DOUBLE and same_type and None not in constants:
        wanted = pl.Series(constants, dtype=target.dtype)
        return boolean(subject.expr.is_in(wanted.implode()), node)
    return boolean(pl.any_horizontal([subject.expr == item.expr for item in items]), node)
