from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.agents.sources.times.notations import EARLIEST_MS, LATEST_MS, NOTATIONS, days_of, is_whole_time, read_time
from elf.agents.sources.times.strftime import compiled_time

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
