"""Spark's CAST with ANSI mode off, as Polars expressions: what cannot be converted becomes NULL, integers wrap.

Limits, both deliberate: some times in texts read as NULL (`time_texts`); and times after the year 262141 or before
-262142, where Polars' calendar ends, have no text and are not truncated: NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from elf.agents.language import exact
from elf.agents.language.instants import DAY_US, SECOND_US
from elf.agents.language.time_texts import by_column, read_days, read_times
from elf.agents.language.types import SqlType

BOOL, INT, LONG, DOUBLE, TEXT, DATE, TS = SqlType  # the order of the members

# What Spark trims before it reads a number or a date: whitespace and ISO control characters.
_PAD = r"[\x00-\x20\x7f]*"
_INTEGER = rf"^{_PAD}([+-]?(?:\d+\.?\d*|\.\d*)){_PAD}$".replace(r"\d", "[0-9]")
_DOUBLE_TEXT = r"^[\x00-\x20]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?[\x00-\x20]*$".replace(r"\d", "[0-9]")
_HEX_TEXT = (
    r"^[\x00-\x20]*([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?[\x00-\x20]*$"
)
_SPECIAL = r"(?i-u)^[\x00-\x20]*([+-]?inf(?:inity)?|nan|(?-i:[+-]NaN))[\x00-\x20]*$"
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")

INT64 = (-(2**63), 2**63 - 1)
#: -262142-01-01 and 262141-12-31 as days since 1970: Polars' calendar less the years at its ends.
_FIRST_DAY, _LAST_DAY = -96_464_927, 95_025_871


def cast_expr(value: pl.Expr, source: SqlType, target: SqlType) -> pl.Expr | None:
    """Convert `value` as Spark's CAST does; None if Spark, or we, have no such cast."""
    if source is target:
        return value
    convert = _CASTS.get((source, target))
    return convert(value) if convert is not None else None


def text_of_timestamp(value: pl.Expr) -> pl.Expr:
    """`2024-01-31 12:00:00.5`: the fraction is there only as far as it is not zero."""
    return known_time(value).dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.strip_chars_end("0").str.strip_suffix(".")


def known_day(day: pl.Expr) -> pl.Expr:
    """NULL where Polars' calendar has no such day and panics when it writes, truncates or converts one."""
    return pl.when(day.cast(pl.Int32).is_between(_FIRST_DAY, _LAST_DAY)).then(day)


def known_time(time: pl.Expr) -> pl.Expr:
    """NULL where Polars' calendar has no such time and panics when it writes or truncates one."""
    first, end = _FIRST_DAY * DAY_US, (_LAST_DAY + 1) * DAY_US
    return pl.when(micros_of(time).is_between(first, end, closed="left")).then(time)


def seconds_of(timestamp: pl.Expr) -> pl.Expr:
    """Whole seconds since 1970, rounded down, BIGINT."""
    return micros_of(timestamp) // SECOND_US


def micros_of(timestamp: pl.Expr) -> pl.Expr:
    """Microseconds since 1970, BIGINT."""
    return timestamp.cast(pl.Datetime("us")).cast(pl.Int64)


def timestamp_of(micros: pl.Expr) -> pl.Expr:
    """The timestamp of so many microseconds since 1970."""
    return micros.cast(pl.Int64).cast(pl.Datetime("us"))


def _wrap(target: SqlType) -> Callable[[pl.Expr], pl.Expr]:
    return lambda value: value.cast(target.dtype, strict=False, wrap_numerical=True)


def _plain(target: SqlType) -> Callable[[pl.Expr], pl.Expr]:
    return lambda value: value.cast(target.dtype)


def _text_to_integer(target: SqlType) -> Callable[[pl.Expr], pl.Expr]:
    def convert(value: pl.Expr) -> pl.Expr:
        number = value.str.extract(_INTEGER)
        whole = number.str.split_exact(".", 1).struct.field("field_0")
        # Digits before the point may be missing, and even behind it: '-.5' and '.' are 0.
        return pl.when(whole.is_in(("", "+", "-"))).then(pl.lit("0")).otherwise(whole).cast(target.dtype, strict=False)

    return convert


