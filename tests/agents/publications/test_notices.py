"""Whom the master of a job tells of its versions, and who it asks before the job ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elf.agents.errors import ElfError, UnavailableError, UnknownJobError
from elf.agents.publications.notices import Notices
from elf.agents.results.gatherer import Answered
from elf.agents.results.location import JobRequest
from elf.agents.wire.questions import Describe
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import NEVER
from tests.agents.publications.test_adoption import FIRST, PART, followed, told


async def test_the_source_and_all_parts_are_told_even_if_one_cannot_be() -> None:
    asked: list[tuple[str, Any]] = []
    spread: list[JobRecord] = []

    async def ask(key: str, request: JobRequest, timeout_ms: int) -> Answered:
        asked.append((key, request))
        if key.endswith("#1"):
            raise UnavailableError("away")
        return 2, []

    async def spreads(job: JobRecord) -> bool:
        spread.append(job)
        return True

    notices, versions = Notices(spreads, ask), told().versions
    await notices.tell(FIRST)
    assert not asked, "who was never changed has nothing to tell"
    changed = replace(FIRST, definition=versions[-1].definition, versions=versions)
    with pytest.raises(UnavailableError, match="away"):
        await notices.tell(changed)
    apps = [part.app for part in FIRST.definition.parts[1:3]]
    assert [key for key, _ in asked] == ["shop/job#1", "shop/job#2"]
    assert [(each.app, each.publication, each.versions) for _, each in asked] == [
        (app, "one", versions) for app in apps
    ]
    asked.clear()
    await notices.tell(replace(changed, stopped=True))
    part = replace(
        PART, definition=replace(changed.definition, part=2), versions=followed(PART, changed, NEVER).versions
    )
    await notices.tell(part)
    assert not asked and len(spread) == 4


def described(version: int, instance: str = "one") -> Any:
    return {"version": version, "backfill": {"instance": instance}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (described(1), False),
        (described(1, "two"), True),
        (UnknownJobError("shop/job", ()), True),
        (UnavailableError("away"), None),
        ("nonsense", None),
    ],
    ids=["the same", "another", "gone", "away", "nonsense"],
)
async def test_a_part_ends_once_the_first_one_has(answer: Any, expected: bool | None) -> None:
    assert await _is_over(PART, {"shop/job": (FIRST, answer)}) is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (described(2, "one.2"), True),
        (described(1, "one.2"), False),
        (described(1, "two.2"), True),
        (UnknownJobError("shop/job#2", ()), True),
        (UnavailableError("away"), None),
        ("nonsense", None),
    ],
    ids=["knows of the stop", "does not", "another", "gone", "away", "nonsense"],
)
async def test_the_first_part_ends_once_all_others_know_that_it_is_stopped(answer: Any, expected: bool | None) -> None:
    versions = told().versions
    first = replace(FIRST, definition=versions[-1].definition, versions=versions)
    others = {f"shop/job#{part}": replace(PART, definition=replace(PART.definition, part=part)) for part in (1, 2)}
    answers = {"shop/job#1": described(2, "one.1"), "shop/job#2": answer}
    assert await _is_over(first, {key: (others[key], answers[key]) for key in others}) is expected


async def _is_over(job: JobRecord, answers: dict[str, tuple[JobRecord, Any]]) -> bool | None:
    """Ask whether a job is over, of which its parts, by their keys, answer so; None if one cannot be asked."""

    async def ask(key: str, request: JobRequest, timeout_ms: int) -> Answered:
        asked, answer = answers[key]
        assert request == Describe(asked.definition.app_id)
        if isinstance(answer, ElfError):
            raise answer
        return answer, []

    async def spreads(job: JobRecord) -> bool:
        pytest.fail("nobody is told")

    try:
        return await Notices(spreads, ask).is_over(job)
    except UnavailableError:
        return None
