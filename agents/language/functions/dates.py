"""Functions of dates and times; the time zone is UTC."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from elf.agents.language.casts import known_day, known_time, micros_of, timestamp_of
from elf.agents.language.coercion import cast
from elf.agents.language.functions import datetime_patterns
from elf.agents.language.functions.registry import Call, function, refuse, special
from elf.agents.language.instants import SECOND_US
from elf.agents.language.patterns import constant_text
from elf.agents.language.types import SqlType
from elf.agents.language.values import INTEGRAL, Value

STRING, INT, BIGINT, DATE, TIMESTAMP = SqlType.STRING, SqlType.INT, SqlType.BIGINT, SqlType.DATE, SqlType.TIMESTAMP
_DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "1y"),
    "quarter": "1q",
    **dict.fromkeys(("month", "mon", "mm"), "1mo"),
    "week": "1w",
    **dict.fromkeys(("day", "dd"), "1d"),
    "hour": "1h",
    "minute": "1m",
    "second": "1s",
    "millisecond": "1ms",
    "microsecond": "1us",
}
_DATE_UNITS = {word: unit for word, unit in _UNITS.items() if unit in ("1y", "1q", "1mo", "1w")}


def _field(*names: str, of: SqlType, take: Callable[[pl.Expr], pl.Expr], sentence: str) -> None:
    function(*names, takes=[of], gives=INT, sentence=sentence)(lambda value: take(value).cast(pl.Int32))


_field("year", of=DATE, take=lambda day: day.dt.year(), sentence="The year.")
_field("quarter", of=DATE, take=lambda day: day.dt.quarter(), sentence="The quarter of the year, 1 to 4.")
_field("month", of=DATE, take=lambda day: day.dt.month(), sentence="The month, 1 to 12.")
_field("day", "dayofmonth", of=DATE, take=lambda day: day.dt.day(), sentence="The day of the month, 1 to 31.")
_field("dayofyear", of=DATE, take=lambda day: day.dt.ordinal_day(), sentence="The day of the year, 1 to 366.")
_field(
    "dayofweek",
    of=DATE,
    take=lambda day: day.dt.weekday().cast(pl.Int32) % 7 + 1,
    sentence="The day of the week from Sunday on, 1 to 7.",
)
_field(
    "weekday",
    of=DATE,
    take=lambda day: day.dt.weekday().cast(pl.Int32) - 1,
    sentence="The day of the week from Monday on, 0 to 6.",
)
_field("weekofyear", of=DATE, take=lambda day: day.dt.week(), sentence="The week of the year, as ISO 8601 counts them.")
_field("hour", of=TIMESTAMP, take=lambda time: time.dt.hour(), sentence="The hour, 0 to 23.")
_field("minute", of=TIMESTAMP, take=lambda time: time.dt.minute(), sentence="The minute, 0 to 59.")
_field("second", of=TIMESTAMP, take=lambda time: time.dt.second(), sentence="The second, 0 to 59.")


def _unit(call: Call, index: int, known: dict[str, str]) -> str | None:
    word = constant_text(call.arguments[index], "the unit")
    if word is None:
        return None
    if word.lower() not in known:
        raise call.refused(f"{call.name}() has no unit {word!r}", f"use one of {', '.join(known)}")
    return known[word.lower()]


@special("date_trunc", least=2)
def date_trunc(call: Call) -> Value:
    """The beginning of the year, ..., second a time lies in; weeks begin on Monday."""
    unit = _unit(call, 0, _UNITS)
    if unit is None:
        return call.value(pl.lit(None, dtype=TIMESTAMP.dtype), TIMESTAMP)
    return call.value(known_time(call.take(1, TIMESTAMP).expr).dt.truncate(unit), TIMESTAMP)


@special("trunc", least=2)
def trunc(call: Call) -> Value:
    """The first day of the year, quarter, month or week."""
    unit = _unit(call, 1, _DATE_UNITS)
    day = call.take(0, DATE).expr
    return call.value(pl.lit(None, dtype=pl.Date) if unit is None else known_day(day).dt.truncate(unit), DATE)


@special("date_add", "dateadd", "date_sub", least=2)
def date_add(call: Call) -> Value:
    """So many days later or earlier."""
    day, days = call.take(0, DATE).expr.cast(pl.Int32), call.take_only(1, INT).expr
    return call.value((day - days if call.name.lower() == "date_sub" else day + days).cast(pl.Date), DATE)


@function("datediff", "date_diff", takes=[DATE, DATE], gives=INT)
def datediff(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    """Days from the second to the first."""
    return end.cast(pl.Int32) - start.cast(pl.Int32)


@function("last_day", takes=[DATE], gives=DATE)
def last_day(day: pl.Expr) -> pl.Expr:
    """The last day of the month."""
    return known_day(day).dt.month_end()


@special("date_format", least=2)
def date_format(call: Call) -> Value:
    """A time written by a pattern."""
    return _written(call, call.take(0, TIMESTAMP).expr)


@special("from_unixtime", least=1, most=2)
def from_unixtime(call: Call) -> Value:
    """The time so many seconds after 1970 began, written by a pattern."""
    return _written(call, timestamp_of(call.take(0, BIGINT).expr * SECOND_US))


def _written(call: Call, time: pl.Expr) -> Value:
    pattern = constant_text(call.arguments[1], "the pattern") if len(call.arguments) == 2 else _DEFAULT_PATTERN
    if pattern is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    return call.value(datetime_patterns.write(time, pattern, call.node), STRING)


def _read(call: Call, default: str | None) -> Value:
    """The first argument as a TIMESTAMP, read by the pattern if it is text."""
    value = call.arguments[0]
    if len(call.arguments) == 2:
        call.take_only(1, STRING)
    if value.type in (DATE, TIMESTAMP) or value.is_null:
        return cast(value, TIMESTAMP)
    if value.type is not STRING:
        raise call.refused(f"{call.name}() takes a text or a time", "timestamp_seconds(...) takes seconds since 1970")
    pattern = constant_text(call.arguments[1], "the pattern") if len(call.arguments) == 2 else default
    if pattern is None:
        return cast(value if len(call.arguments) == 1 else call.arguments[1], TIMESTAMP)
    return call.value(datetime_patterns.read(value.expr, pattern, call.node), TIMESTAMP)


@special("to_timestamp", "try_to_timestamp", least=1, most=2)
def to_timestamp(call: Call) -> Value:
    """Text read as a time, by a pattern or as CAST does."""
    if len(call.arguments) == 1 and call.arguments[0].type in INTEGRAL:
        return cast(call.arguments[0], TIMESTAMP, call.node)
    return _read(call, None)


@special("to_date", least=1, most=2)
def to_date(call: Call) -> Value:
    """Text read as a date, by a pattern or as CAST does."""
    if len(call.arguments) == 1:
        return call.take(0, DATE)
    return cast(_read(call, None), DATE, call.node)


@special("unix_timestamp", "to_unix_timestamp", least=1, most=2)
def unix_timestamp(call: Call) -> Value:
    """Whole seconds since 1970 began, rounded towards zero (unix_seconds rounds down)."""
    micros = micros_of(_read(call, _DEFAULT_PATTERN).expr)
    floored = micros // SECOND_US
    return call.value(pl.when((micros < 0) & (micros % SECOND_US != 0)).then(floored + 1).otherwise(floored), BIGINT)


@special("timestamp_seconds", least=1)
def timestamp_seconds(call: Call) -> Value:
    """The time so many seconds after 1970 began."""
    if call.arguments[0].type is SqlType.DOUBLE:
        return cast(call.arguments[0], TIMESTAMP, call.node)
    if call.arguments[0].type not in INTEGRAL and not call.arguments[0].is_null:
        raise call.refused("timestamp_seconds() takes a number", "timestamp_seconds(CAST(x AS DOUBLE))")
    return call.value(_since(call.take(0, BIGINT).expr, SECOND_US), TIMESTAMP)


@special("timestamp_millis", "timestamp_micros", least=1)
def timestamp_millis(call: Call) -> Value:
    """The time so many milliseconds or microseconds after 1970 began."""
    count = cast(call.take_only(0, BIGINT, INT), BIGINT).expr
    return call.value(_since(count, 1 if call.name.lower() == "timestamp_micros" else 1_000), TIMESTAMP)


def _since(count: pl.Expr, unit_us: int) -> pl.Expr:
    """The time so many units after 1970 began; NULL of those that 64 bits do not reach, which in Spark are an error."""
    last = (2**63 - 1) // unit_us
    first = -(2**63 // unit_us)
    return pl.when(count.is_between(first, last)).then(timestamp_of(count * unit_us))


@special("unix_seconds", "unix_millis", "unix_micros", least=1)
def unix_seconds(call: Call) -> Value:
    """Whole seconds, milliseconds or microseconds since 1970 began, rounded down."""
    micros = micros_of(call.take_only(0, TIMESTAMP).expr)
    unit_us = {"unix_seconds": SECOND_US, "unix_millis": 1_000, "unix_micros": 1}[call.name.lower()]
    return call.value(micros // unit_us, BIGINT)


refuse("a job's answer must not depend on when it runs; use ts", "now", "current_timestamp", "current_date", "curdate")
