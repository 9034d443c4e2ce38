"""Times in texts, texts of times, and times of any year against Spark: generated, a few thousand in one query each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from elf.agents.errors import JobSpecError
from elf.agents.language.dialect import parse_statement
from elf.agents.language.expressions import compile_expression
from elf.agents.language.query import parse_query
from elf.agents.language.scopes import RowScope
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"w": SqlType.STRING, "tm": SqlType.TIMESTAMP, "dt": SqlType.DATE, "b": SqlType.BIGINT}
PLAIN = {SqlType.TIMESTAMP: "unix_micros({})", SqlType.DATE: "unix_date({})"}
DAY_US = 86_400_000_000
#: Where texts and truncation begin to be NULL here: the calendar of Polars less a year.
FIRST_US, END_US = -96_464_927 * DAY_US, 95_025_872 * DAY_US


def compiled(text: str) -> Value:
    scope = RowScope(parse_query("SELECT count(*) FROM rows"), COLUMNS)
    return compile_expression(parse_statement(f"SELECT {text}\nFROM rows").expressions[0], scope)


def ours(text: str, rows: pl.DataFrame) -> list[Any]:
    value = compiled(text)
    expr = value.expr.to_physical() if value.type in PLAIN else value.expr
    return rows.select(expr.alias("x"))["x"].to_list()


def judged(rows: DataFrame, texts: list[str]) -> list[list[Any]]:
    """What Spark says of each expression, row by row."""
    plain = [PLAIN.get(compiled(text).type, "{}").format(text) for text in texts]  # type: ignore[call-overload]
    found = rows.orderBy("i").selectExpr(*(f"{text} AS c{index}" for index, text in enumerate(plain))).collect()
    return [[row[index] for row in found] for index in range(len(texts))]


def differences(made: pl.DataFrame, rows: DataFrame, texts: list[str]) -> list[str]:
    found = []
    for text, truth in zip(texts, judged(rows, texts), strict=True):
        for row, one, other in zip(made.rows(), ours(text, made), truth, strict=True):
            if one != other:
                found.append(f"{text} of {row!r}: {one!r}, in Spark {other!r}")
    return found


class Writer:
    """Writes times as people and programs do, and as they should not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def digits(self, count: int) -> str:
        return "".join(self.random.choices("0123456789", k=count))

    def number(self, low: int, high: int) -> str:
        value = self.random.randint(low, high)
        return self.random.choice([f"{value:02d}", f"{value:02d}", str(value), self.digits(self.random.randint(0, 3))])

    def year(self) -> str:
        odd = self.random.choice(["", "+", "-"]) + self.digits(self.random.randint(3, 8))
        return self.random.choice([str(self.random.randint(1900, 2100)), self.digits(4), odd])

    def zone(self) -> str:
        clock = self.random.choice(["5", "05", "5:3", "05:3", "05:30", "5:30", "0530", "530", "053015", "05:30:15"])
        rare = self.random.choice(
            ["18", "18:00", "18:01", "1801", "19:00", "05:60", "0560", "05:30:1", "", "0:0", "5:"]
        )
        signed = self.random.choice("+-") + self.random.choice([clock, clock, rare])
        name = self.random.choice(["UTC", "GMT", "UT"])
        written = self.random.choice(["Z", "z", "utc", "Z+5", name, signed, signed, name + signed, name + name])
        return self.random.choice(["", "", " ", "\t "]) + written

    def time(self) -> str:
        text = f"{self.year()}-{self.number(1, 12)}"
        parts = [
            lambda: f"-{self.number(1, 31)}",
            lambda: f"{self.random.choice(' TTTT_')}{self.number(0, 23)}",
            lambda: f":{self.number(0, 59)}",
            lambda: f":{self.number(0, 60)}",
            lambda: self.random.choice(["", "." + self.digits(self.random.choice([0, 1, 2, 3, 6, 7, 9, 12]))]),
            lambda: self.random.choice(["", self.zone()]),
        ]
        stops = self.random.choice([0, 1, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6])
        return text + "".join(part() for part in parts[:stops])

    def torn(self, text: str) -> str:
        """A text as it is, mostly, or with something in it that does not belong there."""
        if self.random.random() < 0.7:
            return text
        place, odd = self.random.randrange(len(text) + 1), self.random.choice("0- +:.TZ\x01\x7f\u00a0\u0660\u00e9\n")
        return self.random.choice([text[:place] + odd + text[place:], text[:place] + text[place + 1 :], f" {text}\x7f"])


