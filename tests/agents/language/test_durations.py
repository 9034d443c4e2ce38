"""Durations in options and windows."""

import pytest

from elf.agents.language.durations import duration, parse_duration_ms, rough_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [("300s", 300_000), ("5 minutes", 300_000), ("500ms", 500), ("1h 30m", 5_400_000), (" 2 Days ", 172_800_000)],
)
def test_what_people_write(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "0s", "5 parsecs", "1.5s", "5s;", "9999999 days", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|hundred years"):
        parse_duration_ms(text)


def test_a_window_takes_only_what_spark_takes() -> None:
    assert parse_duration_ms("interval 1 hour 30 minutes", spark=True) == 5_400_000
    with pytest.raises(ValueError, match="5 minutes"):
        parse_duration_ms("30s", spark=True)


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0 ms"),
        (1_500, "1500 ms"),
        (1_000, "1 second"),
        (90_000, "90 seconds"),
        (3_600_000, "1 hour"),
        (172_800_000, "2 days"),
    ],
)
def test_lengths_of_time_have_their_largest_whole_unit(length_ms: int, text: str) -> None:
    assert duration(length_ms) == text


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0 ms"),
        (3_600_000, "1 hour"),
        (601_000, "10 minutes 1 second"),
        (799_998_000, "about 9 days 6 hours"),
        (1_001, "about 1 second"),
    ],
)
def test_rough_lengths_of_time_have_their_two_largest_units(length_ms: int, text: str) -> None:
    assert rough_duration(length_ms) == text
