"""The table of scalar functions: how they are declared and looked up; `function_calls` compiles their calls.

A function with fixed argument types is declared with `@function` and gets Polars expressions; one whose types depend on
its arguments, or that needs literals, is declared with `@special` and gets a `Call`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import polars as pl
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.aggregate_facts import AGGREGATES
from elf.agents.language.coercion import implicit
from elf.agents.language.dialect import refused
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
class Entry:
    """One function: how many arguments it takes, what compiles a call of it, and what people are told of it.

    Attributes:
        least, most: how many arguments it takes.
        evaluate: compiles a call.
        sentence: what it is; empty for what is installed, which says so itself.
        takes, gives: its types; none where these depend on the arguments.
    """

    least: int
    most: int
    evaluate: Callable[[Call], Value]
    sentence: str = ""
    takes: tuple[SqlType, ...] = ()
    gives: SqlType | None = None


_FUNCTIONS: dict[str, Entry] = {}
_REFUSED: dict[str, str] = {}
MANY = 1_000


def function(
    *names: str, takes: Sequence[SqlType], gives: SqlType, optional: int = 0, sentence: str = ""
) -> Callable[[Callable[..., pl.Expr]], Callable[..., pl.Expr]]:
    """Declare a function of fixed types.

    Args:
        *names: its names in Spark.
        takes: the argument types; arguments are converted as Spark converts them implicitly.
        gives: the result type.
        optional: how many of the last arguments may be missing.
        sentence: what it is; unless given, what the declared function says of itself.
    """

    def declare(evaluate: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        def run(call: Call) -> Value:
            taken = [call.take(index, takes[index]).expr for index in range(len(call.arguments))]
            return call.value(evaluate(*taken), gives)

        told = sentence or _sentence(evaluate)
        _declare(names, Entry(len(takes) - optional, len(takes), run, told, tuple(takes), gives))
        return evaluate

    return declare


def special(
    *names: str, least: int, most: int | None = None
) -> Callable[[Callable[[Call], Value]], Callable[[Call], Value]]:
    """Declare a function that looks at its arguments' types or literals itself; it takes `least` to `most` of them."""

    def declare(evaluate: Callable[[Call], Value]) -> Callable[[Call], Value]:
        _declare(names, Entry(least, least if most is None else most, evaluate, _sentence(evaluate)))
        return evaluate

    return declare


def refuse(reason: str, *names: str) -> None:
    """Name functions of Spark that are left out for a reason worth telling."""
    _REFUSED.update(dict.fromkeys(names, reason))


def is_taken(name: str) -> bool:
    """Whether a name in lower case has a meaning of its own, so that nothing else can be installed under it."""
    return name in _FUNCTIONS or name in _REFUSED or name in AGGREGATES or name == "window"


def function_names() -> tuple[str, ...]:
    """The names of all functions, sorted."""
    return tuple(sorted(_FUNCTIONS))


def find(name: str) -> Entry | None:
    """Return the entry of a name in lower case; None if there is none in the language."""
    return _FUNCTIONS.get(name)


def refusal(name: str) -> str | None:
    """Return why the language leaves out a function of Spark, by its name in lower case; None if it does not."""
    return _REFUSED.get(name)


def _sentence(function: Callable[..., object]) -> str:
    """Return the first paragraph of what a function says of itself."""
    return " ".join((function.__doc__ or "").partition("\n\n")[0].split())


def _declare(names: Sequence[str], entry: Entry) -> None:
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
