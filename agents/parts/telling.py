"""What the master of a job has to say to others whom it concerns, and to hear from them before the job ends.

Agents with the job's source are told of its record; of a job with several trees the masters of its other parts are told
of the versions that the first one has (`agents.parts.adopting`). When the time of a stopped job is over the first part
ends, and then the others: of a resume that was decided just before they may not have heard.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from agents.errors import ElfError, UnavailableError, UnknownJobError
from agents.parts.gathering import Ask, all_of
from agents.parts.replaced import First
from agents.parts.requests import Adopt
from agents.requests import Describe, JobRecord

log = logging.getLogger(__name__)
#: Deciding and making durable takes milliseconds; a root that moves takes a second.
ASK_MS = 5_000


class Telling:
    """Tells of jobs that are mastered here, and asks before one ends, on behalf of one agent.

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
        questions: list[Awaitable[object]] = [self._spread(job), *(self._tell_part(job, part) for part in others)]
        await all_of(questions)

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
