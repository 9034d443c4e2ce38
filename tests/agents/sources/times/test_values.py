"""Times of JSON that do not say their zone are of the source's; of those that do, it changes nothing."""

from __future__ import annotations

import datetime
import json
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.sources.format import make_format, parse_chunk

UTC = datetime.UTC
ZONES = ("Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "UTC")
#: Never while clocks are set.
times = st.datetimes(datetime.datetime(2001, 1, 2), datetime.datetime(2037, 12, 30)).map(
    lambda time: time.replace(day=15, microsecond=time.microsecond // 1000 * 1000)
)
#: How a zone is said, and how far it is from UTC in minutes; None: it is not.
OFFSETS = (("", None), ("Z", 0), ("z", 0), ("+00:00", 0), ("-03:30", -210), ("+0545", 345), ("+02", 120), ("-08", -480))
FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f")


def read(text: str, zone: str) -> list[datetime.datetime]:
    """Return the event times that a line with a time has: one, or none if that is rejected."""
    format = make_format("json", time="ts", zone=zoneinfo.ZoneInfo(zone))
    parsed = parse_chunk(format, f'{{"ts":{text},"n":1}}\n'.encode(), {"n": SqlType.BIGINT})
    return [each.replace(tzinfo=UTC) for each in parsed.events["ts"].to_list()]


@given(times, st.sampled_from(FORMS), st.sampled_from(OFFSETS), st.sampled_from(ZONES), st.booleans())
def test_a_zone_holds_where_none_is_said(
    time: datetime.datetime, form: str, offset: tuple[str, int | None], zone: str, is_escaped: bool
) -> None:
    said, minutes = offset
    text = time.strftime(form) + said
    written = json.dumps(text).replace(text[-1] + '"', f'\\u{ord(text[-1]):04x}"') if is_escaped else json.dumps(text)
    exact = datetime.datetime.strptime(time.strftime(form), form)
    where = zoneinfo.ZoneInfo(zone) if minutes is None else datetime.timezone(datetime.timedelta(minutes=minutes))
    assert read(written, zone) == [exact.replace(tzinfo=where).astimezone(UTC)]


@pytest.mark.parametrize("zone", ZONES)
def test_a_date_alone_is_midnight_there(zone: str) -> None:
    midnight = datetime.datetime(2026, 11, 26, tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(UTC)
    assert read('"2026-11-26"', zone) in ([midnight], [])
    assert read("1795651200", zone) == [datetime.datetime(2026, 11, 26, tzinfo=UTC)]


def test_what_clocks_leave_out_is_no_time() -> None:
    assert read('"2026-03-29T02:30:00"', "Europe/Berlin") == []
    assert read('"2026-03-29T02:30:00Z"', "Europe/Berlin") != []
