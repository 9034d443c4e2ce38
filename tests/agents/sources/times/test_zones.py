from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.agents.language.instants import EARLIEST_MS, LATEST_MS
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.times.notations import NO_TIME
from elf.agents.sources.times.zones import DAY_MS, named_zone, to_utc, with_years

NAMES = st.sampled_from(["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"])
EPOCH = datetime.datetime(1970, 1, 1)
TIMES = st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2037, 1, 1))
MS = datetime.timedelta(milliseconds=1)


@given(NAMES, st.lists(TIMES, max_size=20))
def test_local_times_are_what_the_standard_library_says(name: str, times: list[datetime.datetime]) -> None:
    zone = zoneinfo.ZoneInfo(name)
    found = to_utc(np.array([(at - EPOCH) // MS for at in times], np.int64), zone)
    for at, ms in zip(times, found.ms.tolist(), strict=True):
        # Of those that come twice the first one is meant.
        utc = at.replace(tzinfo=zone, fold=0).astimezone(datetime.UTC)
        exists = utc.astimezone(zone).replace(tzinfo=None, fold=0) == at
        assert ms == ((utc.replace(tzinfo=None) - EPOCH) // MS if exists else NO_TIME)


def test_an_hour_that_comes_twice_is_the_first_one_and_counted() -> None:
    twice = (datetime.datetime(2026, 10, 25, 2, 30) - EPOCH) // MS
    found = to_utc(np.array([twice, twice + DAY_MS]), zoneinfo.ZoneInfo("Europe/Berlin"))
    assert found.ms[0] == twice - 2 * 3_600_000 and found.ambiguous == 1


def test_clocks_may_be_set_at_any_minute() -> None:
    """St. John's: at one minute past midnight, 2008-11-02 00:01 became 2008-11-01 23:01."""
    midnight = (datetime.datetime(2008, 11, 2) - EPOCH) // MS
    times = np.array([midnight, midnight + 60_000 - 1, midnight + 60_000])
    found = to_utc(times, zoneinfo.ZoneInfo("America/St_Johns"))
    hours = [(ms - midnight) / 3_600_000 for ms in found.ms.tolist()]
    assert hours[0] == 2.5 and found.ambiguous == 2
    assert hours[2] == pytest.approx(3.5 + 1 / 60), "once more by the new offset"


def test_times_that_a_zone_moves_out_of_the_years_1_to_9999_are_none() -> None:
    ends = np.array([EARLIEST_MS, LATEST_MS])
    assert to_utc(ends, zoneinfo.ZoneInfo("Asia/Tokyo")).ms[0] == NO_TIME
    assert to_utc(ends, zoneinfo.ZoneInfo("America/Lima")).ms[1] == NO_TIME


@given(st.datetimes(datetime.datetime(2000, 1, 1), datetime.datetime(2000, 12, 31)), TIMES)
def test_a_year_is_the_newest_that_is_not_ahead(at: datetime.datetime, now: datetime.datetime) -> None:
    now_ms = (now - EPOCH) // MS
    (found,) = with_years(np.array([(at - EPOCH) // MS], np.int64), now_ms).tolist()
    then = EPOCH + found * MS
    assert (then.month, then.day, then.time()) == (
        at.month,
        at.day,
        at.replace(microsecond=at.microsecond // 1000 * 1000).time(),
    )
    assert found <= now_ms + DAY_MS
    if (at.month, at.day) != (2, 29):
        assert found > now_ms + DAY_MS - 366 * DAY_MS


def test_a_zone_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Europe/Berlin'"):
        named_zone("Europe/Berln")


@given(st.datetimes(datetime.datetime(1980, 1, 1), datetime.datetime(2037, 1, 1)), NAMES, st.sampled_from("T "))
def test_all_formats_read_a_time_without_a_zone_in_that_of_the_source(
    at: datetime.datetime, name: str, between: str
) -> None:
    text, zone = at.isoformat(between, "milliseconds"), zoneinfo.ZoneInfo(name)
    offset = (at - datetime.datetime(1970, 1, 1)) // datetime.timedelta(milliseconds=1)
    expected = to_utc(np.array([offset]), zone).ms.tolist()
    expected = [] if expected == [NO_TIME] else expected
    lines = {
        "json": f'{{"ts":"{text}"}}\n{{"ts":"{text}Z"}}',
        "ltsv": f"ts:{text}\ta:1\nts:{text}Z\ta:1",
        "logfmt": f'ts="{text}" a=1\nts="{text}Z" a=1',
        "csv": f"ts,a\n{text},1\n{text}Z,1",
        "{ts:time:iso|iso-zoneless}": f"{text}\n{text}Z",
    }
    for format, chunk in lines.items():
        events = parse_chunk(make_format(format, zone=zone), chunk.encode(), {}).events
        assert events["ts"].dt.epoch("ms").to_list() == [*expected, offset], format


@pytest.mark.parametrize("value", ["-1", "-1795683600.5", "-1795683600042", "-0.0001", '"-1795683600"', "-1e3"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_negative_number_is_no_time(value: str, zone: str) -> None:
    reader = make_format("json", zone=zoneinfo.ZoneInfo(zone))
    line = f'{{"ts":{value}}}\n{{"ts":-0}}\n{{"ts":"1969-12-31T23:59:59Z"}}'.encode()
    found = parse_chunk(reader, line, {})
    assert found.events["ts"].dt.epoch("s").to_list() == [0, -1] and found.rejects[0][1] == "time"