EDGES = [
    "294247-01-10T04:00:54.775807Z", "294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224192Z",
    "-290308-12-21T19:59:05.224191Z", "+294247-01-10 04:00:55", "5881580-07-11", "5881580-07-12", "-5877641-06-23",
    "-5877641-06-22", "-0000-01-01", "0000-02-29", "+10000-01-01", "10000-01-01", "100000-02-29", "", " ", "T", "Z",
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_texts_are_read_as_spark_reads_them(spark: SparkSession, seed: int) -> None:
    writer = Writer(seed)
    texts = EDGES + [writer.torn(writer.time()) for _ in range(4_000)]
    rows = spark.createDataFrame(list(enumerate(texts)), "i INT, w STRING")
    made = pl.DataFrame({"w": texts})
    assert not differences(made, rows, ["CAST(w AS TIMESTAMP)", "CAST(w AS DATE)", "to_timestamp(w)"])
    read = ours("CAST(w AS TIMESTAMP)", made)
    assert len(texts) / 5 < sum(at is not None for at in read) < len(texts) * 4 / 5


LITERALS = ["-", "/", " ", ":", ".", ", ", "'T'", "' Kis '", "_", "", "", "'o''clock'", "'\u00fc'", "'7'"]


def a_pattern(writer: Writer) -> tuple[str, list[Callable[[], str]]]:
    """A pattern that reads times, and what writes the parts of texts for it, right or nearly."""
    choose, number = writer.random.choice, writer.number
    date: list[tuple[str, Callable[[], str]]] = [
        # Spark itself fails on years that 64 bits do not reach.
        ("yyyy", lambda: choose(["2024", writer.digits(4), choose("+-") + writer.digits(choose([4, 5]))])),
        choose([("MM", lambda: number(1, 12)), ("M", lambda: choose([number(1, 13), "0" * 15 + "9"]))]),
        choose([("dd", lambda: number(1, 31)), ("d", lambda: choose([number(1, 31), "007"]))]),
    ]
    if choose([True, False]):
        date[1] = ("MMM", lambda: choose(["Jan", "feb", "AUG", "Sept", "\u017fep", "sep", "D\u00e9c"]))
    digits = writer.random.randint(1, 9)
    clock: list[tuple[str, Callable[[], str]]] = [
        choose([("HH", lambda: number(0, 24)), ("H", lambda: number(0, 24))]),
        ("mm", lambda: number(0, 59)),
        ("ss", lambda: number(0, 60)),
        ("S" * digits, lambda: writer.digits(writer.random.randint(0, digits + 1))),
        choose([("Z", writer.zone), ("XXX", writer.zone)]),
    ]
    fields = writer.random.sample(date, 3) + clock[: writer.random.randint(0, 5)]
    pattern, parts = "", []
    for index, (letters, part) in enumerate(fields):
        literal = choose(LITERALS) if index else ""
        plain = literal.replace("''", "\0").replace("'", "").replace("\0", "'")
        cased = [plain, plain, plain.upper(), plain.lower(), plain.replace("i", "\u0131").replace("K", "\u212a")]
        pattern += literal + letters
        parts += [lambda cased=cased: choose(cased), part]  # type: ignore[misc]
    return pattern, parts


def test_patterns_read_what_spark_reads_by_them(spark: SparkSession) -> None:
    writer = Writer(3)
    asked: list[str] = []
    texts: list[str] = []
    while len(asked) < 60:
        pattern, parts = a_pattern(writer)
        text = f'try_to_timestamp(w, "{pattern}")'
        try:
            compiled(text)
        except JobSpecError as error:
            assert "nothing tells where" in str(error), pattern
            continue
        asked.append(text)
        texts += ["".join(part() for part in parts) for _ in range(40)]
    rows = spark.createDataFrame(list(enumerate(texts)), "i INT, w STRING").cache()
    made = pl.DataFrame({"w": texts})
    assert not differences(made, rows, asked)
    assert sum(at is not None for text in asked for at in ours(text, made)) > 500


UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")
#: Of a TIMESTAMP `tm`, its DATE `dt` and its seconds `b`.
OF_ANY_YEAR = [
    "CAST(tm AS STRING)", "CAST(dt AS STRING)", "CAST(tm AS DATE)", "CAST(dt AS TIMESTAMP)", "CAST(tm AS DOUBLE)",
    "year(dt)", "quarter(dt)", "month(dt)", "day(dt)", "dayofyear(dt)", "dayofweek(dt)", "weekday(dt)",
    "weekofyear(dt)", "last_day(dt)", "hour(tm)", "minute(tm)", "second(tm)", "date_add(dt, 40)",
    "datediff(dt, DATE '2000-01-01')", "date_format(tm, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "date_format(dt, 'EEE DDD')",
    "date_format(tm, 'MMMM d h a')", "from_unixtime(b)", "from_unixtime(b, 'yyyy')", "timestamp_seconds(b)",
    "CAST(b AS TIMESTAMP)", "unix_timestamp(tm)", "unix_seconds(tm)", "unix_millis(tm)", "unix_micros(tm)",
    *(f"date_trunc('{unit}', tm)" for unit in UNITS), *(f"trunc(dt, '{unit}')" for unit in UNITS[:4]),
]  # fmt: skip


def test_times_of_any_year_are_spark_s(spark: SparkSession) -> None:
    """As far as Polars' calendar reaches; beyond, what has to know a day there is NULL, and nothing fails."""
    chosen = random.Random(4)
    # Spark itself fails where it truncates at the ends of 64 bits.
    wide, near = 9 * 10**18, 10**18
    edges = [0, -1, 253_402_300_799_999_999, 253_402_300_800_000_000, -62_135_596_800_000_001, -62_167_219_200_000_001]
    times = edges + [chosen.randint(-most, most) for most in (wide, near) for _ in range(200)]
    times += [FIRST_US, FIRST_US - 1, END_US - 1, END_US, 1_704_067_200_000_000_000]
    days, seconds = [at // DAY_US for at in times], [at // 1_000_000 for at in times]
    made = pl.DataFrame({"tm": times, "dt": pl.Series(days, dtype=pl.Int32), "b": seconds})
    made = made.with_columns(pl.col("tm").cast(pl.Datetime("us")), pl.col("dt").cast(pl.Date))
    plain = spark.createDataFrame(
        list(zip(range(len(times)), times, days, seconds, strict=True)), "i INT, t BIGINT, d INT, b BIGINT"
    )
    rows = plain.selectExpr("i", "timestamp_micros(t) AS tm", "date_from_unix_date(d) AS dt", "b").cache()
    for text, truth in zip(OF_ANY_YEAR, judged(rows, OF_ANY_YEAR), strict=True):
        for at, one, other in zip(times, ours(text, made), truth, strict=True):
            is_known = FIRST_US <= at < END_US
            assert one == other or (one is None and not is_known), f"{text} of {at}: {one!r}, in Spark {other!r}"
