"""Whom a window's label names because they heard of a version too late."""

from __future__ import annotations

import pytest

from elf.agents.completeness.lacks import Cause, Lack
from elf.agents.master.version_uptake import NEVER_YET, begun, paused, taking_part, with_since
from elf.overlay.contract import NEVER
from tests.agents.master.backfilled import FEWER, SUMMED, history

BOTH = ("w1", "w2")
AGENTS = dict.fromkeys(BOTH, NEVER_YET)
#: 2 counts something else from 50 on; 3 and 4 are of its PAOs, and 3 has no interval of its own.
CHANGED = history(
    ("publish", SUMMED, NEVER, NEVER, 0),
    ("update", FEWER, 50, 50, 2),
    ("update", FEWER, 50, 50, 2),
    ("update", FEWER, 53, 50, 2),
    ("pause", FEWER, 60, 50, 2),
    ("resume", FEWER, 62, 50, 2),
    ("reset", FEWER, 70, 70, 7),
)
TIMELY = {number: dict.fromkeys(BOTH, since) for number, since in ((2, 50), (6, 62), (7, 70))}


@pytest.mark.parametrize(
    ("first", "last", "named"), [(40, 49, ()), (50, 52, ()), (52, 69, ()), (70, 71, ()), (49, 50, BOTH), (69, 70, BOTH)]
)
def test_who_heard_in_time_is_named_where_a_window_reaches_back_only(
    first: int, last: int, named: tuple[str, ...]
) -> None:
    assert {lack.agent for lack in begun(TIMELY, AGENTS, CHANGED, first, last)} == set(named)


@pytest.mark.parametrize("told", [55, NEVER_YET])
def test_who_heard_too_late_is_named_until_it_counts_whatever_version_followed_meanwhile(told: int) -> None:
    since = {**TIMELY, 2: {"w1": 50} if told == NEVER_YET else {"w1": 50, "w2": told}}
    for at in range(50, 70):
        assert begun(since, AGENTS, CHANGED, at, at) == ([Lack("w2", at, told - 1, Cause.VERSION)] if at < told else [])
    assert begun(since, AGENTS, CHANGED, 70, 72) == [] and begun(since, AGENTS, CHANGED, 45, 49) == []


def test_who_goes_on_too_late_after_a_pause_is_named_from_there() -> None:
    since = {**TIMELY, 6: {"w1": 65, "w2": 62}}
    named = {at: [lack.agent for lack in begun(since, AGENTS, CHANGED, at, at)] for at in range(58, 68)}
    assert named == {at: ["w1"] if 62 <= at < 65 else [] for at in named}


def test_who_is_gone_is_named_still_in_what_it_may_have_counted_otherwise() -> None:
    since = {**TIMELY, 2: {"w1": 50, "w2": 56}}
    agents = taking_part(["w1"], {"w2": 53}, {"w3": 51, "w1": 3})
    assert agents == {"w1": NEVER_YET, "w2": 53, "w3": 51}
    named = {at: {lack.agent for lack in begun(since, agents, CHANGED, at, at)} for at in range(48, 58)}
    assert named == {at: {agent for agent, until in (("w3", 51), ("w2", 53)) if 50 <= at <= until} for at in named}


def test_what_is_told_of_versions_that_are_forgotten_is_forgotten() -> None:
    told = {"w1": {2: 51, 5: 60, 9: 99}, "w2": {7: 70}}
    assert with_since({2: {"w2": 50}, 1: {"w2": 3}}, told, CHANGED) == {2: {"w1": 51, "w2": 50}, 6: {}, 7: {"w2": 70}}


def test_intervals_of_pauses_are_counted() -> None:
    assert [paused(CHANGED, *run) for run in ((NEVER, 59), (59, 60), (58, 65), (60, 61), (61, 90))] == [0, 1, 2, 1, 0]
