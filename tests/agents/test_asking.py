"""What an agent makes of the answers of all the agents it knows."""

from __future__ import annotations

import itertools

from agents.asking import newest


def row(name: str, master: str, published_ms: int, version: int = 1, state: str = "running") -> dict[str, object]:
    job = {"creator": "shop", "name": name, "app_id": name, "master": master, "published_ms": published_ms}
    return {**job, "version": version, "state": state}


def test_of_two_publications_of_a_job_the_newer_is_listed_whoever_answers_first() -> None:
    """An agent that still named the master of before the stop hid the running job from a query."""
    old, new, other = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.2:4250", 2), row("best", "10.0.0.3:4250", 0)
    for answers in itertools.permutations([[old], [new, other], [other, old], []]):
        assert newest(answers) == [other, new]


def test_a_job_is_listed_as_it_was_changed_last_whoever_answers_first() -> None:
    running, stopped = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.1:4250", 1, 2, "stopped")
    ended = {**stopped, "state": "ended"}
    for answers in itertools.permutations([[running], [stopped], [running]]):
        assert newest(answers) == [stopped]
    for answers in itertools.permutations([[running], [stopped], [ended]]):
        assert newest(answers) == [ended]


def test_what_is_wrong_with_a_job_is_told_whoever_says_it() -> None:
    running, stopped = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.1:4250", 1, 2, "stopped")
    troubled, before = {**running, "trouble": "it ticks"}, {**row("top", "10.0.0.1:4250", 0), "trouble": "long ago"}
    for answers in itertools.permutations([[running], [troubled], [stopped], [before]]):
        assert newest(answers) == [{**stopped, "trouble": "it ticks"}]
