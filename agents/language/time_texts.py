"""Times and days in texts, as Spark's CAST reads them: a column at a time; what is none is null.

Deliberate limits: zones that are no offsets (`Europe/Berlin`; `CST`, of which there are three) and times without a day,
which Spark takes as of today, are null.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from elf.agents.language.instants import DAY_US, SECOND_US

# What Spark trims before it reads: whitespace and ISO control characters.
_PAD = r"[\x00-\x20\x7f]*"
_MONTH_AND_DAY = r"(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_DAY = rf"(?s)^{_PAD}(?P<year>[+-]?[0-9]{{4,7}}){_MONTH_AND_DAY}(?:[ T].*)?)?)?{_PAD}$"
_SECONDS = r"(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*?)??"
_CLOCK = rf"(?:[ T](?P<hour>[0-9]{{1,2}})(?::(?P<minute>[0-9]{{1,2}})(?::{_SECONDS})?)?)?"
_TIME = rf"(?s)^{_PAD}(?P<year>[+-]?[0-9]{{4,6}}){_MONTH_AND_DAY}{_CLOCK})?)?{_PAD}$"
#: h, hh, h:m, hh:mm, hh:mm:ss, hhmm, hhmmss: the parts of each way to write an offset.
_OFFSETS = (
    r"(?P<h1>[0-9]{1,2})(?::(?P<m1>[0-9]{1,2}))?",
    r"(?P<h2>[0-9]{1,2}):(?P<m2>[0-9]{2}):(?P<s2>[0-9]{2})",
    r"(?P<h3>[0-9]{2})(?P<m3>[0-9]{2})(?P<s3>[0-9]{2})?",
)
_NAME = "UTC|GMT|UT"
_ZONE = rf"^[\x00-\x20]*(?P<all>Z|{_NAME}|(?:{_NAME})?(?P<sign>[+-])(?:{'|'.join(_OFFSETS)}))[\x00-\x20]*$"
#: The first and the last second that a TIMESTAMP reaches, with the microseconds that belong to it.
_FIRST, _LAST = (-9_223_372_036_855, 224_192), (9_223_372_036_854, 775_807)
_OFFSET_SECONDS_MAX = 18 * 3_600


def read_days(texts: pl.Series) -> pl.Series:
    """Read a column of days; a time behind one is left out, whatever it is."""
    fields = _fields(texts, _DAY)
    # A DATE has 32 bits.
    return fields.select_seq(_days().cast(pl.Int32, strict=False).cast(pl.Date)).to_series().alias(texts.name)


def read_times(texts: pl.Series) -> pl.Series:
    """Read a column of times; one without a zone is in UTC."""
    fields = _fields(texts, _TIME)
    parts = fields.select_seq(
        _days().alias("day"),
        clock_seconds(*(_number(name, 0) for name in ("hour", "minute", "second"))).alias("clock"),
        micros_of_fraction(pl.col("fraction")).alias("micros"),
        _offsets(fields["zone"]),
    )
    return parts.select_seq(instant_of(*map(pl.col, parts.columns))).to_series().alias(texts.name)


def by_column(read: Callable[[pl.Series], pl.Series], texts: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Evaluate what takes a column as a whole: every part of a text is then taken out once, not for each use."""
    return texts.map_batches(read, return_dtype=dtype, is_elementwise=True)


def days_of(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Count days since 1970 in the Gregorian calendar, whatever the year, BIGINT; null if there is no such day.

    The arguments are BIGINT, and better columns: each is used several times.
    """
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    short = month.is_in((4, 6, 9, 11)).cast(pl.Int64)
    longest = pl.when(month == 2).then(28 + leap.cast(pl.Int64)).otherwise(31 - short)
    # Years begin in March here, so that the leap day is the last of its year.
    shifted = year - (month <= 2).cast(pl.Int64)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return pl.when(month.is_between(1, 12) & day.is_between(1, longest)).then(days)


def clock_seconds(hour: pl.Expr, minute: pl.Expr, second: pl.Expr) -> pl.Expr:
    """Count seconds of a day; null if no clock shows that."""
    valid = hour.is_between(0, 23) & minute.is_between(0, 59) & second.is_between(0, 59)
    return pl.when(valid).then((hour * 60 + minute) * 60 + second)


def micros_of_fraction(digits: pl.Expr) -> pl.Expr:
    """Turn the digits behind a point, of any number, into microseconds; none are 0."""
    return digits.fill_null("").str.slice(0, 6).str.pad_end(6, "0").cast(pl.Int64)


def instant_of(day: pl.Expr, clock: pl.Expr, micros: pl.Expr, offset: pl.Expr) -> pl.Expr:
    """Put a TIMESTAMP together; null if it is out of the range of its 64 bits, or a part is.

    Args:
        day: since 1970.
        clock: seconds of this day.
        micros: of this second.
        offset: seconds that the clock is ahead of UTC.
    """
    second = day * (DAY_US // SECOND_US) + clock - offset
    (first, first_us), (last, last_us) = _FIRST, _LAST
    after = (second > first) | ((second == first) & (micros >= first_us))
    before = (second < last) | ((second == last) & (micros <= last_us))
    return pl.when(after & before).then(second * SECOND_US + micros).cast(pl.Datetime("us"))


def offset_seconds(sign: pl.Expr, hours: pl.Expr, minutes: pl.Expr, seconds: pl.Expr) -> pl.Expr:
    """Put an offset from UTC together of its texts; null if it is none that Java takes, of 18 hours at most."""
    hour, minute, second = (each.cast(pl.Int64).fill_null(0) for each in (hours, minutes, seconds))
    size = (hour * 60 + minute) * 60 + second
    valid = (minute < 60) & (second < 60) & (size <= _OFFSET_SECONDS_MAX)
    return pl.when(valid).then(pl.when(sign == "-").then(-size).otherwise(size))


def _fields(texts: pl.Series, pattern: str) -> pl.DataFrame:
    return texts.str.extract_groups(pattern).struct.unnest()


def _number(name: str, missing: int) -> pl.Expr:
    return pl.col(name).cast(pl.Int64).fill_null(missing)


def _days() -> pl.Expr:
    year = pl.col("year").str.strip_prefix("+").cast(pl.Int64)
    return days_of(year, _number("month", 1), _number("day", 1))


def _offsets(zones: pl.Series) -> pl.Series:
    """Return how many seconds zones are ahead of UTC, 0 where there is none, null where a text is none."""
    if zones.null_count() == zones.len():
        return pl.zeros(zones.len(), pl.Int64, eager=True).alias("offset")
    fields = zones.str.extract_groups(_ZONE).struct.unnest()
    parts = [pl.coalesce(rf"^{letter}[0-9]$") for letter in "hms"]
    read = fields.select_seq(pl.when(pl.col("all").is_not_null()).then(offset_seconds(pl.col("sign"), *parts)))
    return read.to_series().set(zones.is_null(), 0).alias("offset")
