"""One history for all parts of a job: its first part's root group decides a version, and the others adopt it.

Each part has versions of its own, decided by its own root group, with the numbers and from the interval on that those
of the first part have: its master tells the others' until they have them. A part that hears of one too late, as it had
no master, say, counts by it from its next commit on; windows that it has counted by another one until then lack its
rows, and name all agents as missing (`agents.parts.shares`). When the time of a stopped job is over the first part
ends, and then the others: of a resume that was decided just before they may not have heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from agents.changing.deciding import with_version
from agents.errors import ElfError, JobError, UnavailableError, UnknownJobError
from agents.group.commands import Turn
from agents.jobs.own import Admits
from agents.jobs.plan import compile_job
from agents.jobs.versions import Version, check_change, compile_versions
from agents.masters.masters import Masters
from agents.parts.gathering import Ask
from agents.parts.replaced import First
from agents.parts.requests import Adopt
from agents.requests import Describe, JobRecord
from overlay.contract import NEVER

log = logging.getLogger(__name__)
#: Deciding and making durable takes milliseconds; a root that moves takes a second.
ASK_MS = 5_000


def adopted(job: JobRecord, version: Version) -> Version | None:
    """Return a version of a job's first part as another part is to have it; None if that has it, or a later one."""
    newest = job.history[-1]
    if version.number <= newest.number:
        return None
    definition = replace(version.definition, part=job.definition.part)
    # Of versions that were forgotten meanwhile nobody knows whether they kept PAOs as they were.
    states = newest.states if version.states == newest.states else version.number
    return replace(version, definition=definition, states=states)


async def adopt(masters: Masters, request: Adopt) -> int:
    """Have the versions decided that a part mastered here lacks; returns the number of its newest one.

    Raises:
        UnknownJobError: it is not mastered here.
        JobError: a version cannot run here, or not after the one that the part has.
        UnavailableError: it is of another publication, or ending, or this agent leads it no more.
    """
    app = request.app
    for version in request.versions:
        job = masters.job(app)
        if job.publication != request.publication or not job.definition.part:
            raise UnavailableError(f"{job.definition.key} is of another publication of the job")
        mine = adopted(job, version)
        if mine is not None:
            await asyncio.to_thread(_check, job, mine, masters.admits)
            await masters.decide(app, Turn(mine))
    newest = masters.job(app).history[-1].number
    if newest < request.versions[-1].number:
        raise UnavailableError(f"{masters.job(app).definition.key} is being stopped at this moment")
    return newest


def _check(job: JobRecord, version: Version, admits: Admits | None) -> None:
    """Refuse a version that a part cannot have after its newest one: decided, it would end all that copies of it do.

    Raises:
        JobError: why.
    """
    before, after = job.definition, version.definition
    try:
        changed = with_version(job, version, NEVER)
    except ValueError as error:
        raise JobError(f"version {version.number} is none of {before.key}: {error}") from None
    if changed is not None:
        check_change(compile_job(before, before.types), compile_job(after, after.types, admits))
        compile_versions(changed.history, admits=admits)


class Telling:
    """Tells of jobs that are mastered here, on behalf of one agent.

    Args:
        spread: puts a job's record into its source's tree.
        ask: asks a master.
    """

    def __init__(self, spread: Callable[[JobRecord], Awaitable[bool]], ask: Ask) -> None:
        self._spread, self._ask = spread, ask

    async def tell(self, job: JobRecord) -> None:
        """Tell the agents with a job's source, and the masters of its other parts if this is the first one.

        Raises:
            ElfError: somebody could not be told; the others are.
        """
        definition = job.definition
        others = range(1, definition.options.trees) if not definition.part and job.versions and not job.stopped else ()
        told = await asyncio.gather(
            self._spread(job), *(self._tell_part(job, part) for part in others), return_exceptions=True
        )
        for answer in told:
            if isinstance(answer, BaseException):
                raise answer

    async def is_over(self, job: JobRecord) -> bool:
        """Tell whether a stopped job ends now that its time is over; a part does once the first one has.

        It may not have heard of a resume, or of a stop that came later.

        Raises:
            ElfError: the first part's master cannot be asked now.
        """
        definition = job.definition
        if not definition.part:
            return True
        try:
            answer, _ = await self._ask(
                f"{definition.creator}/{definition.name}", Describe(definition.app_of(0)), ASK_MS
            )
            first = msgspec.convert(answer, First)
        except UnknownJobError:
            return True
        except msgspec.ValidationError as error:
            raise UnavailableError(f"the master of {definition.key} describes what is no job: {error}") from None
        return first.backfill.instance != job.publication

    async def _tell_part(self, job: JobRecord, part: int) -> None:
        key = f"{job.definition.key}#{part}"
        try:
            await self._ask(key, Adopt(job.definition.app_of(part), job.publication, job.versions), ASK_MS)
        except ElfError as error:
            log.info("job %s has not heard of version %d yet: %s", key, job.history[-1].number, error)
            raise
