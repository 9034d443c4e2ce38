"""What the master of a job has to say to others whom it concerns, and to hear from them before the job ends.

Agents with the job's source are told of its record; of a job with several trees the masters of its other parts are told
of the versions that the first one has (`elf.agents.publications.adoption`). When the time of a stopped job is over the
first part ends, once all others have heard of the stop, for nobody tells them of it afterwards; and then those: of a
resume that was decided just before they may not have heard.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from elf.agents.errors import ElfError, UnavailableError, UnknownJobError
from elf.agents.jobs.parts import Part
from elf.agents.publications.replaced import Publication
from elf.agents.results.gatherer import Ask, all_of
from elf.agents.wire.questions import Describe
from elf.agents.wire.records import JobRecord, publication_of
from elf.agents.wire.shares import Adopt

log = logging.getLogger(__name__)
#: Deciding and making durable takes milliseconds; a root that moves takes a second.
ASK_MS = 5_000


class _Described(msgspec.Struct, frozen=True):
    """What the master of a part tells of it."""

    version: int
    backfill: Publication


class Notices:
    """Tells of jobs that are mastered here, and asks before one ends, on behalf of one agent.

    Args:
        spread: puts a job's record into its source's tree.
        ask: asks a master.
    """

    def __init__(self, spread: Callable[[JobRecord], Awaitable[bool]], ask: Ask) -> None:
        self._spread = spread
        self._ask = ask

    async def tell(self, job: JobRecord) -> None:
        """Tell the agents with a job's source, and the masters of its other parts if this is the first one.

        Raises:
            ElfError: somebody could not be told; the others are.
        """
        definition = job.definition
        others = definition.parts[1:] if definition.is_first and job.versions and not job.stopped else ()
        questions: list[Awaitable[object]] = [self._spread(job), *(self._tell_part(job, part) for part in others)]
        await all_of(questions)

    async def is_over(self, job: JobRecord) -> bool:
        """Tell whether a stopped job ends now that its time is over: its first part before the others.

        The first one does when all others know of the stop, and they when it is gone, as they may not have heard of a
        resume, or of a stop that came later.

        Raises:
            ElfError: the master of another part cannot be asked now.
        """
        definition = job.definition
        if not definition.is_first:
            return await self._described(job, definition.first) is None
        newest = job.history[-1].number
        for part in definition.parts[1:]:
            described = await self._described(job, part)
            if described is not None and described.version < newest:
                return False
        return True

    async def _described(self, job: JobRecord, part: Part) -> _Described | None:
        """Describe a part of a job's publication; None if it is gone, or of another one."""
        try:
            answer, _ = await self._ask(part.key, Describe(part.app), ASK_MS)
            described = msgspec.convert(answer, _Described)
        except UnknownJobError:
            return None
        except msgspec.ValidationError as error:
            raise UnavailableError(f"the master of {part.key} describes what is no job: {error}") from None
        return described if publication_of(described.backfill.instance) == job.publication else None

    async def _tell_part(self, job: JobRecord, part: Part) -> None:
        try:
            await self._ask(part.key, Adopt(part.app, job.publication, job.versions), ASK_MS)
        except ElfError as error:
            log.info("job %s has not heard of version %d yet: %s", part.key, job.history[-1].number, error)
            raise
