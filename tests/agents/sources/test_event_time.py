from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.instants import EARLIEST_MS, LATEST_MS
from elf.agents.sources.event_time import epoch, fixed, from_values, iso, web_server
from elf.agents.sources.times.notations import NO_TIME

MOMENTS = st.datetimes() | st.datetimes(max_value=datetime(1, 1, 2)) | st.datetimes(datetime(9999, 12, 31))
OFFSETS = st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def milliseconds(moment: datetime) -> int:
    """A time as it is read: none if its offset takes it out of the years that there are."""
    at_ms = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return at_ms if EARLIEST_MS <= at_ms <= LATEST_MS else NO_TIME


@st.composite
def written(draw: st.DrawFn) -> tuple[str, int]:
    """A time in one of the ways programs write it, and its milliseconds."""
    moment = draw(MOMENTS)
    digits = draw(st.integers(0, 9))
    fraction = f"{moment.microsecond:06}000"[:digits]
    kept = moment.replace(microsecond=int(f"{fraction:0<6}"[:6]))
    style = draw(st.sampled_from(["Z", "z", "", "+hh:mm", "+hhmm", "+hh"]))
    offset = draw(OFFSETS) if style.startswith("+") else UTC
    if style == "+hh":
        offset = timezone(timedelta(hours=draw(st.integers(-18, 18))))
    sign = "-" if offset.utcoffset(None) < timedelta() else "+"
    hours, minutes = divmod(abs(offset.utcoffset(None)) // timedelta(minutes=1), 60)
    zone = {"+hh:mm": f"{sign}{hours:02}:{minutes:02}", "+hhmm": f"{sign}{hours:02}{minutes:02}"}.get(style, style)
    zone = f"{sign}{hours:02}" if style == "+hh" else zone
    text = f"{kept:%H:%M:%S}{'.' * bool(digits)}{fraction}{zone}"
    date = f"{kept.year:04}-{kept.month:02}-{kept.day:02}"
    return f"{date}{draw(st.sampled_from('T t'))}{text}", milliseconds(kept.replace(tzinfo=offset))


@given(st.lists(written(), max_size=20))
def test_iso_reads_what_datetime_writes(times: list[tuple[str, int]]) -> None:
    assert iso([text for text, _ in times]).tolist() == [at for _, at in times]


@given(st.lists(written(), min_size=1, max_size=5), st.integers(1, 5))
def test_runs_of_equal_minutes(times: list[tuple[str, int]], repeats: int) -> None:
    repeated = [pair for pair in times for _ in range(repeats)]
    assert iso([text for text, _ in repeated]).tolist() == [at for _, at in repeated]


@given(st.lists(written(), max_size=5), st.integers(1, 5), st.integers(0, 3))
def test_rows_of_a_matrix(times: list[tuple[str, int]], repeats: int, before: int) -> None:
    # Of each length apart, behind other columns, neighbours alike and different, and some that are no times.
    for length in {0, 7, *(len(text) for text, _ in times)}:
        same = [pair for pair in times if len(pair[0]) == length] + [("x" * length, NO_TIME)]
        repeated = [pair for pair in same for _ in range(repeats)]
        text = "".join(f"{'y' * before}{text}," for text, _ in repeated).encode()
        matrix = np.frombuffer(text, np.uint8).reshape(len(repeated), before + length + 1)
        assert fixed(matrix[:, before:]).tolist() == [at for _, at in repeated]


@given(written(), st.integers(0, 40), st.characters(codec="utf-8"))
def test_one_wrong_character_is_never_read_as_a_near_miss(time: tuple[str, int], place: int, wrong: str) -> None:
    text = time[0]
    place %= len(text)
    changed = text[:place] + wrong + text[place + 1 :]
    (at,) = iso([changed]).tolist()
    if at != NO_TIME:
        normal = changed.replace("t", "T").replace("z", "Z")
        head, _, fraction = normal.partition(".")
        digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
        normal = f"{head}.{digits[:6]:0<6}{fraction[len(digits) :]}" if digits else normal
        moment = datetime.fromisoformat(normal)
        assert at == milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-20",
        "2026-11-20T10:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T10:00:60Z",
        "2026-11-20T10:00:00.Z",
        "2026-11-20T10:00:00.1234567890Z",
        "2026-11-20T10:00:00+19:00",
        "2026-11-20T10:00:00 UTC",
        "0000-01-01T00:00:00Z",
        "+026-11-20T10:00:00Z",
        "２026-11-20T10:00:00Z",  # noqa: RUF001  a digit, but not one of ours
        "2026-11-20T10:00:00Z\n",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert iso([text, "2026-11-20T10:00:00Z"]).tolist() == [NO_TIME, 1_795_168_800_000]


def test_texts_that_only_together_look_like_times() -> None:
    first = "2026-11-20T10:00:00.123Z"
    assert iso([first + first[:-3], "23Z"]).tolist() == [NO_TIME, NO_TIME]
    assert iso([f"{first}\n{first}", ""]).tolist() == [NO_TIME, NO_TIME]


def test_units() -> None:
    assert iso(["1970-01-01T00:00:01.123456789Z"], unit=1_000_000).tolist() == [1_123_456]
    assert iso(["1969-12-31T23:59:59.999Z"]).tolist() == [-1]


def test_epoch_seconds_and_milliseconds() -> None:
    values = [1_763_632_800, 1_763_632_800.123, 1_763_632_800_123, 0, -1.5, None, float("inf"), 1e300, 10**400]
    expected = [1_763_632_800_000, 1_763_632_800_123, 1_763_632_800_123, 0, -1_500] + [NO_TIME] * 4
    assert epoch(values).tolist() == expected


@given(st.lists(st.integers() | st.floats() | st.integers(-(10**15), 10**15), max_size=8))
def test_no_number_is_a_time_outside_the_years_1_to_9999(numbers: list[float]) -> None:
    for unit in (1_000, 1_000_000):
        times = epoch(numbers, unit)
        times = times[times != NO_TIME] * 1_000 // unit
        assert ((times >= EARLIEST_MS) & (times <= LATEST_MS)).all()


def test_texts_numbers_and_others_mixed() -> None:
    times, valid = from_values(["1970-01-01T00:00:00Z", 5, None, True, 2.5, "x"])
    assert times[valid].tolist() == [0, 5_000, 2_500]
    assert valid.tolist() == [True, True, False, False, True, False]


@given(st.lists(st.tuples(MOMENTS, st.integers(-12 * 60, 14 * 60)), max_size=8))
def test_web_server_times(times: list[tuple[datetime, int]]) -> None:
    zoned = [moment.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=offset))) for moment, offset in times]
    texts = [f"{moment.day:02}/{moment:%b}/{moment.year:04}:{moment:%H:%M:%S %z}" for moment in zoned]
    assert web_server(texts).tolist() == [milliseconds(moment) for moment in zoned]


def test_web_server_times_that_are_none() -> None:
    assert web_server(["", "31/Feb/2026:10:00:00 +0000", "01/Foo/2026:10:00:00 +0000"]).tolist() == [NO_TIME] * 3
