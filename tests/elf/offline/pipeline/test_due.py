"""Which windows are touched, and that passes compute each window that waits once, when it has ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.archive.removed import EVER_MS, Span, join_spans
from elf.agents.language.query import Window
from elf.offline.pipeline.due import TOTAL, YEARS_MS, Schedule, without

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair))), max_size=6)
windows = st.tuples(st.integers(1, 6), st.integers(1, 4)).map(lambda pair: Window(pair[0] * pair[1], pair[1]))


def starts_of(waiting: list[Span], slide_ms: int) -> list[int]:
    return [start for first, end in waiting for start in range(first, end, slide_ms)]


@given(spans, windows)
def test_touched_windows_are_those_with_a_moment_of_the_spans(spans: list[Span], window: Window) -> None:
    size, slide = window
    found = starts_of(Schedule(window).touched(spans), slide)
    known = [
        start for start in range(0, 100, slide) if any(start < end and start + size > begin for begin, end in spans)
    ]
    assert found == known


@given(spans, windows, st.integers(0, 90), st.integers(1, 5), st.none() | st.integers(0, 60))
def test_passes_compute_what_is_due_once(
    spans: list[Span], window: Window, ended_ms: int, most: int, since_ms: int | None
) -> None:
    schedule = Schedule(window, since_ms)
    waiting = all_waiting = schedule.touched(spans)
    due = [
        start
        for start in starts_of(waiting, window.slide_ms)
        if start + window.size_ms <= ended_ms and start >= (since_ms or 0)
    ]
    computed: list[int] = []
    while (chosen := schedule.next(waiting, ended_ms, most)) is not None:
        assert schedule.count(waiting, ended_ms) == len(due) - len(computed)
        assert chosen.grid is not None and len(chosen.grid.starts) <= most
        assert (chosen.since_ms, chosen.until_ms) == (chosen.grid.first_ms, chosen.grid.end_ms)
        computed += chosen.grid.starts
        waiting = without(waiting, [chosen.starts])
    assert computed == due
    assert sorted([*computed, *starts_of(waiting, window.slide_ms)]) == starts_of(all_waiting, window.slide_ms)


@given(spans, spans)
def test_without_takes_away_exactly_the_others(spans: list[Span], others: list[Span]) -> None:
    left = without(join_spans(spans), others)
    moments = {moment for start, end in spans for moment in range(start, end)}
    gone = {moment for start, end in others for moment in range(start, end)}
    assert [moment for start, end in left for moment in range(start, end)] == sorted(moments - gone)


def test_times_that_nobody_can_write_down_touch_no_window() -> None:
    schedule = Schedule(Window(1_000, 1_000))
    assert schedule.touched([(EVER_MS, 0), (YEARS_MS[1], YEARS_MS[1] + 5_000)]) == []
    assert schedule.touched([(EVER_MS, 1)]) == [(0, 1_000)]


def test_a_total_waits_if_anything_it_counts_has_changed() -> None:
    schedule = Schedule(None, 50)
    assert schedule.touched([(0, 50)]) == []
    assert schedule.touched([(0, 51), (60, 70)]) == [TOTAL]
    chosen = schedule.next([TOTAL], 0, 1_000)
    assert chosen is not None and chosen.grid is None and (chosen.since_ms, chosen.until_ms) == (50, None)
    assert without([TOTAL], [chosen.starts]) == []
    assert schedule.next([], 0, 1_000) is None
