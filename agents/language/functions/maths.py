"""Functions of numbers; those of the C library (ln, exp, pow, ...) may differ from Java's in the last bit."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from elf.agents.language import exact
from elf.agents.language.coercion import cast, decimal_refused
from elf.agents.language.functions.registry import Call, function, refuse, special
from elf.agents.language.operators import integer_divide, negate, remainder
from elf.agents.language.types import SqlType
from elf.agents.language.values import INTEGRAL, Untyped, Value

DOUBLE, BIGINT = SqlType.DOUBLE, SqlType.BIGINT
_DIGITS_MAX = 15
#: From here on every double is a whole number.
_WHOLE = 2.0**52


def _number(call: Call, index: int) -> Value:
    """A numeric argument in its own type; text is read as a DOUBLE, as Spark does."""
    value = call.arguments[index]
    if value.type is Untyped.DECIMAL:
        raise decimal_refused(value)
    return value if value.type in INTEGRAL else call.take(index, DOUBLE)


@special("abs", least=1)
def absolute(call: Call) -> Value:
    """The value without its sign."""
    value = _number(call, 0)
    assert isinstance(value.type, SqlType)
    return call.value(value.expr.abs(), value.type)


@special("ceil", "ceiling", "floor", least=1)
def ceil(call: Call) -> Value:
    """The next whole number above or below, BIGINT."""
    value = _number(call, 0)
    if value.type in INTEGRAL:
        return call.value(cast(value, BIGINT).expr, BIGINT)
    whole = value.expr.floor() if call.name.lower() == "floor" else value.expr.ceil()
    return call.value(whole.cast(pl.Int64, strict=False, wrap_numerical=True), BIGINT)


@special("round", least=1, most=2)
def round_(call: Call) -> Value:
    """Round half away from zero at a decimal place, as written in decimal: round(2.675D, 2) is 2.68."""
    value = _number(call, 0)
    digits = call.constant_int(1, "the number of places") if len(call.arguments) == 2 else 0
    if digits is None or not 0 <= digits <= _DIGITS_MAX:
        raise call.refused(f"round() takes 0 to {_DIGITS_MAX} places")
    if value.type in INTEGRAL:
        assert isinstance(value.type, SqlType)
        return call.value(value.expr, value.type)
    power = float(10**digits)
    size = value.expr.abs()
    floor = (size * power).floor()
    # Spark rounds the shortest decimal that names this double, so a tie is the double nearest to k.5 / 10^digits.
    above = size >= exact.divide(floor + 0.5, pl.lit(power))
    rounded = exact.divide(pl.when(above).then(floor + 1.0).otherwise(floor), pl.lit(power))
    signed = pl.when((value.expr < 0.0) & (rounded > 0.0)).then(-rounded).otherwise(rounded)
    keep = ~(size * power < _WHOLE)  # True for NaN and infinities, too.
    return call.value(pl.when(keep).then(value.expr).otherwise(signed), DOUBLE)


@function("sign", "signum", takes=[DOUBLE], gives=DOUBLE)
def sign(value: pl.Expr) -> pl.Expr:
    """-1, 0 or 1."""
    return value.sign()


@function("sqrt", takes=[DOUBLE], gives=DOUBLE)
def sqrt(value: pl.Expr) -> pl.Expr:
    """The square root; NaN below zero."""
    return value.sqrt()


@function("exp", takes=[DOUBLE], gives=DOUBLE)
def exponential(value: pl.Expr) -> pl.Expr:
    """E to the power of the value."""
    return value.exp()


def _logarithm(evaluate: Callable[[pl.Expr], pl.Expr]) -> Callable[[pl.Expr], pl.Expr]:
    # NaN is not below zero: its logarithm is NaN.
    return lambda value: pl.when(value > 0.0).then(evaluate(value))


function("ln", takes=[DOUBLE], gives=DOUBLE, sentence="The natural logarithm; NULL at or below zero.")(
    _logarithm(lambda value: value.log())
)
function("log10", takes=[DOUBLE], gives=DOUBLE, sentence="The logarithm to base 10; NULL at or below zero.")(
    _logarithm(lambda value: value.log10())
)


@special("log", least=1, most=2)
def log(call: Call) -> Value:
    """The natural logarithm, or that to the first argument's base; NULL at or below zero."""
    *base, value = (call.take(index, DOUBLE).expr for index in range(len(call.arguments)))
    if not base:
        return call.value(pl.when(value > 0.0).then(value.log()), DOUBLE)
    quotient = exact.divide(value.log(), base[0].log())
    return call.value(pl.when((base[0] > 0.0) & (value > 0.0)).then(quotient), DOUBLE)


@function("pow", "power", takes=[DOUBLE, DOUBLE], gives=DOUBLE)
def power(base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    """The first to the power of the second; unlike in C, 1 to the power of NaN is NaN."""
    undefined = exponent.is_nan() | ((base.abs() == 1.0) & exponent.is_infinite())
    raised = exact.power(base, exponent)
    return pl.when(undefined).then(pl.when(base.is_not_null()).then(float("nan"))).otherwise(raised)


@special("mod", least=2)
def mod(call: Call) -> Value:
    """`%` as a function."""
    return remainder(call.node, *call.arguments)


@special("div", least=2)
def div(call: Call) -> Value:
    """DIV as a function."""
    return integer_divide(call.node, *call.arguments)


@special("negative", least=1)
def negative(call: Call) -> Value:
    """Unary minus as a function."""
    return negate(call.node, call.arguments[0])


refuse("its result differs from run to run", "rand", "random", "randn", "uuid", "shuffle")
