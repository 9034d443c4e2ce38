"""The aggregates of the job language: from a call to what is kept of the events, and its type.

Names and types are Spark's; how values are kept and merged is `elf.cbt.aggregates`. Where Spark leaves the answer open,
it is fixed here: `first` and `last` go by event time, equal times and the ties of `min_by` and `max_by` by the value
itself, `any_value` is the least, `collect_set` ascends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl
from sqlglot import exp

from elf.agents.language.coercion import cast, decimal_refused, implicit
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import Scope, compile_expression
from elf.agents.language.operators import condition
from elf.agents.language.query import TIME_COLUMN, aggregate_call
from elf.agents.language.types import ArrayType, SqlType
from elf.agents.language.values import INTEGRAL, NUMERIC, Untyped, Value
from elf.cbt.aggregates import aggregate
from elf.cbt.aggregates.contract import Aggregate

_TIME = pl.col(TIME_COLUMN).cast(pl.Datetime("us"))


class Aggregated(NamedTuple):
    """A compiled aggregate.

    Attributes:
        aggregate: what is kept and merged.
        input: what it reads of an event; None for a count of rows.
        type: the type of its answer.
    """

    aggregate: Aggregate
    input: pl.Expr | None
    type: SqlType | ArrayType


class _Call(NamedTuple):
    """A call of an aggregate whose arguments are not compiled yet."""

    name: str
    node: exp.Expr
    arguments: list[exp.Expr]
    ignores_nulls: bool
    rows: Scope

    def take(self, index: int) -> Value:
        """Compile an argument that has a type."""
        value = compile_expression(self.arguments[index], self.rows)
        if value.type is Untyped.DECIMAL:
            raise decimal_refused(value)
        if value.is_null:
            raise refused(value.node, f"{self.name}(NULL) is always NULL")
        return value

    def number(self, index: int) -> Value:
        """Compile an argument that has to be a number, or a text of one."""
        value = self.take(index)
        if value.type not in (SqlType.STRING, *NUMERIC):
            raise refused(value.node, f"{self.name}() takes a number, not {value.type.value}")
        converted = value if value.type in NUMERIC else implicit(value, SqlType.DOUBLE)
        assert converted is not None
        return converted

    def literal(self, index: int, what: str) -> float:
        """A number that has to be written down."""
        value = compile_expression(self.arguments[index], self.rows)
        if value.constant is None or isinstance(value.constant, str | bool):
            raise refused(value.node, f"the {what} of {self.name} has to be written as a number")
        return float(value.constant)


def compile_aggregate(node: exp.Expr, rows: Scope) -> Aggregated:
    """Compile a call of an aggregate, with or without FILTER, over raw events.

    Raises:
        JobSpecError: it does not take these arguments.
    """
    call = aggregate_call(node)
    assert call is not None
    test = condition(compile_expression(node.expression.this, rows)) if isinstance(node, exp.Filter) else None
    arguments = list(call.expressions)
    inner = node.this if isinstance(node, exp.Filter) else node
    ignores_nulls = isinstance(inner, exp.IgnoreNulls)
    if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
        ignores_nulls, arguments = True, [arguments[0].this]
    name = call.name.lower()
    least, most, compiler = _AGGREGATES.get(name, (1, 1, _installed))
    if arguments and isinstance(arguments[0], exp.Distinct):
        if name != "count":
            raise refused(call, f"{name}(DISTINCT ...) is not in the job language", "count(DISTINCT ...) is")
        compiler, arguments = _count_distinct, arguments[0].expressions
    if not least <= len(arguments) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        raise refused(call, f"{name}() takes {count} argument{'s' * (count != '1')}, not {len(arguments)}")
    if ignores_nulls and name not in ("first", "first_value", "last", "last_value", "any_value"):
        raise refused(call, f"{name}() has no IGNORE NULLS")
    try:
        made = compiler(_Call(name, call, arguments, ignores_nulls, rows))
    except ValueError as error:
        raise refused(call, str(error)) from None
    if test is None:
        return made
    return made._replace(input=pl.when(test).then(pl.lit(True) if made.input is None else made.input))


def _over(kind: str, value: Value, answer: SqlType | ArrayType | None = None, **options: Any) -> Aggregated:
    assert isinstance(value.type, SqlType)
    return Aggregated(aggregate(kind, value.type.dtype, **options), value.expr, answer or value.type)


def _count(call: _Call) -> Aggregated:
    def counted(expr: pl.Expr | None) -> Aggregated:
        return Aggregated(aggregate("count"), expr, SqlType.BIGINT)

    if len(call.arguments) == 1 and isinstance(call.arguments[0], exp.Star):
        return counted(None)
    values = [compile_expression(argument, call.rows) for argument in call.arguments]
    if all(value.constant is not None for value in values):
        return counted(None)
    if len(values) == 1:
        return counted(cast(values[0], SqlType.BOOLEAN).expr if values[0].is_null else values[0].expr)
    return counted(pl.when(pl.all_horizontal([value.expr.is_not_null() for value in values])).then(pl.lit(True)))


def _count_if(call: _Call) -> Aggregated:
    test = condition(compile_expression(call.arguments[0], call.rows))
    return Aggregated(aggregate("count"), pl.when(test).then(pl.lit(True)), SqlType.BIGINT)


def _count_distinct(call: _Call) -> Aggregated:
    if any(isinstance(argument, exp.Star) for argument in call.arguments):
        raise refused(call.node, "count(DISTINCT *) is not in the job language", "name the columns")
    values = [call.take(index) for index in range(len(call.arguments))]
    if len(values) == 1:
        return _over("count_distinct", values[0], SqlType.BIGINT)
    dtype = pl.Struct({f"p{index}": _sql(value).dtype for index, value in enumerate(values)})
    parts = pl.struct(value.expr.alias(f"p{index}") for index, value in enumerate(values))
    return Aggregated(aggregate("count_distinct", dtype), parts, SqlType.BIGINT)


def _sum(call: _Call) -> Aggregated:
    value = call.number(0)
    return _over("sum", value, SqlType.BIGINT if value.type in INTEGRAL else SqlType.DOUBLE)


def _double(kind: str) -> Callable[[_Call], Aggregated]:
    def compiled(call: _Call) -> Aggregated:
        return _over(kind, cast(call.number(0), SqlType.DOUBLE), SqlType.DOUBLE)

    return compiled


def _avg(call: _Call) -> Aggregated:
    return _over("avg", call.number(0), SqlType.DOUBLE)


def _extreme(kind: str) -> Callable[[_Call], Aggregated]:
    return lambda call: _over(kind, call.take(0))


def _boolean(kind: str) -> Callable[[_Call], Aggregated]:
    def compiled(call: _Call) -> Aggregated:
        value = call.take(0)
        return _over(kind, Value(condition(value), SqlType.BOOLEAN, value.node))

    return compiled


def _any_value(call: _Call) -> Aggregated:
    _flag(call, 1)
    return _over("any_value", call.take(0))


def _by_time(kind: str) -> Callable[[_Call], Aggregated]:
    def compiled(call: _Call) -> Aggregated:
        value = call.take(0)
        skips = call.ignores_nulls or _flag(call, 1)
        by = pl.when(value.expr.is_not_null()).then(_TIME) if skips else _TIME
        return _ordered(kind, value, by, pl.Datetime("us"))

    return compiled


def _by_value(kind: str) -> Callable[[_Call], Aggregated]:
    def compiled(call: _Call) -> Aggregated:
        by = call.take(1)
        return _ordered(kind, call.take(0), by.expr, _sql(by).dtype)

    return compiled


def _ordered(kind: str, value: Value, by: pl.Expr, by_dtype: pl.DataType) -> Aggregated:
    dtype = pl.Struct({"by": by_dtype, "value": _sql(value).dtype})
    pair = pl.struct(by.alias("by"), value.expr.alias("value"))
    return Aggregated(aggregate(kind, dtype), pair, _sql(value))


def _approx_count_distinct(call: _Call) -> Aggregated:
    options: dict[str, Any] = {"rsd": call.literal(1, "rsd")} if len(call.arguments) == 2 else {}
    return _over("approx_count_distinct", call.take(0), SqlType.BIGINT, **options)


def _approx_percentile(call: _Call) -> Aggregated:
    # Few jobs have one: `aggregate`, too, loads what a job asks for.
    from elf.cbt.aggregates.quantiles import accuracy_of

    options: dict[str, Any] = {"percentage": call.literal(1, "percentage")}
    if len(call.arguments) == 3:
        accuracy = call.literal(2, "accuracy")
        if accuracy < 1 or accuracy != int(accuracy):
            raise refused(call.arguments[2], "the accuracy is a whole number of at least 1")
        options["accuracy"] = accuracy_of(int(accuracy))
    return _over("approx_percentile", call.number(0), **options)


def _collect_set(call: _Call) -> Aggregated:
    value = call.take(0)
    return _over("collect_set", value, ArrayType(_sql(value)))


def _installed(call: _Call) -> Aggregated:
    """Compile a call of an aggregate that is installed in Python."""
    from elf.agents.language.installed.installed import find_aggregate

    name = call.name.lower()
    made = find_aggregate(name)
    assert made is not None, "it was taken for an aggregate"
    (kind,), value = made.args, call.take(0)
    converted = implicit(value, kind)
    if converted is None:
        raise refused(value.node, f"{name}() takes {kind.value}, not {value.type.value}")
    return Aggregated(aggregate("user", kind.dtype, pao=name), converted.expr, made.returns)


def _sql(value: Value) -> SqlType:
    assert isinstance(value.type, SqlType)
    return value.type


def _flag(call: _Call, index: int) -> bool:
    """Whether nulls are to be skipped, if it is said."""
    if len(call.arguments) <= index:
        return False
    if not isinstance(call.arguments[index], exp.Boolean):
        raise refused(call.arguments[index], f"{call.name}() takes true or false, whether to skip nulls")
    return bool(call.arguments[index].this)


#: Name -> fewest and most arguments, and the compiler.
_AGGREGATES: dict[str, tuple[int, int, Callable[[_Call], Aggregated]]] = {
    "count": (1, 100, _count),
    "count_if": (1, 1, _count_if),
    "sum": (1, 1, _sum),
    **dict.fromkeys(("avg", "mean"), (1, 1, _avg)),
    "min": (1, 1, _extreme("min")),
    "max": (1, 1, _extreme("max")),
    "var_pop": (1, 1, _double("var_pop")),
    **dict.fromkeys(("var_samp", "variance"), (1, 1, _double("var_samp"))),
    "stddev_pop": (1, 1, _double("stddev_pop")),
    **dict.fromkeys(("stddev_samp", "stddev", "std"), (1, 1, _double("stddev_samp"))),
    **dict.fromkeys(("first", "first_value"), (1, 2, _by_time("first_by"))),
    **dict.fromkeys(("last", "last_value"), (1, 2, _by_time("last_by"))),
    "any_value": (1, 2, _any_value),
    "min_by": (2, 2, _by_value("first_by")),
    "max_by": (2, 2, _by_value("last_by")),
    **dict.fromkeys(("bool_and", "every"), (1, 1, _boolean("bool_and"))),
    **dict.fromkeys(("bool_or", "some", "any"), (1, 1, _boolean("bool_or"))),
    "approx_count_distinct": (1, 2, _approx_count_distinct),
    **dict.fromkeys(("approx_percentile", "percentile_approx"), (2, 3, _approx_percentile)),
    "collect_set": (1, 1, _collect_set),
}
