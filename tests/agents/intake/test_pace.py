"""How soon a source is looked at again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.intake.pace import AFTER_S, BUSY_S, IDLE_LOOKS, POLL_IDLE_S, POLL_S, REST_S_MAX, REST_SHARE, Pace, Pause


def look(
    pace: Pace, at_s: float, *, progressed: bool, is_behind: bool = False, spent_s: float = 0.0, day_s: float = AFTER_S
) -> Pause:
    return pace.after(
        progressed=progressed, is_behind=is_behind, begun_s=at_s, now_s=at_s + spent_s, day_s=day_s + spent_s
    )


@given(st.lists(st.floats(1e9, 2e9), min_size=1, max_size=2 * IDLE_LOOKS))
def test_all_agents_look_at_idle_files_at_the_same_moments(days_s: list[float]) -> None:
    pace = Pace()
    for number, day_s in enumerate(days_s, 1):
        every_s = POLL_S if number < IDLE_LOOKS else POLL_IDLE_S
        pause = look(pace, number, progressed=False, day_s=day_s).seconds
        assert 0 < pause <= every_s
        looks = (day_s + pause - AFTER_S) / every_s
        assert abs(looks - round(looks)) < 1e-4


def test_idle_files_are_looked_at_less_often_after_a_while() -> None:
    pace = Pace()
    pauses = [look(pace, number, progressed=False) for number in range(IDLE_LOOKS + 1)]
    assert {pause.seconds for pause in pauses[: IDLE_LOOKS - 1]} == {POLL_S}
    assert {pause.seconds for pause in pauses[IDLE_LOOKS - 1 :]} == {POLL_IDLE_S}
    assert all(pause.ends_with_news for pause in pauses)
    look(pace, 20, progressed=True)
    assert look(pace, 20, progressed=False).seconds == POLL_S


def test_a_backlog_is_read_without_a_pause() -> None:
    pace = Pace()
    assert all(look(pace, at, progressed=True, is_behind=True) == Pause(0) for at in range(5))


def test_a_line_now_and_then_is_followed_by_a_look_at_the_end() -> None:
    pace = Pace()
    for at in (0.0, 0.2, 0.4, 0.6):
        assert look(pace, at, progressed=True) == Pause(0)
        assert look(pace, at, progressed=False).ends_with_news


def test_lines_that_keep_coming_gather_and_the_end_is_looked_for_again_and_again() -> None:
    pace, now_s, ends_looked_for = Pace(), 0.0, 0
    for _ in range(200):
        pause = look(pace, now_s, progressed=True)
        assert not pause.ends_with_news
        ends_looked_for += pause.seconds == 0
        now_s += pause.seconds
    assert abs(ends_looked_for - now_s / BUSY_S) <= now_s * 0.15
    assert now_s / POLL_S >= 200 - ends_looked_for - 1


@given(st.floats(0, 1e6))
def test_they_gather_for_as_long_as_reading_takes_and_never_for_long(spent_s: float) -> None:
    pace = Pace()
    look(pace, 0, progressed=True)
    pause = look(pace, 0, progressed=True, spent_s=spent_s).seconds
    assert POLL_S <= pause <= REST_S_MAX
    assert pause == REST_S_MAX or pause >= REST_SHARE * spent_s
