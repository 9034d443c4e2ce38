"""What is said to a job as a whole, and concerns all its parts: listing, describing, forcing it, and leaping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from elf.agents.errors import ElfError, JobConflictError, JobError
from elf.agents.group.copies import Copies
from elf.agents.group.masters import Masters
from elf.agents.jobs.orders import Order
from elf.agents.jobs.parts import Part
from elf.agents.master.share import least_through
from elf.agents.results.gatherer import Answered, Ask
from elf.agents.wire.changes import Leap
from elf.agents.wire.parts import parts_told, whole_jobs
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Describe

ASK_MS = 5_000
#: How often parts that wait for nobody are asked to leap where others do, and the pause between.
LEAPS, LEAP_AGAIN_S = 4, 0.25
#: What a part is told to have of its own when a job is described.
_OWN = (
    *("part", "master", "version", "through_ms", "oldest_ms", "expired_ms"),
    *("too_late", "panes", "control", "group", "backfill"),
)


class WholeJobs:
    """Speaks to all masters of a job on behalf of one agent.

    Args:
        ask: asks a master.
        copies: the copies of masters kept here.
        masters: the jobs mastered here.
        rows: lists the jobs of all agents we know and their parts, rows as `listing.summary` makes them.
    """

    def __init__(self, ask: Ask, copies: Copies, masters: Masters, rows: Callable[[], Awaitable[list[Json]]]) -> None:
        self._ask = ask
        self._copies = copies
        self._masters = masters
        self._rows = rows

    async def describe(self, creator: str, name: str) -> Answered:
        """Describe part 0 of a job; errors as `Locator.ask`."""
        return await self._described(Part(creator, name))

    async def described(self, creator: str, name: str) -> Answered:
        """Describe a job; of one of several parts it says how far all have come, and what is each one's own."""
        value, hops = await self.describe(creator, name)
        others = parts_told(Part(creator, name), value)[1:]
        if not others:
            return value, hops
        parts = [_own(value), *await asyncio.gather(*(self._own(part) for part in others))]
        oldest, expired = (
            [part[field] for part in parts if part.get(field) is not None] for field in ("oldest_ms", "expired_ms")
        )
        whole = {
            "parts": parts,
            "oldest_ms": min(oldest, default=None),
            "expired_ms": max(expired, default=None),
            "through_ms": least_through([part.get("through_ms") for part in parts]),
            "too_late": sum(part.get("too_late", 0) for part in parts),
        }
        return {**value, **whole}, hops

    async def _described(self, part: Part) -> Answered:
        return await self._ask(part.key, Describe(part.app), ASK_MS)

    async def _own(self, part: Part) -> Json:
        try:
            return _own((await self._described(part))[0])
        except ElfError as error:
            return {"part": part.number, "trouble": str(error)}

    async def jobs(self) -> list[Json]:
        """List all jobs once; one of which only parts other than the first are left has the state `in part`."""
        return whole_jobs(await self._rows())

    async def leap(self, creator: str, name: str, order: Order | None = None) -> Json:
        """Have all masters of a job wait no longer for stragglers; returns up to when at most, and for whom.

        Raises:
            UnknownJobError: there is no such job.
            JobConflictError: nobody is waited for.
            UnavailableError: a master cannot be reached; others have leapt.
        """
        described, _ = await self.describe(creator, name)
        leapt: list[Json] = []
        nobody: JobConflictError | None = None
        parts, until_ms = parts_told(Part(creator, name), described), None
        for again in range(LEAPS):
            if again:
                # Those may just not have come to the interval in which others have leapt.
                await asyncio.sleep(LEAP_AGAIN_S)
                until_ms = max(each["through_ms"] for each in leapt)
            questions = [self._ask(part.key, Leap(part.app, until_ms, order), ASK_MS) for part in parts]
            waiting: list[Part] = []
            for part, answer in zip(parts, await asyncio.gather(*questions, return_exceptions=True), strict=True):
                if isinstance(answer, JobConflictError):
                    nobody = nobody or answer  # that of the first part, whose name people know
                    waiting.append(part)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    leapt.append(answer[0])
            parts = waiting
            if not leapt or not parts:
                break
        if nobody is not None and not leapt:
            raise nobody
        agents = sorted({agent for each in leapt for agent in each["agents"]})
        return {"through_ms": max(each["through_ms"] for each in leapt), "agents": agents}

    async def force(self, creator: str, name: str) -> None:
        """Let this agent go on alone with every part whose root group has lost its majority for good.

        Raises:
            JobError: there is no such part that this agent keeps a copy of.
        """
        first = Part(creator, name)
        copies = [copy.job.definition for copy in self._copies.all()]
        kept = [each for each in copies if each.first == first]
        refusals: list[JobError] = []
        for definition in kept:
            try:
                await self._masters.force(definition.app_id, definition.key)
            except JobError as error:
                refusals.append(error)
        if not kept:
            await self._masters.force(first.app, first.key)
        elif len(refusals) == len(kept):
            raise refusals[0]


def _own(described: Json) -> Json:
    return {field: described[field] for field in _OWN}
