"""A small frame of nasty rows: nulls, empty and Unicode text, extreme numbers, NaN, epochs and leap years."""

import datetime as dt
from typing import Any

import polars as pl

from elf.agents.language.types import SqlType

COLUMNS: dict[str, SqlType] = {
    "s": SqlType.STRING,
    "t": SqlType.STRING,
    "n": SqlType.STRING,
    "w": SqlType.STRING,
    "u": SqlType.STRING,
    "m": SqlType.STRING,
    "i": SqlType.INT,
    "j": SqlType.INT,
    "b": SqlType.BIGINT,
    "c": SqlType.BIGINT,
    "d": SqlType.DOUBLE,
    "e": SqlType.DOUBLE,
    "f": SqlType.BOOLEAN,
    "g": SqlType.BOOLEAN,
    "dt": SqlType.DATE,
    "tm": SqlType.TIMESTAMP,
}

_TEXTS = [
    "abc", "", None, "ABC", " abc ", "a.b", "100%", "a_c", "é", "añb🙂c", "straße", "İ", "ΑΣ", "e\u0301x",
    "line\nbreak", "abc\n", "tab\there", "\u00a0x\u00a0", "K", "12", "٣", "true", "aaa", "xbbx", "ab,cd,,ef", "b",
    "-", "a b+c%41", "a\\b", "k\u212a",
]  # fmt: skip
_OTHERS = ["b", "abc", "", None, "🙂", "c", "x", "ABC", "%", "z" * 30, "é", "  ", "\t"]
_NUMBERS = [
    "5", "-7", " 12 ", "1.5", "1e3", "", None, "abc", "2147483648", "99999999999999999999", "+3", ".5", "7.", "NaN",
    "0", "-0", "1d", "1,000", "0x1F", "true", "No", "1.9999", "\t8\n", "- 1", "-NaN",
]  # fmt: skip
_DAYS = [
    "2024-02-29", "2024-02-29 12:30:45", "2023-02-29", "1970-01-01", "1969-12-31 23:59:59.999", "", None,
    "not a date", "2024-2-9", "2024", "2024-02-29T12:30:45Z", "2024-02-29T12:30:45.123+02:00", "2024-13-01",
    "0001-01-01", "9999-12-31", " 2000-01-01 ", "2024-06-30 23:59:60", "20240229", "2024-02-29 12:30:45.123456789",
]  # fmt: skip
_URLS = [
    "https://example.com/a/b.html?q=x%20y&page=2#top", "http://user:pw@host.example.org:8080/p",
    "/relative/path?q=1", None, "", "https://example.com", "https://example.com?q=", "ftp://1.2.3.4/file",
    "mailto:a@b.c", "http://exa mple.com/", "http://example.com/%zz", "https://under_score.example.com/x",
    "//host/path", "path/only?page=3", "?q=9&q=8", "#frag", "http://[::1]:80/v6", "https://é.example/ü?q=ö",
    "http://example.com/a?b=1&xq=2&q=3&", "http:///nohost", "/a|b", "/a?b=c d", "HTTP://EXAMPLE.COM/UP",
    "http://a.b.c./dot", "a+b", "/%41%C3%A9+%", "http://-bad.com/", "http://example.com:/p",
    "http://example.1com/", "http://h/p?q=a=b&page", "javascript:alert(1)",
]  # fmt: skip
_LINES = [
    '10.0.0.1 - - [29/Feb/2024:12:30:45 +0000] "GET /a?x=1 HTTP/1.1" 200 512', None, "", "status=",
    "status=503 end", '10.0.0.2 - - [01/Jan/2024:00:00:00 +0000] "POST /b HTTP/1.0" 500 -', "GET",
    '"GET ', "/just/a/path", "a 404 b 99",
]  # fmt: skip
_INTS = [0, 1, -1, 7, -7, 2147483647, -2147483648, None, 100, 3, 2, 42]
_OTHER_INTS = [1, 0, 2, -2, 3, -3, None, 2147483647, -1, 10]
_BIGINTS = [0, 1, -1, 2**63 - 1, -(2**63), None, 2**31, -(2**31) - 1, 1_700_000_000_000, 7, -7, 10**15]
_OTHER_BIGINTS = [2, -1, 0, None, 3, -3, 2**62, 10]
_DOUBLES = [
    0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), None, 0.1, 2.675, 1e20, -1e20, 0.5, 2.5, 1e-10,
    123456.789, 4.35, 1.005, 3e9,
]  # fmt: skip
_OTHER_DOUBLES = [1.0, 0.0, float("nan"), None, -2.5, 0.1, 2.0, 1.5, -0.0, 3.25]
_BOOLEANS = [True, False, None]
_OTHER_BOOLEANS = [True, True, True, False, False, False, None, None, None]
_DATES = [
    dt.date(2024, 2, 29), dt.date(1970, 1, 1), dt.date(1969, 12, 31), None, dt.date(2023, 12, 31), dt.date(2024, 12,
    30), dt.date(1900, 3, 1), dt.date(2000, 2, 29), dt.date(2021, 1, 3), dt.date(9999, 12, 31), dt.date(1, 1, 1),
    dt.date(2026, 1, 1),
]  # fmt: skip
_TIMES = [
    dt.datetime(2024, 2, 29, 12, 30, 45, 250000), dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59,
    999999), None, dt.datetime(2023, 12, 31, 23, 59, 59), dt.datetime(2000, 1, 1, 0, 0, 0, 1), dt.datetime(1900, 1,
    1, 5, 4, 3), dt.datetime(2024, 7, 1, 0, 0), dt.datetime(2038, 1, 19, 3, 14, 8), dt.datetime(2021, 1, 3, 20, 8,
    9, 120000), dt.datetime(2024, 3, 31, 2, 30),
]  # fmt: skip

_VALUES: dict[str, list[Any]] = {
    "s": _TEXTS,
    "t": _OTHERS,
    "n": _NUMBERS,
    "w": _DAYS,
    "u": _URLS,
    "m": _LINES,
    "i": _INTS,
    "j": _OTHER_INTS,
    "b": _BIGINTS,
    "c": _OTHER_BIGINTS,
    "d": _DOUBLES,
    "e": _OTHER_DOUBLES,
    "f": _BOOLEANS,
    "g": _OTHER_BOOLEANS,
    "dt": _DATES,
    "tm": _TIMES,
}
HEIGHT = 60


def frame() -> pl.DataFrame:
    """The rows for Polars; `ts` counts seconds from 2024 so that windows have work."""
    start = dt.datetime(2024, 1, 1)
    columns = {
        name: pl.Series([values[row % len(values)] for row in range(HEIGHT)], dtype=COLUMNS[name].dtype)
        for name, values in _VALUES.items()
    }
    times = [start + dt.timedelta(milliseconds=1_700 * row) for row in range(HEIGHT)]
    return pl.DataFrame(columns).with_columns(pl.Series("ts", times, dtype=pl.Datetime("ms")))
