"""Times and days as texts, whatever their year, and back. Pure.

A TIMESTAMP counts microseconds in 64 bits and so comes from a number of any size: milliseconds that a job reads as
seconds are the year 55969. Calendars of programs end somewhere, Python's after the year 9999 and Polars' after 262142,
and both fail there. Here no number fails: years beyond four digits have a sign, as Spark and ISO-8601 write them.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

#: 0001-01-01 and 9999-12-31 as days since 1970: those that Python has.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
DAY_MS = 86_400_000
#: The first and the last millisecond of these years, since 1970.
EARLIEST_MS, LATEST_MS = FIRST_DAY * DAY_MS, (LAST_DAY + 1) * DAY_MS - 1
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
_EPOCH, _DAY_0 = datetime(1970, 1, 1), date(1970, 1, 1)
#: After so many days, 400 years, the Gregorian calendar begins again.
_ERA_DAYS, _ERA_YEARS = 146_097, 400
_LONG = re.compile(r"([+-]?[0-9]{4,7})(-[0-9]{2}-[0-9]{2})(.*)", re.DOTALL)


def instant(at_ms: int) -> str:
    """Write a time for people, in UTC, with milliseconds where it has some.

    >>> instant(1_767_225_650_000)
    '2026-01-01T00:00:50Z'
    >>> instant(1_767_225_650_000_000)
    '+57971-02-25T13:53:20Z'
    """
    whole, _, fraction = time_text(at_ms * 1_000).removesuffix("Z").partition(".")
    return whole + (f".{fraction[:3]}" if at_ms % 1_000 else "") + "Z"


def clock_time(at_ms: int) -> str:
    """Write a time for people as tables have it, in UTC, to the second.

    >>> clock_time(1_767_225_650_000)
    '2026-01-01 00:00:50'
    """
    return time_text(at_ms * 1_000)[:-8].replace("T", " ")


def time_text(at_us: int) -> str:
    """Write a TIMESTAMP as results have it: microseconds since 1970 in UTC, always with six decimals.

    >>> time_text(1_767_225_650_000_000_000)
    '+57971-02-25T13:53:20.000000Z'
    """
    day, of_day = divmod(at_us, DAY_US)
    clock = (_EPOCH + timedelta(microseconds=of_day)).isoformat(timespec="microseconds")
    return day_text(day) + clock[10:] + "Z"


def day_text(day: int) -> str:
    """Write a DATE, days since 1970.

    >>> day_text(-719_529), day_text(2_932_897)
    ('-0001-12-31', '+10000-01-01')
    """
    if FIRST_DAY <= day <= LAST_DAY:
        return (_DAY_0 + timedelta(days=day)).isoformat()
    eras, rest = divmod(day, _ERA_DAYS)
    inside = _DAY_0 + timedelta(days=rest)
    return _signed(inside.year + eras * _ERA_YEARS) + inside.isoformat()[4:]


def read_time(text: str) -> int:
    """Read a time in ISO-8601, UTC unless it has an offset, as microseconds since 1970.

    Raises:
        ValueError: it is none that 64 bits hold.

    >>> read_time("+57971-02-25T13:53:20.000000Z")
    1767225650000000000
    """
    plain, days = _within_era(text)
    moment = datetime.fromisoformat(plain)
    offset = moment.utcoffset() or timedelta()
    at_us = (moment.replace(tzinfo=None) - _EPOCH - offset) // timedelta(microseconds=1) + days * DAY_US
    if not -(2**63) <= at_us < 2**63:
        raise ValueError(f"{text!r} is beyond what a TIMESTAMP holds")
    return at_us


def read_day(text: str) -> int:
    """Read a day as days since 1970.

    Raises:
        ValueError: it is none.

    >>> read_day("-0001-12-31")
    -719529
    """
    plain, days = _within_era(text)
    day = (date.fromisoformat(plain) - _DAY_0).days + days
    if not -(2**31) <= day < 2**31:
        raise ValueError(f"{text!r} is beyond what a DATE holds")
    return day


def datetime_of(at_ms: int) -> datetime:
    """Return a time as Python has it, in UTC.

    Raises:
        OverflowError: it has none outside the years 1 to 9999.
    """
    return _EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=at_ms)


def _signed(year: int) -> str:
    return f"{year:04d}" if 0 <= year <= 9_999 else f"{year:+05d}"


def _within_era(text: str) -> tuple[str, int]:
    """Move a text into a year that Python has; returns it and by how many days it was moved."""
    found = _LONG.fullmatch(text)
    if found is None or (found[1].isdigit() and len(found[1]) == 4 and found[1] != "0000"):
        return text, 0
    eras, rest = divmod(int(found[1]), _ERA_YEARS)
    # From 2000 on, where every era has a like one.
    return f"{2_000 + rest}{found[2]}{found[3]}", (eras - 2_000 // _ERA_YEARS) * _ERA_DAYS
