"""Whom the master of a job tells of its versions, and who it asks before the job ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agents.errors import ElfError, UnavailableError, UnknownJobError
from agents.parts.gathering import Answer
from agents.parts.telling import Telling
from agents.publishing.locating import JobRequest
from agents.requests import Describe, JobRecord
from overlay.contract import NEVER
from tests.agents.parts.test_adopting import FIRST, PART, followed, told


async def test_the_source_and_all_parts_are_told_even_if_one_cannot_be() -> None:
    asked: list[tuple[str, Any]] = []
    spread: list[JobRecord] = []

    async def ask(key: str, request: JobRequest, timeout_ms: int) -> Answer:
        asked.append((key, request))
        if key.endswith("#1"):
            raise UnavailableError("away")
        return 2, []

    async def spreads(job: JobRecord) -> bool:
        spread.append(job)
        return True

    telling, versions = Telling(spreads, ask), told().versions
    await telling.tell(FIRST)
    assert not asked, "who was never changed has nothing to tell"
    changed = replace(FIRST, definition=versions[-1].definition, versions=versions)
    with pytest.raises(UnavailableError, match="away"):
        await telling.tell(changed)
    apps = [FIRST.definition.app_of(part) for part in (1, 2)]
    assert [key for key, _ in asked] == ["shop/job#1", "shop/job#2"]
    assert [(each.app, each.publication, each.versions) for _, each in asked] == [
        (app, "one", versions) for app in apps
    ]
    asked.clear()
    await telling.tell(replace(changed, stopped=True))
    part = replace(
        PART, definition=replace(changed.definition, part=2), versions=followed(PART, changed, NEVER).versions
    )
    await telling.tell(part)
    assert not asked and len(spread) == 4


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"trees": 3, "published_ms": 0, "backfill": {"instance": "one"}}, False),
        ({"trees": 3, "published_ms": 0, "backfill": {"instance": "two"}}, True),
        (UnknownJobError("shop/job", ()), True),
        (UnavailableError("away"), None),
        ("nonsense", None),
    ],
    ids=["the same", "another", "gone", "away", "nonsense"],
)
async def test_a_part_ends_once_the_first_one_has(answer: Any, expected: bool | None) -> None:
    async def ask(key: str, request: JobRequest, timeout_ms: int) -> Answer:
        assert (key, request) == ("shop/job", Describe(FIRST.definition.app_id))
        if isinstance(answer, ElfError):
            raise answer
        return answer, []

    async def spreads(job: JobRecord) -> bool:
        pytest.fail("nobody is told")

    telling = Telling(spreads, ask)
    assert await telling.is_over(FIRST), "it asks nobody"
    if expected is None:
        with pytest.raises(UnavailableError):
            await telling.is_over(PART)
    else:
        assert await telling.is_over(PART) is expected
