"""The table of scalar functions: how they are declared, looked up and called.

A function with fixed argument types is declared with `@function` and gets Polars expressions; one whose types depend on
its arguments, or that needs literals, is declared with `@special` and gets a `Call`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

import polars as pl
from sqlglot import exp

from elf.agents.errors import JobSpecError, did_you_mean, nearest
from elf.agents.extensions.installed import installed
from elf.agents.language.coercion import implicit
from elf.agents.language.dialect import refused
from elf.agents.language.query import AGGREGATES, is_aggregate, is_window_call, parse_query
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value


@dataclasses.dataclass(frozen=True)
class Call:
    """One call: the function's name as written, its place and its compiled arguments."""

    name: str
    node: exp.Expr
    arguments: list[Value]

    def take(self, index: int, *types: SqlType) -> Value:
        """The argument, converted to the first of `types` it is not already one of.

        Raises:
            JobSpecError: Spark has no such implicit cast.
        """
        value = self.arguments[index]
        if value.type in types:
            return value
        converted = implicit(value, types[0])
        if converted is None:
            names = " or ".join(kind.value for kind in types)
            raise refused(value.node, f"argument {index + 1} of {self.name} is {value.type.value}, it takes {names}")
        return converted

    def take_only(self, index: int, *types: SqlType) -> Value:
        """The argument, which has to be of one of `types` already: Spark casts nothing here.

        Raises:
            JobSpecError: it is of another type.
        """
        if self.arguments[index].is_null or self.arguments[index].type in types:
            return self.take(index, *types)
        names = " or ".join(kind.value for kind in types)
        kind = self.arguments[index].type.value
        message = f"argument {index + 1} of {self.name} is {kind}, it takes {names}"
        raise refused(self.arguments[index].node, message, f"CAST(... AS {types[0].value})")

    def constant_int(self, index: int, what: str) -> int | None:
        """An argument that has to be a whole number literal; None for NULL."""
        value = self.arguments[index]
        if value.is_null:
            return None
        if not isinstance(value.constant, int) or isinstance(value.constant, bool):
            raise refused(value.node, f"{what} of {self.name} has to be written as a whole number")
        return value.constant

    def refused(self, message: str, hint: str | None = None) -> JobSpecError:
        """The error for this call."""
        return refused(self.node, message, hint)

    def value(self, expr: pl.Expr, kind: SqlType) -> Value:
        """The result of this call."""
        return Value(expr, kind, self.node)


@dataclasses.dataclass(frozen=True)
class _Entry:
    least: int
    most: int
    evaluate: Callable[[Call], Value]


_FUNCTIONS: dict[str, _Entry] = {}
_REFUSED: dict[str, str] = {}
MANY = 1_000


