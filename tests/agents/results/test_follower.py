"""Following a job's master while, for a time, only one side of its root group answers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from elf.agents.jobs.parts import Part
from elf.agents.results.follower import Following
from elf.agents.results.gatherer import Gathering
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.questions import Follow

JOB = Part("shop", "sold")


class Masters:
    """Who answers, one after the other; ends the following when nobody is left."""

    def __init__(self, answers: Sequence[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[Follow] = []

    async def ask(self, key: str, question: Any, timeout_ms: int) -> tuple[Any, list[str]]:
        assert isinstance(question, Follow)
        self.asked.append(question)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0), []


def result(end_ms: int, status: str, through_ms: int) -> dict[str, Any]:
    window = {"start_ms": end_ms - 1_000, "end_ms": end_ms}
    return {"window": window, "through_ms": through_ms, "completeness": {"status": status}, "rows": []}


def own(edition: int, *results: dict[str, Any]) -> dict[str, Any]:
    return {"edition": edition, "results": list(results)}


def of_side(token: str, edition: int, base: tuple[int, int], *results: dict[str, Any]) -> dict[str, Any]:
    return own(edition, *results) | {"side": token, "base": base}


async def followed(*answers: dict[str, Any]) -> tuple[list[Follow], list[Any]]:
    """Follow through these answers; return what was asked, and the positions of what came."""
    masters, positions = Masters(answers), []
    following = Following(masters.ask, Gathering(masters.ask, Catalogue()))
    with contextlib.suppress(EOFError):
        async for _, position in following.results(JOB, None):
            positions.append(position)
    return masters.asked, positions


async def test_the_jobs_own_master_is_asked_from_where_a_side_began() -> None:
    """The follower knows more than the side's copy, which counts again, as partial, what it has not."""
    asked, positions = await followed(
        own(7, result(10_000, "final", 10_000)),
        of_side("ab", 6, (5, 8_000), result(9_000, "partial", 11_000), result(11_000, "partial", 11_000)),
        own(9),
    )
    assert positions == [(7, 10_000), (5, 8_000), (5, 8_000)]
    assert (asked[1].edition, asked[1].after_ms, asked[1].side) == (7, 10_000, None)
    # The side goes on where it was, the job's own master from where its copy was.
    assert (asked[2].edition, asked[2].after_ms, asked[2].side) == (5, 8_000, ("ab", 6, 11_000))


@pytest.mark.parametrize("base", [(5, 8_000), (9, 12_000)])
async def test_a_side_without_news_leaves_the_position_alone(base: tuple[int, int]) -> None:
    asked, positions = await followed(own(7, result(10_000, "final", 10_000)), of_side("ab", 6, base), own(9))
    assert positions == [(7, 10_000)]
    assert (asked[2].edition, asked[2].after_ms) == (7, 10_000)


async def test_a_side_that_begins_ahead_of_the_follower_does_not_move_it_on() -> None:
    asked, _ = await followed(
        own(7, result(10_000, "final", 10_000)),
        of_side("ab", 10, (9, 12_000), result(13_000, "partial", 13_000)),
        own(11),
    )
    assert (asked[2].edition, asked[2].after_ms) == (7, 10_000)


async def test_who_comes_while_one_side_answers_goes_on_from_where_it_began() -> None:
    asked, positions = await followed(of_side("ab", 6, (5, 8_000), result(9_000, "partial", 9_000)), own(9))
    assert positions == [(5, 8_000)]
    assert (asked[1].edition, asked[1].after_ms) == (5, 8_000)
