"""What this agent answers of jobs that are mastered here, or whose side it answers for: results, shares and news."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from elf.agents.group.masters import Masters
from elf.agents.results.answerer import Answerer, Mastered, Parted
from elf.agents.results.follower import Following
from elf.agents.results.gatherer import Gathering
from elf.agents.results.joined_results import Joining
from elf.agents.results.split.sides import Sides
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Follow, Query
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import AskShare, Watch

#: A follower's request is answered at the latest after this long, news or not.
FOLLOW_MS_MAX = 20_000


class OwnResults:
    """Answers on behalf of one agent.

    Args:
        masters: the jobs mastered here.
        sides: jobs that are answered for one side only.
        gathering: asks for the results of other jobs.
        following: follows jobs.
    """

    def __init__(self, masters: Masters, sides: Sides, gathering: Gathering, following: Following) -> None:
        self._masters = masters
        self._sides = sides
        self._gathering = gathering
        self._following = following

    async def answer(self, request: Query | Follow | AskShare | Watch) -> Json:
        """Answer one request.

        Raises:
            UnknownJobError: another agent answers for the job.
            UnavailableError: a job that this one reads cannot be asked now, or is not there.
            JobError: there is no such window, or no more.
        """
        match request:
            case Query():
                return await self._answerer(request.app).query(request)
            case Follow():
                return await self._answerer(request.app).follow(request, _bounded(request.wait_ms))
            case AskShare():
                return await Mastered(self._masters, request.app).share(request)
            case Watch():
                return await Mastered(self._masters, request.app).watch(request, _bounded(request.wait_ms))

    async def newest(self, app: bytes, limit: int) -> Json:
        """Answer the newest window that closed, of a job that is mastered here alone."""
        return await Mastered(self._masters, app).query(Query(app, "latest", None, limit))

    async def followed(self, app: bytes, limit: int) -> AsyncGenerator[Json, None]:
        """Yield the results of a job that `has_others` as they come, until it is published anew; errors as `answer`."""
        async with contextlib.aclosing(self._following.several(self._masters.job(app), limit=limit)) as results:
            async for each in results:
                if not isinstance(each, JobRecord):
                    yield each[0]

    def has_others(self, app: bytes) -> bool:
        """Tell whether the results of a job mastered here are made by several masters."""
        return isinstance(self._mastered(app), Parted)

    def _answerer(self, app: bytes) -> Answerer:
        return self._sides.answerer(app) if self._sides.holds(app) else self._mastered(app)

    def _mastered(self, app: bytes) -> Mastered:
        definition = self._masters.job(app).definition
        if definition.joined is not None:
            return Joining(self._masters, app, definition.joined, self._gathering)
        return Mastered(self._masters, app) if definition.is_alone else Parted(self._masters, app)


def _bounded(wait_ms: int) -> int:
    return max(0, min(wait_ms, FOLLOW_MS_MAX))
