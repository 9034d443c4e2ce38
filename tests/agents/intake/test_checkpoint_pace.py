"""How often progress is made durable while nothing is sealed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.intake.checkpoint_pace import PAUSES_MAX, SPACING, CheckpointPace


@given(st.integers(1, 10_000), st.integers(0, 100_000), st.integers(0, 10**6))
def test_one_is_due_once_the_last_one_is_paid_for(usual_ms: int, cost_ms: int, after_ms: int) -> None:
    pace = CheckpointPace(usual_ms, 0)
    pace.made(1_000)
    pace.cost(cost_ms)
    now_ms = 1_000 + after_ms
    is_made = pace.may(now_ms) and pace.is_due(now_ms)
    assert not is_made or after_ms >= usual_ms
    assert is_made or after_ms < max(usual_ms, min(SPACING * cost_ms, PAUSES_MAX * usual_ms))


def test_a_clock_that_is_set_back_holds_none_up_for_longer() -> None:
    pace = CheckpointPace(1_000, 50_000)
    pace.cost(10)
    assert not pace.may(10_000) and pace.may(10_200) and pace.is_due(11_000)