def function(
    *names: str, takes: Sequence[SqlType], gives: SqlType, optional: int = 0
) -> Callable[[Callable[..., pl.Expr]], Callable[..., pl.Expr]]:
    """Declare a function of fixed types.

    Args:
        *names: its names in Spark.
        takes: the argument types; arguments are converted as Spark converts them implicitly.
        gives: the result type.
        optional: how many of the last arguments may be missing.
    """

    def declare(evaluate: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        def run(call: Call) -> Value:
            taken = [call.take(index, takes[index]).expr for index in range(len(call.arguments))]
            return call.value(evaluate(*taken), gives)

        _declare(names, _Entry(len(takes) - optional, len(takes), run))
        return evaluate

    return declare


def special(
    *names: str, least: int, most: int | None = None
) -> Callable[[Callable[[Call], Value]], Callable[[Call], Value]]:
    """Declare a function that looks at its arguments' types or literals itself; it takes `least` to `most` of them."""

    def declare(evaluate: Callable[[Call], Value]) -> Callable[[Call], Value]:
        _declare(names, _Entry(least, least if most is None else most, evaluate))
        return evaluate

    return declare


def refuse(reason: str, *names: str) -> None:
    """Name functions of Spark that are left out for a reason worth telling."""
    _REFUSED.update(dict.fromkeys(names, reason))


def call_function(name: str, node: exp.Expr, arguments: list[Value]) -> Value:
    """Compile a call.

    Raises:
        JobSpecError: there is no such function, or it does not take these arguments.
    """
    check_function(name, node)
    entry = _FUNCTIONS.get(name.lower()) or _installed(name.lower())
    if not entry.least <= len(arguments) <= entry.most:
        count = str(entry.least) if entry.least == entry.most else f"{entry.least} to {entry.most}"
        if entry.most == MANY:
            count = f"at least {entry.least}"
        raise refused(node, f"{name}() takes {count} argument(s), not {len(arguments)}")
    return entry.evaluate(Call(name, node, arguments))


def check_function(name: str, node: exp.Expr) -> None:
    """Check that there is such a function, before its arguments are looked at.

    Raises:
        JobSpecError: there is none; says why, or which is meant.
    """
    if name.lower() in _FUNCTIONS:
        return
    if name.lower() in _REFUSED:
        raise refused(node, f"{name}() is not in the job language: {_REFUSED[name.lower()]}")
    found = installed()
    if name.lower() in found.functions:
        return
    if name.lower() in found.refused:
        raise refused(node, f"{name}() is installed here and cannot be used: {found.refused[name.lower()]}")
    close = did_you_mean(nearest(name.lower(), (*_FUNCTIONS, *AGGREGATES, *found.names))).lstrip("; ")
    raise refused(
        node, f"{name}() is not in the job language, and no function of that name is installed", close or None
    )


def check_calls(query: str, own: Collection[str]) -> None:
    """Check that there is each function that a query calls, before the type of any column is known.

    Args:
        query: the text of one over a source.
        own: names in lower case of those that the job brings along.

    Raises:
        JobSpecError: there is none of some name; says why, or which is meant.
    """
    for call in parse_query(query).select.find_all(exp.Anonymous):
        name = call.name.lower()
        if isinstance(call.parent, exp.Window):
            raise refused(call, f"{call.name}() OVER (...) is not in the job language: jobs count groups, not rows")
        if not (is_window_call(call) or is_aggregate(name) or name in own):
            check_function(call.name, call)


def is_taken(name: str) -> bool:
    """Whether a name in lower case has a meaning of its own, so that nothing else can be installed under it."""
    return name in _FUNCTIONS or name in _REFUSED or name in AGGREGATES or name == "window"


def function_names() -> tuple[str, ...]:
    """The names of all functions, sorted."""
    return tuple(sorted(_FUNCTIONS))


def _installed(name: str) -> _Entry:
    """The entry of an installed function; there has to be one."""
    from elf.agents.extensions.calls import evaluated

    made = installed().functions[name]

    def run(call: Call) -> Value:
        taken = [call.take(index, kind).expr for index, kind in enumerate(made.args)]
        return call.value(evaluated(name, made, taken), made.returns)

    return _Entry(len(made.args), len(made.args), run)


def _declare(names: Sequence[str], entry: _Entry) -> None:
    for name in names:
        assert name not in _FUNCTIONS, f"{name} is declared twice"
        _FUNCTIONS[name] = entry


refuse(
    f"the aggregates are {', '.join(AGGREGATES)}",
    *("mode", "collect_list", "array_agg", "listagg", "corr", "skewness", "kurtosis"),
    *("string_agg", "regr_slope", "covar_pop", "covar_samp", "histogram_numeric", "approx_top_k"),
)
refuse(
    "the nearest is approx_percentile(x, 0.9), within 1 % of the value at that rank, or of 1 / its third argument",
    *("percentile", "percentile_cont", "percentile_disc", "quantile", "approx_quantile", "quantile_cont", "median"),
)
refuse(
    "windows have one length for all, written in GROUP BY: window(ts, '5 minutes'[, '30 seconds'])",
    *("session_window", "session", "tumble", "hop", "time_bucket", "window_time"),
)
