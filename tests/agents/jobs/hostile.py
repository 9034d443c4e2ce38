"""Rows at the edges of every type: two columns each, in all the ways that their values meet. Pure."""

import random
from typing import Any

import polars as pl

from elf.agents.language.types import SqlType

BITS = {SqlType.INT: 32, SqlType.BIGINT: 64}
DAY_US = 86_400_000_000
#: Texts of numbers, times, truth values and none of them, as they come in logs.
TEXTS = [
    "", "5", "-7", " 12 ", "+5", "++5", "5.", ".5", "-.5", "+.5", ".", "-.", "-", "1.5", "1e3", "1E-3", "-1e-3", "5e",
    "1e400", "-1e400", "1e-400", "4.9e-324", "0x1F", "0x1.8p1", "0X.8P-2d", "0x1p", "1_000", "1,000", "٣", "\uff11",
    "5L", "5D", "1.5f", "5BD", "inf", "-Infinity", "+INF", "nan", "NaN", "-NaN", "true", " TRUE ", "t", "no", "Y", "01",
    "2147483647", "2147483648", "-2147483648.9", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "99999999999999999999", "\u00a05", "5\x7f", "\x005", "5\n", "5\u2028", "0" * 30 + "5", "1.7976931348623159e308",
    "2024-02-29", "2024-2-9", "2024-1-1 1:2:3", "2024-02-29T12:30:45.1234567Z", "2024-02-29 12:30:45 +01:30", "2024",
    "2023-02-29", "2024-02-29 24:00:00", "2024-02-29 12:30:60", "+2024-01-01", "-2024-01-01", "0000-01-01",
    "10000-01-01", "99999-12-31 23:59:59.999999", "2024-02-29x", "2024-02-29 x", "not a date", "straße", "ﬁ", "İ",
    "ΑΣ ΑΣ", "ǅ", "e\u0301", "K", "a\x00b", "\r\n", "a\n", "\x85", "\u2028x", "👨‍👩‍👧", "%", "_",
    "\\", "a%b", ",,", "a.b.c",
]  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.5, -2.5, 0.1, 2.675, 1.005, 0.49999999999999994, 4503599627370497.5, 5e-324, 2.2250738585072014e-308,
    1.7976931348623157e308, -1.7976931348623157e308, 2.0**31, -(2.0**31) - 0.5, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e22,
    float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
COLUMNS: dict[str, SqlType] = {f"{kind.value.lower()}{number}": kind for kind in SqlType for number in (1, 2)}
#: What DATE and TIMESTAMP are made of.
PHYSICAL = {SqlType.DATE: pl.Int32(), SqlType.TIMESTAMP: pl.Int64()}
HEIGHT = 240


def values(kind: SqlType, chosen: random.Random) -> list[Any]:
    """Return a column: each of the edges if there are not too many, in an order of its own, and NULL."""
    edges: list[Any]
    match kind:
        case SqlType.BOOLEAN:
            edges = [True, False]
        case SqlType.STRING:
            edges = TEXTS
        case SqlType.DOUBLE:
            edges = [*DOUBLES, *(chosen.gauss(0, 100) for _ in range(10))]
        case SqlType.DATE:
            # As far as the calendars of both reach.
            edges = [0, -1, 19_782, 2_932_896, -719_162, *(chosen.randint(-96_000_000, 95_000_000) for _ in range(20))]
        case SqlType.TIMESTAMP:
            days = [0, 19_782, 2_932_897, -719_163, *(chosen.randint(-90_000_000, 90_000_000) for _ in range(20))]
            edges = [day * DAY_US + chosen.choice([0, -1, 45_045_250_000, chosen.randrange(DAY_US)]) for day in days]
        case _:
            most = 2 ** (BITS[kind] - 1)
            edges = [0, 1, -1, 7, -7, 2, 100, 31, most - 1, -most, most // 2, 10**9, 46_341, 12]
            edges += [chosen.randrange(-most, most) for _ in range(8)]
    column = [*edges, None] * (HEIGHT // len(edges) + 1)
    chosen.shuffle(column)
    return column[:HEIGHT]


def columns() -> dict[str, list[Any]]:
    """Return all columns; days and times as whole numbers."""
    chosen = random.Random(31)
    return {name: values(kind, chosen) for name, kind in COLUMNS.items()}


def frame() -> pl.DataFrame:
    """Return the rows for Polars."""
    made = columns()
    return pl.DataFrame(
        [pl.Series(name, made[name], PHYSICAL.get(kind, kind.dtype)).cast(kind.dtype) for name, kind in COLUMNS.items()]
    )
