"""What an agent makes of the answers of all the agents it knows."""

from __future__ import annotations

import itertools

from agents.asking import newest


def row(name: str, master: str, published_ms: int) -> dict[str, object]:
    return {"creator": "shop", "name": name, "app_id": name, "master": master, "published_ms": published_ms}


def test_of_two_publications_of_a_job_the_newer_is_listed_whoever_answers_first() -> None:
    """An agent that still named the master of before the stop hid the running job from a query."""
    old, new, other = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.2:4250", 2), row("best", "10.0.0.3:4250", 0)
    for answers in itertools.permutations([[old], [new, other], [other, old], []]):
        assert newest(answers) == [other, new]
