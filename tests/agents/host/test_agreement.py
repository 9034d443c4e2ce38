"""What neighbours' clocks say: the middle counts, the earlier of two; and agents that compare keep to the true time."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.host.agreement import (
    EARLIEST_MS,
    FRESH_MS,
    HELD_MS,
    KEPT_MS,
    READINGS_MAX,
    ROUND_TRIP_MS_MAX,
    Agreement,
)
from elf.agents.host.clock import AHEAD_MS, Clock, Doubt

BASE_MS = 1_767_225_600_000


def said(own_ms: int, *others_ms: int) -> int | None:
    agreement = Agreement()
    for number, other_ms in enumerate(others_ms):
        agreement.note(f"agent {number}", BASE_MS + other_ms + 10, 0, 20)
    offset_ms = agreement.offset_ms(BASE_MS + own_ms, 20)
    return None if offset_ms is None else offset_ms - BASE_MS


@pytest.mark.parametrize(
    ("own_ms", "others_ms", "agreed_ms"),
    [
        (120_000, (), None),
        (120_000, (0,), 0),
        (0, (120_000,), 0),
        (120_000, (0, 0), 0),
        (0, (0, 120_000), 0),
        (0, (0, -3_600_000), 0),
        (120_000, (0, 1, 120_000), 1),
        (0, (0, 5, -120_000), 0),
        (-120_000, (0, 1), 0),
    ],
)
def test_the_middle_counts_and_the_earlier_of_two(own_ms: int, others_ms: tuple[int, ...], agreed_ms: int) -> None:
    assert said(own_ms, *others_ms) == agreed_ms


def test_what_says_too_little_or_nonsense_moves_nothing() -> None:
    agreement = Agreement()
    agreement.note("slow", BASE_MS, 0, ROUND_TRIP_MS_MAX + 1)
    agreement.note("without a battery", EARLIEST_MS - 1, 0, 1)
    agreement.note("of an earlier release", None, 0, 1)
    assert agreement.offset_ms(BASE_MS, 1) is None
    assert not agreement.holds(True, 1), "they have answered: there is nothing to wait for"
    for number in range(10 * READINGS_MAX):
        agreement.note(f"agent {number}", BASE_MS, 0, 0)
    assert len(agreement._said) == READINGS_MAX


def test_what_was_said_counts_for_a_while_whatever_our_clock_does() -> None:
    agreement = Agreement()
    agreement.note("other", BASE_MS + 5, 0, 10)
    assert agreement.offset_ms(BASE_MS + 1, 10) == BASE_MS
    assert agreement.offset_ms(BASE_MS + 3_600_000, 10 + FRESH_MS) == BASE_MS
    assert agreement.offset_ms(BASE_MS + 3_600_000, 10 + FRESH_MS + KEPT_MS) == BASE_MS
    assert agreement.offset_ms(BASE_MS + 3_600_000, 11 + FRESH_MS + KEPT_MS) is None


def test_nothing_is_closed_before_a_neighbour_was_heard_or_waited_for() -> None:
    agreement = Agreement()
    assert not agreement.holds(False, 5), "alone, there is nobody to wait for"
    assert agreement.holds(True, 10)
    assert agreement.holds(False, 9 + HELD_MS), "one that was known may be back"
    assert not agreement.holds(True, 10 + HELD_MS)
    agreement = Agreement()
    assert agreement.holds(True, 10)
    agreement.note("other", BASE_MS, 10, 11)
    assert not agreement.holds(True, 11)


class Machine:
    """An agent's clock on a machine whose time of day somebody sets, and what it has closed intervals up to."""

    def __init__(self, rng: random.Random, off_ms: int) -> None:
        self.off_ms, self.true_ms, self.boot_ms = off_ms, BASE_MS, rng.randrange(1_000_000)
        self.agreement, self.closed_ms = Agreement(), 0
        self.clock = Clock(lambda: self.true_ms + self.off_ms, lambda: self.true_ms - BASE_MS + self.boot_ms)
        self.clock.is_held = self.agreement.holds(True, self.clock.up_ms())

    def compare(self, others: list["Machine"], rng: random.Random) -> None:
        now_ms = self.clock.up_ms()
        for number, other in enumerate(others):
            there_ms, back_ms = rng.randrange(700), rng.randrange(700)
            self.agreement.note(str(number), other.clock.wall_ms() - back_ms, now_ms - there_ms - back_ms, now_ms)
        self.clock.heed(self.agreement.offset_ms(self.clock.wall_ms() - now_ms, now_ms))
        self.clock.is_held = self.agreement.holds(True, now_ms)

    def close(self) -> None:
        """What the pump does."""
        if self.clock.doubt() is not Doubt.UNHEARD:
            self.closed_ms = self.clock()
            self.clock.advance_to(self.closed_ms)


@settings(deadline=None, max_examples=60)
@given(
    st.randoms(use_true_random=False),
    st.integers(2, 7),
    st.integers(AHEAD_MS, 86_400_000) | st.integers(-86_400_000, 0),
    st.booleans(),
)
def test_while_less_than_half_of_the_clocks_that_are_heard_are_wrong_nobody_closes_what_has_not_been(
    rng: random.Random, count: int, off_ms: int, from_start: bool
) -> None:
    """Of two, one may be ahead; a wrong one that is behind delays the other, which then may be taken for ahead."""
    wrong = rng.sample(range(count), 1 if count == 2 else (count - 1) // 2)
    machines = [Machine(rng, off_ms if from_start and number in wrong else 0) for number in range(count)]
    for second in range(120):
        for number, machine in enumerate(machines):
            machine.true_ms += 1_000
            if not from_start and second == 60 and number in wrong:
                machine.off_ms = off_ms
            if second == 90:
                machine.off_ms = 0
            machine.close()
            assert machine.closed_ms <= machine.true_ms + AHEAD_MS + 350, f"{machine.closed_ms - machine.true_ms} ms"
            if second % 5 == number % 5:
                machine.compare([other for other in machines if other is not machine], rng)
    if off_ms > 0:
        assert all(machine.closed_ms >= machine.true_ms - AHEAD_MS for machine in machines), "all goes on"
