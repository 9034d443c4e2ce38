"""Times for people, and as texts of any year."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.instants import (
    clock_time,
    datetime_of,
    day_text,
    instant,
    read_day,
    read_time,
    time_text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-(2**31), 2**31 - 1)
#: What Polars can write, as whole days.
KNOWN_DAYS = st.integers(-96_465_292, 95_026_236)


def test_milliseconds_are_written_where_there_are_some() -> None:
    assert instant(1_767_225_650_000) == "2026-01-01T00:00:50Z"
    assert instant(1_767_225_650_007) == "2026-01-01T00:00:50.007Z"
    assert instant(-1) == "1969-12-31T23:59:59.999Z"


@given(MICROS)
def test_every_time_has_a_text_that_says_it(at_us: int) -> None:
    assert read_time(time_text(at_us)) == at_us
    assert instant(at_us // 1_000).endswith("Z") and clock_time(at_us // 1_000).count(":") == 2


@given(DAYS)
def test_every_day_has_a_text_that_says_it(day: int) -> None:
    assert read_day(day_text(day)) == day
    assert time_text(day * 86_400_000_000) == f"{day_text(day)}T00:00:00.000000Z"


@given(st.datetimes())
def test_texts_of_pythons_years_are_pythons(moment: datetime) -> None:
    at_us = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    assert time_text(at_us) == moment.isoformat(timespec="microseconds") + "Z"
    assert read_time(moment.isoformat()) == at_us
    assert datetime_of(at_us // 1_000) == EPOCH + timedelta(milliseconds=at_us // 1_000)


@given(st.lists(KNOWN_DAYS, max_size=20))
def test_texts_of_years_that_only_polars_has_are_polars(days: list[int]) -> None:
    series = pl.Series(days, dtype=pl.Int32).cast(pl.Date)
    assert [day_text(day) for day in days] == series.dt.strftime("%Y-%m-%d").to_list()


def test_offsets_are_taken_off() -> None:
    assert read_time("2026-01-01T00:00:00+02:00") == read_time("2025-12-31T22:00:00Z")
    assert read_time("0001-01-01T00:00:00+01:00") == read_time("0000-12-31T23:00:00")


@pytest.mark.parametrize("text", ["", "yesterday", "+2026", "0000-13-01", "+99999-02-29", "2026-01-01T25:00:00Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        read_time(text)
    with pytest.raises(ValueError):
        read_day(text)


def test_what_python_does_not_have() -> None:
    with pytest.raises(OverflowError):
        datetime_of(253_402_300_800_000)
    assert datetime_of(-62_135_596_800_000).date() == date(1, 1, 1)
