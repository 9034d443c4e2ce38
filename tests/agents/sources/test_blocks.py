"""Events too far ahead of the clock: rejected, by every kind of format, with a reason and a count of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.language.types import SqlType
from elf.agents.sources.blocks import AHEAD
from elf.agents.sources.counters import REJECTS_MAX, Counters, Parsed
from elf.agents.sources.format import make_format
from elf.agents.sources.times.zones import UTC

#: A format, the column with the number of an event, and lines of three events: at noon, a second and a day later.
_DAYS = (("2026-11-26", "12:00:00"), ("2026-11-26", "12:00:01"), ("2026-11-27", "12:00:00"))
_NOON_MS = 1_795_694_400_000


def _lines(template: str) -> str:
    return "".join(template.format(n=n, day=day, time=time) + "\n" for n, (day, time) in enumerate(_DAYS))


_APACHE = '1.2.3.4 - - [{}/Nov/2026:{} +0000] "GET / HTTP/1.1" 200 {}\n'
LINES = {
    "json": ("n", _lines('{{"ts": "{day}T{time}Z", "n": {n}}}')),
    "common": ("bytes", "".join(_APACHE.format(day[-2:], time, n) for n, (day, time) in enumerate(_DAYS))),
    "ltsv": ("n", _lines("time:{day}T{time}Z\tn:{n}")),
    "logfmt": ("n", _lines("time={day}T{time}Z n={n}")),
    "csv": ("n", "time,n\n" + _lines("{day}T{time}Z,{n}")),
    # What stands in a wrapper has its own time: that of the wrapper is as far ahead as it likes.
    "cri+json": ("n", _lines('2099-01-01T00:00:00Z stdout F {{"ts": "{day}T{time}Z", "n": {n}}}')),
    "cri": ("message", _lines("{day}T{time}Z stdout F {n}")),
    "docker+json": (
        "n",
        _lines(
            '{{"log": "{{\\"ts\\": \\"{day}T{time}Z\\", \\"n\\": {n}}}\\n", "stream": "stdout", '
            '"time": "2099-01-01T00:00:00Z"}}'
        ),
    ),
}


def parsed(name: str, latest_ms: int) -> tuple[list[int], Parsed]:
    column, lines = LINES[name]
    time = "ts" if "json" in name else "time"
    format = make_format(name, time=time, zone=UTC)
    kept = replace(format.keep(lines.encode()), latest_ms=latest_ms)
    found = format.parse(kept, {column: SqlType.BIGINT})
    return found.events[column].to_list(), found


@pytest.mark.parametrize("name", LINES)
def test_a_line_ahead_of_the_latest_time_is_rejected_and_counted_with_its_reason(name: str) -> None:
    numbers, found = parsed(name, _NOON_MS + 1_000)
    assert numbers == [0, 1], found.rejects
    assert (found.counters.rejected, found.counters.ahead) == (1, 1)
    assert found.counters.balanced
    ((line, reason),) = found.rejects
    assert reason == AHEAD
    assert b"2" in line


@pytest.mark.parametrize("name", LINES)
def test_with_no_bound_none_is(name: str) -> None:
    format = make_format(name, time="ts" if "json" in name else "time", zone=UTC)
    column, lines = LINES[name]
    found = format.parse(format.keep(lines.encode()), {column: SqlType.BIGINT})
    assert (found.events.height, found.counters.rejected, found.counters.ahead) == (3, 0, 0)


@given(st.lists(st.integers(-10, 10), max_size=300), st.integers(-10, 10))
def test_of_any_lines_those_are_events_that_are_not_later(after_s: list[int], latest_s: int) -> None:
    lines = "".join(f'{{"ts": {(_NOON_MS + s * 1_000) // 1_000}, "n": "x"}}\n' for s in after_s)
    format = make_format("json")
    kept = replace(format.keep(lines.encode()), latest_ms=_NOON_MS + latest_s * 1_000)
    found = format.parse(kept, {"n": SqlType.BIGINT})
    late = sum(s > latest_s for s in after_s)
    assert found.counters == Counters(len(after_s), len(after_s) - late, late, ahead=late)
    assert len(found.rejects) == min(late, REJECTS_MAX)
    # Values that do not fit are counted of events only.
    assert found.oddities.mistyped.get("n", 0) == len(after_s) - late
    # A half of the lines knows the bound, too.
    if kept.count > 1:
        assert sum(format.parse(half, {}).counters.ahead for half in kept.halves()) == late