def _text_to_double(value: pl.Expr) -> pl.Expr:
    special = value.str.extract(_SPECIAL).str.to_lowercase()
    decimal = pl.coalesce(value.str.extract(_DOUBLE_TEXT), special).cast(pl.Float64, strict=False)
    return pl.coalesce(decimal, by_column(_read_hexadecimal, value, pl.Float64()))


def _read_hexadecimal(texts: pl.Series) -> pl.Series:
    """Read numbers as `0x1.8p1` in a column, which hardly any has: one at a time, and each different text once."""
    found = texts.str.extract(_HEX_TEXT)
    written = found.drop_nulls().unique()
    if written.is_empty():
        return pl.Series(texts.name, [None], pl.Float64).new_from_index(0, texts.len())
    return found.replace_strict(written, [_hexadecimal(text) for text in written], return_dtype=pl.Float64)


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _text_to_boolean(value: pl.Expr) -> pl.Expr:
    word = value.str.replace_all(rf"^{_PAD}|{_PAD}$", "").str.to_lowercase()
    return pl.when(word.is_in(_TRUE)).then(True).when(word.is_in(_FALSE)).then(False)


def _integer_to_timestamp(seconds: pl.Expr) -> pl.Expr:
    # Java's TimeUnit stops at the ends of a long instead of wrapping.
    low, high = INT64
    above, below = seconds > high // SECOND_US, seconds < -(high // SECOND_US)
    return timestamp_of(pl.when(above).then(high).when(below).then(low).otherwise(seconds * SECOND_US))


def _double_to_timestamp(value: pl.Expr) -> pl.Expr:
    micros = (value * float(SECOND_US)).cast(pl.Int64, strict=False, wrap_numerical=True)
    return pl.when(value.is_finite()).then(timestamp_of(micros))


_CASTS: dict[tuple[SqlType, SqlType], Callable[[pl.Expr], pl.Expr]] = {
    (BOOL, INT): _plain(INT),
    (BOOL, LONG): _plain(LONG),
    (BOOL, DOUBLE): _plain(DOUBLE),
    (BOOL, TEXT): _plain(TEXT),
    (INT, BOOL): lambda value: value != 0,
    (INT, LONG): _plain(LONG),
    (INT, DOUBLE): _plain(DOUBLE),
    (INT, TEXT): _plain(TEXT),
    (INT, TS): lambda value: timestamp_of(value.cast(pl.Int64) * SECOND_US),
    (LONG, BOOL): lambda value: value != 0,
    (LONG, INT): _wrap(INT),
    (LONG, DOUBLE): _plain(DOUBLE),
    (LONG, TEXT): _plain(TEXT),
    (LONG, TS): _integer_to_timestamp,
    (DOUBLE, BOOL): lambda value: value != 0.0,
    (DOUBLE, INT): _wrap(INT),
    (DOUBLE, LONG): _wrap(LONG),
    (DOUBLE, TS): _double_to_timestamp,
    (TEXT, BOOL): _text_to_boolean,
    (TEXT, INT): _text_to_integer(INT),
    (TEXT, LONG): _text_to_integer(LONG),
    (TEXT, DOUBLE): _text_to_double,
    (TEXT, DATE): lambda value: by_column(read_days, value, pl.Date()),
    (TEXT, TS): lambda value: by_column(read_times, value, pl.Datetime("us")),
    (DATE, TEXT): lambda value: known_day(value).dt.strftime("%Y-%m-%d"),
    (DATE, TS): lambda value: known_day(value).cast(pl.Datetime("us")),
    (TS, TEXT): text_of_timestamp,
    (TS, DATE): lambda value: value.dt.date(),
    # Unlike a BIGINT, a time beyond INT becomes NULL.
    (TS, INT): lambda value: seconds_of(value).cast(pl.Int32, strict=False),
    (TS, LONG): seconds_of,
    (TS, DOUBLE): lambda value: exact.divide(micros_of(value).cast(pl.Float64), pl.lit(float(SECOND_US))),
}
