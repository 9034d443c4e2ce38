"""How long functions may take: a burst, a little for each event, and a tenth of the time from then on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.extensions.signed.allowance import (
    BURST_S,
    EVENT_S,
    FAILURES_FIRST_MAX,
    FAILURES_MAX,
    RETURNED,
    Allowance,
)

SECONDS = st.floats(0, 3, allow_nan=False)
CALLS = st.lists(st.tuples(st.integers(1, 100_000), SECONDS, SECONDS, SECONDS), max_size=50)


@given(CALLS)
def test_no_more_is_spent_than_there_was_and_nobody_is_granted_less_than_nothing(
    calls: list[tuple[int, float, float, float]],
) -> None:
    allowance, now_s, spent_s = Allowance(0.0), 0.0, 0.0
    for rows, pause_s, used_s, idle_s in calls:
        now_s += pause_s
        granted_s = allowance.grant(rows, now_s)
        assert EVENT_S * rows < granted_s <= BURST_S + EVENT_S * rows + 1e-9
        spent_s += max(0.0, used_s + idle_s - EVENT_S * rows)
        goes_on = allowance.spend(rows, used_s, idle_s)
        assert goes_on or used_s + idle_s > granted_s - 1e-9
        if not goes_on:
            return
        assert spent_s <= BURST_S + RETURNED * now_s + 1e-6


def test_what_takes_a_tenth_of_the_time_goes_on_for_ever_and_what_takes_more_does_not() -> None:
    def seconds(used_s: float) -> int:
        allowance = Allowance(0.0)
        for second in range(1_000):
            allowance.grant(1, float(second))
            if not allowance.spend(1, used_s, 0.0):
                return second
        return 1_000

    assert (seconds(0.09), seconds(0.3)) == (1_000, 4)


def test_functions_that_never_answer_are_given_up_sooner_than_those_that_have() -> None:
    def failures(allowance: Allowance) -> int:
        return next(count for count in range(1, 10_000) if not allowance.fail(1, 1))

    assert failures(Allowance(0.0)) == FAILURES_FIRST_MAX
    answered = Allowance(0.0)
    assert answered.fail(40, 39)
    assert failures(answered) == FAILURES_MAX
