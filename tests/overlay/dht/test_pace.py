"""The pace of upkeep: it doubles with every quiet round, halves with every loss, and stays within its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.pace import NEAR_CALM_MAX, DhtTimes, Pace


def test_quiet_rounds_stretch_the_periods_up_to_their_bounds() -> None:
    pace, now, seen = Pace(20, 8, 0), 0, []
    for _ in range(5):
        seen.append((pace.near_ms, pace.far_ms))
        now += pace.far_ms
        pace.tick(now - 1)
        assert seen[-1] == (pace.near_ms, pace.far_ms), "a round is not over early"
        pace.tick(now)
    assert seen == [(20, 20), (40, 40), (40, 80), (40, 160), (40, 160)]


def test_each_loss_halves_the_pace_and_starts_the_round_again() -> None:
    pace = Pace(20, 8, 0)
    for now in (20, 60, 140):
        pace.tick(now)
    assert pace.calm == 8
    pace.disturb(150)
    pace.tick(160)
    assert pace.calm == 4
    for _ in range(9):
        pace.disturb(170)
    assert pace.far_ms == 20


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans())), st.sampled_from([1, 2, 8, 64]))
def test_the_pace_stays_within_its_bounds(steps: list[tuple[int, bool]], calm_max: int) -> None:
    pace, now = Pace(20, calm_max, 0), 0
    for step, loss in steps:
        now += step
        (pace.disturb if loss else pace.tick)(now)
        assert 1 <= pace.calm <= calm_max
        assert 20 <= pace.near_ms <= pace.far_ms <= 20 * calm_max
        assert pace.near_ms <= 20 * NEAR_CALM_MAX


@pytest.mark.parametrize("bad", [{"hedge_ms": 1000}, {"hedge_ms": 0}, {"calm_max": 0}, {"idle_ms": 1000}])
def test_times_must_fit_together(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        DhtTimes(**bad)
