"""What is said to a whole job goes to as many masters as it has, whatever another agent says that it has."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from elf.agents.errors import JobConflictError, UnavailableError, UnknownJobError
from elf.agents.group.copies import Copies
from elf.agents.group.masters import Masters
from elf.agents.publications.stop import Stopping
from elf.agents.publications.whole_jobs import WholeJobs
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Describe
from elf.overlay.ids import app_id, partition_id


@pytest.mark.parametrize("trees", [0, 65, 1 << 62, "many", None], ids=repr)
async def test_no_agent_makes_another_ask_masters_without_end(trees: object) -> None:
    asked: list[str] = []
    known = True

    async def ask(key: str, request: object, timeout_ms: int) -> tuple[Any, list[str]]:
        asked.append(key)
        if not known:
            raise UnknownJobError(key, ())
        return {"trees": trees}, []

    async def rows() -> list[Json]:
        return [{"creator": "shop", "name": "words", "part": 1, "trees": trees}]

    async def amend(key: str, request: Amend) -> Json:
        pytest.fail("nobody else is asked for anything")

    jobs = WholeJobs(ask, cast(Copies, None), cast(Masters, None), rows)
    stopping = Stopping(ask, amend, rows, random.Random(1))
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await jobs.described("shop", "words")
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await stopping.stop("shop", "words")
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await jobs.leap("shop", "words")
    known = False
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await stopping.stop("shop", "words")
    assert asked == ["shop/words"] * 4


@pytest.mark.parametrize("silent", [{0: ["a"], 2: ["a", "b"]}, {1: ["b"]}, {}], ids=str)
async def test_a_job_leaps_where_any_of_its_parts_waits(silent: dict[int, list[str]]) -> None:
    async def ask(key: str, request: object, timeout_ms: int) -> tuple[Any, list[str]]:
        if isinstance(request, Describe):
            return {"trees": 3}, []
        assert isinstance(request, Leap)
        part = int(key.partition("#")[2] or 0)
        assert request.app == partition_id(app_id("words", "shop"), part)
        if part not in silent:
            raise JobConflictError("nobody keeps it waiting")
        return {"through_ms": 1_000 * part, "agents": silent[part]}, []

    async def rows() -> list[Json]:
        pytest.fail("nobody is asked for a list")

    leap = WholeJobs(ask, cast(Copies, None), cast(Masters, None), rows).leap("shop", "words")
    if not silent:
        with pytest.raises(JobConflictError):
            await leap
        return
    agents = sorted({agent for names in silent.values() for agent in names})
    assert await leap == {"through_ms": 1_000 * max(silent), "agents": agents}


async def test_a_part_that_comes_later_to_where_others_have_leapt_leaps_there_too() -> None:
    asked: list[str] = []

    async def ask(key: str, request: object, timeout_ms: int) -> tuple[Any, list[str]]:
        if isinstance(request, Describe):
            return {"trees": 2}, []
        assert isinstance(request, Leap) and request.until_ms == (1_000 if key in asked else None)
        asked.append(key)
        if key == "shop/words#1" and asked.count(key) < 3:
            raise JobConflictError("nobody keeps it waiting")
        return {"through_ms": 1_000, "agents": ["a"]}, []

    async def rows() -> list[Json]:
        pytest.fail("nobody is asked for a list")

    leap = WholeJobs(ask, cast(Copies, None), cast(Masters, None), rows).leap("shop", "words")
    assert await leap == {"through_ms": 1_000, "agents": ["a"]}
    assert asked == ["shop/words"] + 3 * ["shop/words#1"]
