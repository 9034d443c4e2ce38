"""Reading times from texts and computing with times: nothing fails, whatever is written and whatever the year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobSpecError
from elf.agents.language.dialect import parse_statement
from elf.agents.language.expressions import compile_expression
from elf.agents.language.json_rows import json_rows
from elf.agents.language.query import parse_query
from elf.agents.language.scopes import RowScope
from elf.agents.language.time_texts import read_days, read_times
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

COLUMNS = {"w": SqlType.STRING, "t": SqlType.TIMESTAMP, "b": SqlType.BIGINT, "x": SqlType.DOUBLE, "i": SqlType.INT}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: All that makes a time, or something of one.
TIMES = [
    "timestamp_seconds(b)", "timestamp_millis(b)", "timestamp_micros(b)", "CAST(b AS TIMESTAMP)",
    "CAST(x AS TIMESTAMP)", "CAST(w AS TIMESTAMP)", "t", "date_trunc('week', t)", "to_timestamp(w, 'yyyy-MM-dd')",
    "date_trunc('year', w)",
]  # fmt: skip
OF_TIMES = [
    "{}", "to_date({})", "CAST({} AS STRING)", "CAST({} AS DATE)", "CAST({} AS INT)", "CAST({} AS DOUBLE)",
    "date_format({}, 'yyyy y yy EEEE DDD')", "year({})", "weekofyear({})", "last_day({})", "trunc({}, 'quarter')",
    "date_trunc('month', {})", "date_add(CAST({} AS DATE), i)", "unix_timestamp({})", "hour({})", "unix_micros({})",
    "datediff({}, t)", "greatest({}, t)",
]  # fmt: skip


def compiled(text: str) -> Value:
    scope = RowScope(parse_query("SELECT count(*) FROM rows"), COLUMNS)
    return compile_expression(parse_statement(f"SELECT {text}\nFROM rows").expressions[0], scope)


EXPRESSIONS = [compiled(outer.format(inner)).expr for inner in TIMES for outer in OF_TIMES]
LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([10**k for k in range(19)] + [2**63 - 1, -(2**63)])
WRITTEN = st.text(max_size=30) | st.from_regex(r"[+-]?[0-9]{1,8}(-[0-9]{1,3}){0,2}[ T0-9:.Z+-]{0,30}", fullmatch=True)


ROWS = st.tuples(WRITTEN, LONGS, LONGS, st.floats(), st.integers(-(2**31), 2**31 - 1))


@settings(max_examples=10)
@given(st.lists(ROWS, min_size=1, max_size=60))
def test_no_value_makes_an_expression_of_times_fail_nor_a_result(rows: list[tuple[str, int, int, float, int]]) -> None:
    schema = {name: kind.dtype for name, kind in COLUMNS.items()} | {"t": pl.Int64()}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("t").cast(pl.Datetime("us")))
    made = frame.select(expr.alias(str(index)) for index, expr in enumerate(EXPRESSIONS))
    assert len(json_rows(made)) == len(rows)


UNITS_US = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}


@given(st.lists(LONGS, min_size=1, max_size=40))
def test_times_that_64_bits_do_not_reach_are_null_and_no_others(counts: list[int]) -> None:
    frame = pl.DataFrame({"b": counts}, schema={"b": pl.Int64})
    for name, unit_us in UNITS_US.items():
        made = frame.select(compiled(f"{name}(b)").expr.cast(pl.Int64)).to_series().to_list()
        assert made == [at if -(2**63) <= (at := count * unit_us) < 2**63 else None for count in counts]


@given(st.lists(st.tuples(st.datetimes(), st.integers(-18 * 60, 18 * 60), st.integers(0, 12)), max_size=8))
def test_times_that_programs_write_are_read(written: list[tuple[datetime, int, int]]) -> None:
    texts, times = [], []
    for moment, offset, digits in written:
        fraction = f"{moment.microsecond:06}000000"[:digits]
        kept = moment.replace(microsecond=int(f"{fraction:0<6}"[:6]), tzinfo=UTC)
        sign, (hours, minutes) = "-" if offset < 0 else "+", divmod(abs(offset), 60)
        text = f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{'.' * (digits > 0)}{fraction}{sign}{hours:02}:{minutes:02}"
        texts.append(text)
        times.append((kept - EPOCH) // timedelta(microseconds=1) - offset * 60_000_000)
    assert read_times(pl.Series(texts, dtype=pl.String)).to_physical().to_list() == times
    days = [(moment.date() - EPOCH.date()).days for moment, _, _ in written]
    assert read_days(pl.Series(texts, dtype=pl.String)).to_physical().to_list() == days


@pytest.mark.parametrize("zone", [" Europe/Berlin", " CST", " EST5EDT", " PST", " Zulu"])
def test_zones_that_are_no_offsets_are_not_guessed(zone: str) -> None:
    assert read_times(pl.Series([f"2024-02-29 12:30:45{zone}"])).to_list() == [None]


@pytest.mark.parametrize(
    "pattern", ["yyyyMd", "yyyy-MM-ddH", "yyyy-MM-dd HH:mm:ss.SSSHH", "d7yyyy", "yyyy0MM", "yyyyMMd"]
)
def test_patterns_in_which_nothing_tells_numbers_apart_are_refused(pattern: str) -> None:
    with pytest.raises(JobSpecError, match=r"nothing tells|something twice"):
        compiled(f"to_timestamp(w, '{pattern}')")
