"""Compile a checked-by-construction SQL expression into a typed Polars expression.

What has no entry in these tables is not in the job language and is refused with its place. Meaning is Spark's with ANSI
mode off and UTC. Columns, group keys and aggregates are found through a `Scope`, so the same compiler serves the map
side (raw columns) and the master's side (keys and finished aggregates). DESIGN section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

import polars as pl
from sqlglot import exp

from elf.agents.language import operators
from elf.agents.language.coercion import cast, unify
from elf.agents.language.dialect import JobSql, refused
from elf.agents.language.patterns import like_expr
from elf.agents.language.types import SqlType
from elf.agents.language.values import Untyped, Value


class Scope(Protocol):
    """What names mean where an expression stands."""

    def resolve(self, node: exp.Expr) -> Value | None:
        """The value of a node the scope itself knows (a column, a group key, an aggregate); None to look inside it.

        Raises:
            JobSpecError: the node has no meaning here.
        """
        ...


def compile_expression(node: exp.Expr, scope: Scope) -> Value:
    """Compile one expression.

    Raises:
        JobSpecError: something in it is outside the job language or has the wrong type.
    """
    known = scope.resolve(node)
    if known is not None:
        return known
    compiler = _COMPILERS.get(type(node))
    if compiler is None and isinstance(node, exp.Concat):
        raise refused(node, "two texts stand side by side", r"write them as one; \' is a quote in a text")
    if compiler is None:
        raise refused(node, f"{_describe(node)} is not in the job language")
    return compiler(node, scope)


def _describe(node: exp.Expr) -> str:
    text = node.sql(dialect=JobSql, comments=False)
    return text if len(text) <= 40 else text[:37] + "..."


def _literal(node: exp.Expr, scope: Scope) -> Value:
    text = node.name
    if node.args.get("is_string"):
        return Value(pl.lit(text), SqlType.STRING, node, text)
    if text.isdecimal():
        number = int(text)
        for kind, bound in ((SqlType.INT, 2**31), (SqlType.BIGINT, 2**63)):
            if number < bound:
                return Value(pl.lit(number, dtype=kind.dtype), kind, node, number)
        raise refused(node, f"{text} does not fit into BIGINT", f"write {text}D for a DOUBLE")
    if text.lower().endswith("e"):
        raise refused(node, f"{text} lacks its exponent", f"write {text}0 or {text[:-1]}")
    if "e" in text.lower():
        if math.isinf(float(text)):
            raise refused(node, f"{text} is beyond every DOUBLE")
        return Value(pl.lit(float(text)), SqlType.DOUBLE, node, float(text))
    return Value(pl.lit(float(text)), Untyped.DECIMAL, node, Decimal(text))


def _raw_string(node: exp.Expr, scope: Scope) -> Value:
    return Value(pl.lit(node.name), SqlType.STRING, node, node.name)


def _boolean(node: exp.Expr, scope: Scope) -> Value:
    return Value(pl.lit(bool(node.this)), SqlType.BOOLEAN, node, bool(node.this))


def _null(node: exp.Expr, scope: Scope) -> Value:
    return Value(pl.lit(None), Untyped.NULL, node)


def _paren(node: exp.Expr, scope: Scope) -> Value:
    return compile_expression(node.this, scope)


def _pair(node: exp.Expr, scope: Scope) -> tuple[Value, Value]:
    return compile_expression(node.this, scope), compile_expression(node.expression, scope)


def _comparison(node: exp.Expr, scope: Scope) -> Value:
    _check_order(node, left=_PREDICATES, right=(*_PREDICATES, *operators.COMPARISONS))
    left, right = _pair(node, scope)
    return operators.compare(type(node), left, right, node)


def _binary(evaluate: Callable[[exp.Expr, Value, Value], Value]) -> Callable[[exp.Expr, Scope], Value]:
    return lambda node, scope: evaluate(node, *_pair(node, scope))


def _negate(node: exp.Expr, scope: Scope) -> Value:
    # -2147483648 is an INT in Spark although 2147483648 is not.
    if isinstance(node.this, exp.Literal) and not node.this.is_string and node.this.name.isdecimal():
        number = -int(node.this.name)
        for kind, bound in ((SqlType.INT, -(2**31)), (SqlType.BIGINT, -(2**63))):
            if number >= bound:
                return Value(pl.lit(number, dtype=kind.dtype), kind, node, number)
    return operators.negate(node, compile_expression(node.this, scope))


def _and(node: exp.Expr, scope: Scope) -> Value:
    parts = [operators.condition(compile_expression(part, scope)) for part in node.flatten(unnest=False)]
    return operators.boolean(pl.all_horizontal(parts), node)


def _or(node: exp.Expr, scope: Scope) -> Value:
    parts = [operators.condition(compile_expression(part, scope)) for part in node.flatten(unnest=False)]
    return operators.boolean(pl.any_horizontal(parts), node)


def _not(node: exp.Expr, scope: Scope) -> Value:
    return operators.boolean(~operators.condition(compile_expression(node.this, scope)), node)


def _check_order(node: exp.Expr, left: tuple[type[exp.Expr], ...], right: tuple[type[exp.Expr], ...]) -> None:
    """Refuse operands that Spark would group otherwise, or not take at all, without parentheses.

    Spark reads `a = b LIKE c` as `(a = b) LIKE c`, `a = b < c` as `(a = b) < c` and `a || b + c` as `(a || b) + c`.
    """
    if isinstance(node.this, left) or isinstance(node.args.get("expression"), right):
        raise refused(node, "it is not clear what belongs together here", "put parentheses around the inner part")


def _is(node: exp.Expr, scope: Scope) -> Value:
    _check_order(node, left=_PREDICATES, right=())
    value = compile_expression(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return operators.boolean(value.expr.is_null(), node)
    if isinstance(node.expression, exp.Boolean):
        expected = bool(node.expression.this)
        return operators.boolean(operators.condition(value).eq_missing(pl.lit(expected)), node)
    raise refused(node.expression, "IS takes NULL, TRUE or FALSE")


def _not_same(node: exp.Expr, scope: Scope) -> Value:
    left, right = _pair(node, scope)
    return operators.boolean(~operators.compare(exp.NullSafeEQ, left, right, node).expr, node)


def _between(node: exp.Expr, scope: Scope) -> Value:
    _check_order(node, left=_PREDICATES, right=())
    if node.args.get("symmetric"):
        raise refused(node, "BETWEEN SYMMETRIC is not in the job language")
    value, low, high = (compile_expression(node.args[name], scope) for name in ("this", "low", "high"))
    above = operators.compare(exp.GTE, value, low, node)
    below = operators.compare(exp.LTE, value, high, node)
    return operators.boolean(above.expr & below.expr, node)


def _in(node: exp.Expr, scope: Scope) -> Value:
    _check_order(node, left=_PREDICATES, right=())
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not node.expressions:
        raise refused(node, "IN takes a list of values", "no subquery")
    value = compile_expression(node.this, scope)
    return operators.is_in(node, value, [compile_expression(option, scope) for option in node.expressions])


def _like(node: exp.Expr, scope: Scope) -> Value:
    return _like_escaped(node, scope, "\\")


def _escape(node: exp.Expr, scope: Scope) -> Value:
    escape = node.expression
    if not isinstance(node.this, exp.Like | exp.ILike) or len(escape.name) != 1:
        raise refused(node, "ESCAPE takes one character after a LIKE pattern")
    return _like_escaped(node.this, scope, escape.name)


def _like_escaped(node: exp.Expr, scope: Scope, escape: str) -> Value:
    _check_order(node, left=_PREDICATES, right=_PREDICATES)
    value, pattern = _pair(node, scope)
    matched = like_expr(value, pattern, escape, ignore_case=isinstance(node, exp.ILike))
    return operators.boolean(~matched if node.args.get("negate") else matched, node)


def _rlike(node: exp.Expr, scope: Scope) -> Value:
    _check_order(node, left=_PREDICATES, right=_PREDICATES)
    value, pattern = _pair(node, scope)
    from elf.agents.language.regex import rlike_expr  # see `_call`

    matched = rlike_expr(value, pattern)
    return operators.boolean(~matched if node.args.get("negate") else matched, node)


def _cast(node: exp.Expr, scope: Scope) -> Value:
    target = node.args["to"]
    if node.args.get("safe"):
        raise refused(node, "TRY_CAST is not in the job language", "CAST gives NULL where a value does not fit, too")
    extra = {name for name, part in node.args.items() if part and name not in ("this", "to", "safe", "_type")}
    if extra:
        raise refused(node, "CAST takes a value and a type", "CAST(x AS BIGINT)")
    return cast(compile_expression(node.this, scope), cast_target(target), node)


def cast_target(node: exp.Expr) -> SqlType:
    """The type a CAST names.

    Raises:
        JobSpecError: it is none of the job language's types.
    """
    kind = _CAST_TARGETS.get(node.this) if isinstance(node, exp.DataType) and not node.expressions else None
    if kind is None:
        names = ", ".join(each.value for each in SqlType)
        raise refused(node, f"the type {node.sql(dialect='spark')} is not in the job language", f"use one of {names}")
    return kind


def _case(node: exp.Expr, scope: Scope) -> Value:
    subject = compile_expression(node.this, scope) if node.this is not None else None
    tests: list[pl.Expr] = []
    results: list[Value] = []
    for branch in node.args["ifs"]:
        test = compile_expression(branch.this, scope)
        if subject is not None:
            test = operators.compare(exp.EQ, subject, test, branch)
        if test.is_null:
            raise refused(branch.this, "WHEN NULL is never true")
        tests.append(operators.condition(test))
        results.append(compile_expression(branch.args["true"], scope))
    default = node.args.get("default")
    otherwise = compile_expression(default, scope) if default is not None else _null(node, scope)
    (*cases, last), kind = unify([*results, otherwise], node)
    chain = last.expr
    for passed, case in zip(reversed(tests), reversed(cases), strict=True):
        chain = pl.when(passed).then(case.expr).otherwise(chain)
    return Value(chain, kind, node)


def _concat(node: exp.Expr, scope: Scope) -> Value:
    from elf.agents.language.function_calls import call_function  # see `_call`

    _check_order(node, left=(), right=(exp.Add, exp.Sub))
    return call_function("concat", node, list(_pair(node, scope)))


def _call(node: exp.Expr, scope: Scope) -> Value:
    # Loaded when first called: the tables of functions are a twentieth of an agent's start-up.
    from elf.agents.language.function_calls import call_function, check_function

    check_function(node.name, node)
    arguments = node.expressions
    while _is_case_call(node) and _is_case_call(inner := arguments[0].unnest()) and scope.resolve(inner) is None:
        # As Spark's optimizer has it: upper(lower(x)) is upper(x), though a few letters lose more in between.
        arguments = inner.expressions
    return call_function(node.name, node, [compile_expression(argument, scope) for argument in arguments])


def _is_case_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _CASE_CALLS and len(node.expressions) == 1


_CASE_CALLS = ("lower", "lcase", "upper", "ucase")
_PREDICATES = (exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape, exp.RegexpLike, exp.NullSafeNEQ, exp.Not)
_CAST_TARGETS = {
    exp.DType.BOOLEAN: SqlType.BOOLEAN,
    exp.DType.INT: SqlType.INT,
    exp.DType.BIGINT: SqlType.BIGINT,
    exp.DType.DOUBLE: SqlType.DOUBLE,
    exp.DType.TEXT: SqlType.STRING,
    exp.DType.DATE: SqlType.DATE,
    exp.DType.TIMESTAMP: SqlType.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: SqlType.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: SqlType.TIMESTAMP,
}
_COMPILERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Value]] = {
    exp.Literal: _literal,
    exp.RawString: _raw_string,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.NullSafeNEQ: _not_same,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _rlike,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.DPipe: _concat,
    exp.Anonymous: _call,
    exp.Neg: _negate,
    exp.Add: _binary(operators.arithmetic),
    exp.Sub: _binary(operators.arithmetic),
    exp.Mul: _binary(operators.arithmetic),
    exp.Div: _binary(operators.divide),
    exp.IntDiv: _binary(operators.integer_divide),
    exp.Mod: _binary(operators.remainder),
    **dict.fromkeys(operators.COMPARISONS, _comparison),
}
