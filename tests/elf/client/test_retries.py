"""What is asked again, whom, when, and that it ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.client.retries import (
    PAUSE_S,
    PAUSE_S_MAX,
    SPREAD,
    Course,
    Failure,
    Repeat,
    Trouble,
    read_retry_after,
    trouble_of_status,
)

SEEDS = st.integers(0, 1_000).map(random.Random)
#: What an agent does, and how long it takes, if it may.
TRIES = st.tuples(
    st.sampled_from([Trouble.UNTAKEN, Trouble.AWAY, Trouble.BROKEN]),
    st.none() | st.integers(0, 30).map(float),
    st.floats(0, 30),
)


@given(st.integers(1, 4), st.data(), st.floats(0.01, 60), SEEDS)
def test_it_ends_in_time_and_all_agents_have_their_turn(
    agents: int, data: st.DataObject, timeout_s: float, rng: random.Random
) -> None:
    course = Course(agents, data.draw(st.integers(0, agents - 1)), Repeat.ALWAYS, 100.0, 100.0 + timeout_s)
    now_s, ready_s = 100.0, dict.fromkeys(range(agents), 0.0)
    for _ in range(40):
        trouble, retry_after_s, takes_s = data.draw(TRIES)
        assert now_s >= ready_s[course.agent], "nobody is asked before the time that it has said"
        asked, limit_s = course.agent, course.limit_s(now_s)
        assert 0 <= now_s + limit_s <= course.end_s + 1e-9
        if any(tries == 0 for agent, tries in enumerate(course.tries) if agent != asked):
            assert now_s + limit_s < course.end_s, "something is left for the others"
        now_s += min(takes_s, limit_s)
        ready_s[asked] = now_s + (retry_after_s or 0.0)
        pause_s = course.failed(Failure(trouble, retry_after_s), now_s, rng)
        if pause_s is None:
            break
        assert pause_s >= 0 and now_s + pause_s < course.end_s
        now_s += pause_s
        assert min(course.tries) > 0 or course.tries[course.agent] == 0, "who never was asked comes first"
    else:
        assert now_s < course.end_s
    assert sum(course.tries) <= 40


@given(st.floats(2, 60), SEEDS)
def test_an_agent_that_is_not_there_is_asked_until_shortly_before_the_end(timeout_s: float, rng: random.Random) -> None:
    course, now_s, pauses = Course(1, 0, Repeat.ALWAYS, 0.0, timeout_s), 0.0, []
    while (pause_s := course.failed(Failure(Trouble.UNTAKEN), now_s, rng)) is not None:
        pauses.append(pause_s)
        now_s += pause_s
    assert now_s >= timeout_s - PAUSE_S_MAX
    assert max(pauses) <= PAUSE_S_MAX and len(pauses) <= 2 * timeout_s / PAUSE_S_MAX + 5
    assert 0.05 <= pauses[0] <= 0.1, "and at first soon"


@given(st.integers(0, 9), SEEDS)
def test_what_the_server_says_is_waited_for(seconds: int, rng: random.Random) -> None:
    course = Course(1, 0, Repeat.ALWAYS, 0.0, 30.0)
    pause_s = course.failed(Failure(Trouble.AWAY, float(seconds)), 0.0, rng)
    assert pause_s is not None and seconds <= pause_s <= max(seconds * (1 + SPREAD), PAUSE_S)
    assert pause_s > 0, "0 is no leave to ask without a pause"


def test_a_server_that_says_to_come_after_the_end_is_not_waited_for() -> None:
    rng = random.Random(1)
    assert Course(1, 0, Repeat.ALWAYS, 0.0, 5.0).failed(Failure(Trouble.AWAY, 5.0), 0.0, rng) is None
    course = Course(2, 1, Repeat.ALWAYS, 0.0, 5.0)
    assert (course.failed(Failure(Trouble.AWAY, 5.0), 0.0, rng), course.agent) == (0.0, 0), "but another one is asked"
    assert course.failed(Failure(Trouble.UNTAKEN), 0.0, rng), "and asked again"
    assert course.agent == 0


@given(st.sampled_from(Trouble), st.sampled_from(Repeat), st.none() | st.just(1.0), SEEDS)
def test_only_what_may_be_is_asked_again(
    trouble: Trouble, repeat: Repeat, retry_after_s: float | None, rng: random.Random
) -> None:
    pause_s = Course(2, 0, repeat, 0.0, 30.0).failed(Failure(trouble, retry_after_s), 0.0, rng)
    may_be = {
        Trouble.UNTAKEN: {*Repeat},
        Trouble.BROKEN: {Repeat.ALWAYS, Repeat.UNANSWERED},
        Trouble.AWAY: {Repeat.ALWAYS},
        Trouble.FINAL: set(),
    }
    assert (pause_s is not None) == (repeat in may_be[trouble])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 500, 501])
def test_what_is_wrong_stays_wrong(status: int) -> None:
    assert trouble_of_status(status) is Trouble.FINAL


def test_what_is_away_may_come_back() -> None:
    assert {trouble_of_status(status) for status in (429, 502, 503, 504)} == {Trouble.AWAY}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("12", 12.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 400, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_the_header_is_seconds(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text) == seconds
