"""Asking masters to stop a job whose functions run no more here: until they do, once, and not for what is over."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from elf.agents.errors import JobConflictError, JobError, UnavailableError
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.versions import Version
from elf.agents.publications.abandonment import Failed, GivingUp
from elf.agents.results.location import JobRequest
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.changes import Amend
from elf.agents.wire.questions import Stop
from elf.agents.wire.records import JobRecord
from tests.agents.extensions.signed.signed_jobs import COLUMNS, signed, text_of
from tests.agents.wire.test_catalogue import JOB, newer

DEFINITION = replace(load_definition(signed(text_of("sections"))), columns=COLUMNS)
RUNNING = replace(JOB, definition=DEFINITION)


class Masters:
    """Masters that answer as they are told, and whom everybody hears of at once."""

    def __init__(self, *answers: Exception | None) -> None:
        self.catalogue, self.answers = Catalogue(), list(answers)
        self.asked: list[tuple[str, JobRequest]] = []
        self.catalogue.learn(RUNNING)

    async def ask(self, key: str, request: JobRequest, timeout_ms: int) -> tuple[Any, list[str]]:
        self.asked.append((key, request))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.catalogue.learn(stopped(RUNNING) if isinstance(request, Amend) else newer(RUNNING, stopped=True))
        return {}, []


def stopped(job: JobRecord) -> JobRecord:
    """Return a job's record once it is stopped."""
    definition = replace(job.definition, version=2)
    stop = Version(number=2, definition=definition, what="stop", since=5, ends_ms=9, why="it loops")
    return newer(job, definition=definition, versions=(*job.history, stop))


async def give_up(masters: Masters, why: str, behind: str = "") -> None:
    """Have the job stopped, if its functions are these, with something behind their source."""
    functions = tuple(replace(each, source=each.source + behind) for each in DEFINITION.functions)
    async with asyncio.timeout(30):
        await GivingUp(masters.catalogue, masters.ask, lambda: "web1").stop(Failed("shop", "sections", functions, why))


async def test_the_master_is_told_why_until_the_job_is_stopped() -> None:
    masters = Masters(UnavailableError("not now"), JobConflictError("another version"))
    await give_up(masters, "it loops")
    keys, requests = zip(*masters.asked, strict=True)
    assert keys == ("shop/sections",) * 3 and len(set(requests)) == 1
    (request,) = set(requests)
    assert (request.kind, request.expected, request.why) == ("stop", 1, "it loops (at web1)")
    assert masters.catalogue.running()[0].why == "it loops"


async def test_agents_ask_for_the_same_stop() -> None:
    first, second = Masters(), Masters()
    await give_up(first, "it loops")
    await give_up(second, "it raises " + "x" * 1_000)
    (one,), (other,) = ([request for _, request in each.asked] for each in (first, second))
    assert isinstance(one, Amend) and isinstance(other, Amend)
    assert one.token == other.token and one.why != other.why and len(other.why) == 500


async def test_what_cannot_rest_is_ended() -> None:
    masters = Masters(JobError("it can only be stopped for good"))
    await give_up(masters, "it loops")
    assert isinstance(masters.asked[-1][1], Stop) and masters.catalogue.running() == []


async def test_what_is_stopped_or_has_other_functions_is_left_alone() -> None:
    masters = Masters()
    await give_up(masters, "it loops", behind="# as it was before")
    masters.catalogue.learn(stopped(RUNNING))
    await give_up(masters, "it loops")
    assert masters.asked == []


async def test_a_job_that_somebody_resumes_at_once_is_not_stopped_again_for_what_was() -> None:
    masters = Masters()

    async def ask(key: str, request: JobRequest, timeout_ms: int) -> tuple[Any, list[str]]:
        answer = await Masters.ask(masters, key, request, timeout_ms)
        rests = masters.catalogue.running()[0]
        resumed = Version(number=3, definition=replace(rests.definition, version=3), what="resume", since=6)
        versions = (*rests.history, resumed)
        masters.catalogue.learn(newer(rests, definition=resumed.definition, versions=versions))
        return answer

    async with asyncio.timeout(30):
        failed = Failed("shop", "sections", DEFINITION.functions, "it loops")
        await GivingUp(masters.catalogue, ask, lambda: "web1").stop(failed)
    assert len(masters.asked) == 1 and not masters.catalogue.running()[0].rests
