"""How far a source has come in event time while its logs are read in turn."""

from __future__ import annotations

import polars as pl
import pytest

from elf.agents.intake.progress import PAUSE_MS_MAX, TURN_MS_MAX, EventTime

NOW_MS = 1_000_000
BOTH = {"a", "b"}


def read(time: EventTime, log: str, newest_ms: int, now_ms: int) -> None:
    time.reading(now_ms)
    time.note(log, pl.Series([newest_ms]), now_ms)


def test_a_log_that_waits_holds_the_watermark_for_a_turn() -> None:
    time = EventTime(NOW_MS)
    read(time, "b", 500, NOW_MS)
    for at_ms in range(NOW_MS, NOW_MS + TURN_MS_MAX + 1, 500):
        read(time, "a", at_ms, at_ms)
        assert time.watermark_ms(BOTH) == 500
    read(time, "a", at_ms + 500, at_ms + 500)
    assert time.watermark_ms(BOTH) == at_ms + 500, "it has had its turn, and there was nothing in it"


@pytest.mark.parametrize("pause_ms", [TURN_MS_MAX + 1_500, 3_600_000])
def test_a_pause_is_no_turn(pause_ms: int) -> None:
    """A stopped machine, a full disk, a congested tree: nobody was read meanwhile."""
    time = EventTime(NOW_MS)
    read(time, "b", 500, NOW_MS)
    read(time, "a", NOW_MS, NOW_MS)
    back_ms = NOW_MS + pause_ms
    read(time, "a", back_ms, back_ms)
    assert time.watermark_ms(BOTH) == 500
    read(time, "b", 700, back_ms + PAUSE_MS_MAX)
    assert time.watermark_ms(BOTH) == 700


def test_a_log_that_was_never_read_is_waited_for() -> None:
    time = EventTime(NOW_MS)
    read(time, "a", NOW_MS, NOW_MS)
    read(time, "a", NOW_MS, NOW_MS + 60_000)
    assert time.watermark_ms(BOTH) is None
    assert time.watermark_ms({"a"}) == NOW_MS
