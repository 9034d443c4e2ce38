from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.agents.language.instants import EARLIEST_MS, LATEST_MS
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.times.notations import NOTATIONS, days_of, is_whole_time, read_time
from elf.agents.sources.times.strftime import compiled_time
from elf.agents.sources.times.zones import UTC

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
ZONES = st.integers(-18 * 60, 18 * 60).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
TIMES = st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31), timezones=ZONES)


def ms_of(at: datetime.datetime) -> int:
    return (at - EPOCH) // datetime.timedelta(milliseconds=1)


@given(TIMES)
def test_times_are_what_the_standard_library_says(at: datetime.datetime) -> None:
    text = at.isoformat(timespec="microseconds")
    assert is_whole_time(NOTATIONS["iso"], text.encode()) == ms_of(at)
    assert is_whole_time(NOTATIONS["iso"], text.replace("T", " ").replace(".", ",").encode()) == ms_of(at)
    english = f"{at.day:02}/{'JanFebMarAprMayJunJulAugSepOctNovDec'[at.month * 3 - 3 : at.month * 3]}/{at.year:04}"
    clf = f"{english}:{at:%H:%M:%S} {at:%z}"[: len("26/Nov/2026:09:00:00 +0000")]
    assert is_whole_time(NOTATIONS["clf"], clf.encode()) == ms_of(at.replace(microsecond=0))


@given(TIMES)
def test_strftime_and_back(at: datetime.datetime) -> None:
    notation = compiled_time("%Y-%j %I:%M:%S.%f %p %z")
    assert notation.is_whole
    text = f"{at.year:04}-{at:%j %I:%M:%S}.{at.microsecond:06} {at:%p} {at:%z}"
    assert is_whole_time(notation, text[: len("2026-330 09:00:00.000000 AM +0000")].encode()) == ms_of(at)


@given(st.integers(1, 9999), st.integers(1, 12), st.integers(1, 31))
def test_days_are_counted_as_the_standard_library_does(year: int, month: int, day: int) -> None:
    try:
        expected = datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal()
    except ValueError:
        assert days_of(year, month, day) is None
    else:
        assert days_of(year, month, day) == expected


@pytest.mark.parametrize("name", NOTATIONS)
def test_examples_are_of_their_notation_and_of_no_other(name: str) -> None:
    example = NOTATIONS[name].example.encode()
    # A number of eight digits is hexadecimal, too; who means that has to say so.
    fitting = {each.name for each in NOTATIONS.values() if is_whole_time(each, example) is not None}
    assert fitting == {name}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("clf", "31/Feb/2026:10:00:00 +0000"),
        ("clf", "26/Nov/2026:24:00:00 +0000"),
        ("clf", "26/Nov/2026:09:00:00 +1900"),
        ("clf", "26/nov/2026:09:00:00 +0000"),
        ("clf", "6/Nov/2026:09:00:00 +0000"),
        ("iso", "2026-11-26T09:00:00"),
        ("iso", "2026-11-26T09:00:00.Z"),
        ("iso", "2026-11-26T09:00:00.1234567890Z"),
        ("iso", "0001-01-01T00:00:00+01:00"),
        ("iso", "9999-12-31T23:59:59-01:00"),
        ("epoch", "-1"),
        ("epoch", "12345678901234567890"),
        ("http", "Xxx, 26 Nov 2026 09:00:00 GMT"),
    ],
)
def test_what_is_no_time_is_none(name: str, text: str) -> None:
    assert is_whole_time(NOTATIONS[name], text.encode()) is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1795683600", 1_795_683_600_000),
        ("1795683600.0425", 1_795_683_600_042),
        ("1795683600042", 1_795_683_600_042),
        ("1795683600042001", 1_795_683_600_042),
        ("1795683600042001002", 1_795_683_600_042),
    ],
)
def test_an_epoch_number_tells_its_unit_by_its_digits(text: str, ms: int) -> None:
    assert is_whole_time(NOTATIONS["epoch"], text.encode()) == ms


@given(
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)).map(lambda at: at.replace(microsecond=0))
)
def test_digits_of_a_date_are_no_epoch_number(at: datetime.datetime) -> None:
    text = at.strftime("%Y%m%d%H%M%S")
    assert is_whole_time(NOTATIONS["epoch"], text.encode()) is None
    for value in (text, int(text)):
        json = f'{{"ts":{value!r}}}'.replace("'", '"').encode()
        assert parse_chunk(make_format("json", zone=UTC), json, {}).events["ts"].to_list() == [at]
        assert parse_chunk(make_format("csv", zone=UTC), f"ts,a\n{value},1".encode(), {}).events["ts"].to_list() == [at]


def test_other_numbers_of_as_many_digits_are_ms() -> None:
    line = b'{"ts":20261326090000}\n{"ts":"20261326090000"}'
    assert parse_chunk(make_format("json", zone=UTC), line, {}).events["ts"].dt.year().to_list() == [2612, 2612]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-26 09:00:00.5 UTC", "2026-11-26T09:00:00.500"),
        ("2026/11/26 09:00:00 +0100", "2026-11-26T08:00:00"),
        ("2026/11/26 09:00:00.25-05:00", "2026-11-26T14:00:00.250"),
        ("26-Nov-2026 09:00:00.123", "2026-11-26T09:00:00.123"),
        ("06 Nov 2026 09:00:00,1", "2026-11-06T09:00:00.100"),
        ("Thu, 26 Nov 2026 09:00:00 -0130", "2026-11-26T10:30:00"),
        ("Fri Nov  6 09:00:00 GMT 2026", "2026-11-06T09:00:00"),
    ],
)
def test_times_tell_themselves_wherever_a_field_holds_them(text: str, at: str) -> None:
    expected = [datetime.datetime.fromisoformat(at)]
    for format, line in (("json", f'{{"ts":"{text}"}}'), ("logfmt", f'ts="{text}" a=1'), ("csv", f'ts,a\n"{text}",1')):
        assert parse_chunk(make_format(format, zone=UTC), line.encode(), {}).events["ts"].to_list() == expected, format


def test_a_leap_second_is_the_next_one() -> None:
    assert is_whole_time(NOTATIONS["iso"], b"2016-12-31T23:59:60Z") == 1_483_228_800_000


@given(st.binary(max_size=40))
def test_no_bytes_are_more_than_a_time_or_none(data: bytes) -> None:
    for notation in NOTATIONS.values():
        found = read_time(notation, data, 0)
        assert found is None or (EARLIEST_MS <= found[0] <= LATEST_MS and 0 < found[1] <= len(data))


@pytest.mark.parametrize("text", ["%E", "%c", "%", "%H:%Q"])
def test_codes_that_need_a_locale_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="of the time's format is not read"):
        compiled_time(text)
