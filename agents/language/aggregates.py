"""The aggregates of the job language: from a call to what is kept of the events, and its type.

Names and types are Spark's; how values are kept and merged is `elf.cbt.aggregates`. Where Spark leaves the answer open,
it is fixed here: `first` and `last` go by event time, equal times and the ties of `min_by` and `max_by` by the values
that all calls of the same order show, so that these are of one event; `any_value` is the least, of several the least
together; `collect_set` ascends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl
from sqlglot import exp

from elf.agents.language.aggregate_facts import BY_NAME, Fact
from elf.agents.language.coercion import cast, decimal_refused, implicit
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import Scope, compile_expression
from elf.agents.language.operators import condition, filtering
from elf.agents.language.query import TIME_COLUMN, aggregate_call
from elf.agents.language.ties import Tie
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
    kind: str
    node: exp.Expr
    arguments: list[exp.Expr]
    ignores_nulls: bool
    rows: Scope
    #: What tells events of equal order apart, if it is more than the value that is shown.
    ties: Sequence[Tie]

    def take(self, index: int) -> Value:
        """Compile an argument that has a type."""
        return self.typed(self.arguments[index])

    def typed(self, node: exp.Expr) -> Value:
        """Compile an expression that has a type."""
        value = compile_expression(node, self.rows)
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


def compile_aggregate(node: exp.Expr, rows: Scope, ties: Sequence[Tie] = ()) -> Aggregated:
    """Compile a call of an aggregate, with or without FILTER, over raw events.

    Args:
        node: the call.
        rows: what names mean.
        ties: of it among all calls of the query (`Ties`).

    Raises:
        JobSpecError: it does not take these arguments.
    """
    call = aggregate_call(node)
    assert call is not None
    of_filter = node.expression.this if isinstance(node, exp.Filter) else None
    test = filtering(compile_expression(of_filter, rows), "FILTER WHERE") if of_filter is not None else None
    arguments = list(call.expressions)
    inner = node.this if isinstance(node, exp.Filter) else node
    ignores_nulls = isinstance(inner, exp.IgnoreNulls)
    if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
        ignores_nulls, arguments = True, [arguments[0].this]
    name = call.name.lower()
    fact = BY_NAME.get(name, _INSTALLED)
    compiler = _FORMS[fact.form]
    if arguments and isinstance(arguments[0], exp.Distinct):
        if name != "count":
            raise refused(call, f"{name}(DISTINCT ...) is not in the job language", "count(DISTINCT ...) is")
        compiler, arguments = _count_distinct, arguments[0].expressions
    if not fact.least <= len(arguments) <= fact.most:
        count = str(fact.least) if fact.least == fact.most else f"{fact.least} to {fact.most}"
        raise refused(call, f"{name}() takes {count} argument{'s' * (count != '1')}, not {len(arguments)}")
    if ignores_nulls and not fact.skips_nulls:
        raise refused(call, f"{name}() has no IGNORE NULLS")
    try:
        made = compiler(_Call(name, fact.kind, call, arguments, ignores_nulls, rows, ties))
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


def _number(call: _Call) -> Aggregated:
    return _over(call.kind, call.number(0), SqlType.DOUBLE)


def _double(call: _Call) -> Aggregated:
    return _over(call.kind, cast(call.number(0), SqlType.DOUBLE), SqlType.DOUBLE)


def _value(call: _Call) -> Aggregated:
    return _over(call.kind, call.take(0))


def _condition(call: _Call) -> Aggregated:
    value = call.take(0)
    return _over(call.kind, Value(condition(value), SqlType.BOOLEAN, value.node))


def _any_value(call: _Call) -> Aggregated:
    _flag(call, 1)
    value = call.take(0)
    if not call.ties:
        return _over("any_value", value)
    # Of one event where some event has all of them; no call shows NULL where it need not.
    nulls = [call.typed(tie.value).expr.is_null() for tie in call.ties]
    by = pl.when(value.expr.is_not_null()).then(pl.sum_horizontal(nulls).cast(pl.Int32))
    return _ordered(call, "first_by", value, by, pl.Int32())


def _by_time(call: _Call) -> Aggregated:
    value = call.take(0)
    skips = call.ignores_nulls or _flag(call, 1)
    by = pl.when(value.expr.is_not_null()).then(_TIME) if skips else _TIME
    return _ordered(call, call.kind, value, by, pl.Datetime("us"))


def _by_value(call: _Call) -> Aggregated:
    by = call.take(1)
    return _ordered(call, call.kind, call.take(0), by.expr, _sql(by).dtype)


def _ordered(call: _Call, kind: str, value: Value, by: pl.Expr, by_dtype: pl.DataType) -> Aggregated:
    fields = {"by": (by, by_dtype)}
    for index, tie in enumerate(call.ties):
        other = value if tie.is_own else call.typed(tie.value)
        fields["value" if tie.is_own else f"tie{index}"] = other.expr, _sql(other).dtype
    fields.setdefault("value", (value.expr, _sql(value).dtype))
    dtype = pl.Struct({name: kept for name, (_, kept) in fields.items()})
    row = pl.struct(expr.alias(name) for name, (expr, _) in fields.items())
    return Aggregated(aggregate(kind, dtype), row, _sql(value))


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


#: Form of a call -> what compiles it.
_FORMS: dict[str, Callable[[_Call], Aggregated]] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "number": _number,
    "double": _double,
    "value": _value,
    "condition": _condition,
    "any_value": _any_value,
    "by_time": _by_time,
    "by_value": _by_value,
    "approx_count_distinct": _approx_count_distinct,
    "approx_percentile": _approx_percentile,
    "collect_set": _collect_set,
    "installed": _installed,
}
#: What holds of an aggregate that is installed.
_INSTALLED = Fact((), "installed")
