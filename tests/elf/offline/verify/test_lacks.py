"""What a label says that a result lacks: found by halves, down to single intervals."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elf.offline.verify.lacks import QUESTIONS_MAX, Lack, joined, lacks_of

STEP_MS = 10
Hidden = set[tuple[str, int]]


def label_of(hidden: Hidden, start_ms: int, end_ms: int, void: frozenset[int] = frozenset()) -> dict[str, Any]:
    """What a master says of a run of intervals."""
    intervals = range(start_ms // STEP_MS, end_ms // STEP_MS)
    missing = sorted({agent for agent, interval in hidden if interval in intervals})
    return {"expected": 3, "reported": 3 - len(missing), "missing": missing, "void": len(void & {*intervals})}


@given(st.sets(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 29))), st.frozensets(st.integers(0, 29)))
def test_whoever_is_missing_is_found_with_the_intervals(hidden: Hidden, void: frozenset[int]) -> None:
    asked = []

    def ask(start_ms: int, end_ms: int) -> dict[str, Any]:
        asked.append((start_ms, end_ms))
        return label_of(hidden, start_ms, end_ms, void)

    window = (0, 30 * STEP_MS)
    lacks = lacks_of(window, ask(*window), ask, STEP_MS)
    named = {
        (lack.agent, at // STEP_MS) for lack in lacks for at in range(lack.start_ms, lack.end_ms, STEP_MS) if lack.agent
    }
    voided = {at // STEP_MS for lack in lacks if not lack.agent for at in range(lack.start_ms, lack.end_ms, STEP_MS)}
    assert named == hidden and voided == void
    assert all(lack.certain for lack in lacks)
    assert joined(lacks) == lacks
    assert len(asked) <= 1 + 2 * 30 and len(set(asked)) == len(asked)


def test_without_anybody_to_ask_the_whole_window_is_taken() -> None:
    label = label_of({("b", 2)}, 0, 50)
    assert lacks_of((0, 50), label, None, STEP_MS) == [Lack(0, 50, "b", True, "missing")]


def test_questions_are_bounded_and_what_is_left_is_pessimistic() -> None:
    hidden = {("a", interval) for interval in range(0, 2_000, 2)}
    asked = 0

    def ask(start_ms: int, end_ms: int) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return label_of(hidden, start_ms, end_ms)

    lacks = lacks_of((0, 20_000), label_of(hidden, 0, 20_000), ask, STEP_MS)
    assert asked <= QUESTIONS_MAX
    assert all(any(lack.touches("a", at * STEP_MS, at * STEP_MS + 1) for lack in lacks) for _, at in hidden)


def test_gaps_and_agents_that_nobody_names_may_be_anybodys() -> None:
    gap = lacks_of((0, 10), {"expected": 2, "reported": 2, "gaps": 1}, None, STEP_MS)
    assert gap == [Lack(0, 10, "", False, "gaps")]
    assert gap[0].touches("anybody", 9, 10) and not gap[0].touches("anybody", 10, 11)
    assert lacks_of((0, 10), {"expected": 2, "reported": 1}, None, STEP_MS)[0].why == "unnamed agents"
    assert lacks_of((0, 10), {"expected": 2, "reported": 2, "late": 3}, None, STEP_MS) == [], "late events are in"
