"""Following a job: its results as they come, from its master.

Of a job with several trees all masters are listened to, and of one that reads others theirs, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from elf.agents.errors import ExpiredError, JobError, StoppedError, UnavailableError, UnknownJobError
from elf.agents.jobs.parts import Part
from elf.agents.master.results import Span
from elf.agents.results.answerer import parted_job
from elf.agents.results.due import LATEST_MS, Due, reached_by
from elf.agents.results.gatherer import Ask, Gathering
from elf.agents.results.joined_news import Heard, hear_all
from elf.agents.results.listener import FOLLOW_MS, RETRY_S, Listening, Voice
from elf.agents.wire.positions import Json, Position, Positioned
from elf.agents.wire.questions import Follow, Query
from elf.agents.wire.records import JobRecord

T = TypeVar("T")


class Following:
    """Follows jobs for one agent.

    Args:
        ask: asks a master.
        gathering: gathers the results of jobs with several trees.
    """

    def __init__(self, ask: Ask, gathering: Gathering) -> None:
        self._ask = ask
        self._gathering = gathering

    async def results(self, first: Part, position: Position | None) -> AsyncGenerator[Positioned, None]:
        """Yield results and where to go on after each, until the job is stopped, which is an error.

        Args:
            first: of the job.
            position: where an earlier follower stopped; one of another number of masters says nothing.
        """
        job, asked = self._gathering.known(first.app), False
        while True:
            found = self._one(first, position, asked) if job is None else self.several(job, position, asked)
            # Where the first master only says that there are several, these are asked for what comes after.
            goes_on, job = job is None, None
            async with contextlib.aclosing(found) as results:
                async for each in results:
                    if isinstance(each, JobRecord):
                        several = not each.definition.is_alone or each.definition.joined is not None
                        job = each if several else None
                    else:
                        asked, goes_on = True, False
                        yield each
            position = position if goes_on else None

    async def _one(
        self, first: Part, position: Position | None, asked: bool
    ) -> AsyncGenerator[Positioned | JobRecord, None]:
        """Ask a job's master again and again for what is newer; ends with the job's record if others have to be asked.

        Of one answer with several results, those that changed come again to a follower that goes on in their midst.
        Results of one side only move the position back to where that side began, if anywhere: the job's own master may
        have counted before what is news to a side, and would not tell of those windows again.
        """
        edition, after_ms = -1, LATEST_MS
        side: tuple[str, int, int] | None = None
        if position is not None and isinstance(position[0], int):
            edition, after_ms = position[0], position[1]
        while True:
            try:
                follow = Follow(first.app, edition, after_ms, FOLLOW_MS, side)
                value, hops = await self._ask(first.key, follow, FOLLOW_MS + 5_000)
            except UnavailableError:
                if not asked:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            job = parted_job(value)
            if job is not None:
                yield job
                return
            asked = True
            results = value["results"]
            if "side" in value:
                reached_ms = _reached(value, side, after_ms)
                edition, after_ms = _back(value, edition, after_ms)
                side = value["side"], value["edition"], reached_ms
                for result in results:
                    yield {**result, "hops": hops}, (edition, after_ms)
                continue
            side = None
            for number, result in enumerate(results, 1):
                after_ms = reached_by(result, after_ms)
                if number == len(results):
                    edition = value["edition"]
                yield {**result, "hops": hops}, (edition, after_ms)
            edition = value["edition"]

    def several(
        self, job: JobRecord, position: Position | None = None, asked: bool = False, limit: int | None = None
    ) -> AsyncGenerator[Positioned | JobRecord, None]:
        """Follow a publication whose results several masters make; ends with the record of a later one.

        Args:
            job: the publication.
            position: as `results` has it.
            asked: what cannot be had now is waited for from the beginning on.
            limit: most rows of each result.
        """
        follow = self._parts if job.definition.joined is None else self._joined
        return follow(job, position, asked, limit)

    async def _parts(
        self, job: JobRecord, position: Position | None, asked: bool, limit: int | None
    ) -> AsyncGenerator[Positioned | JobRecord, None]:
        """Follow all parts of a job."""
        if position is not None and isinstance(position[0], tuple) and len(position[0]) == len(job.definition.parts):
            due = Due(position[0], position[1])
        else:
            result, shares = await _insisting(lambda: self._gathering.of_parts(job, "latest", limit=limit), asked)
            job, editions = shares[0].job, tuple(each.edition for each in shares)
            due = Due(editions, reached_by(result, LATEST_MS))
            yield result, (editions, due.after_ms)

        async def gathered(span: Span | None) -> Json | None:
            try:
                return (await self._gathering.of_parts(job, span or "latest", limit=limit))[0]
            except (UnknownJobError, StoppedError):
                raise
            except JobError:
                return None

        voices = [
            Voice(part.app, job.publication, functools.partial(self._gathering.ask_part, job, part), not part.number)
            for part in job.definition.parts
        ]
        listening = Listening(voices, due, gathered)
        async with contextlib.aclosing(_until_anew(listening)) as results:
            async for each in results:
                yield each
        if listening.anew is not None:
            yield listening.anew[1]

    async def _joined(
        self, job: JobRecord, position: Position | None, asked: bool, limit: int | None
    ) -> AsyncGenerator[Positioned | JobRecord, None]:
        """Follow a job that reads others: windows that all have closed."""
        heard = await _insisting(lambda: hear_all(job, self._ask), asked)
        newest = heard[0][1].job
        if newest.publication != job.publication:
            yield newest
            return
        if position is not None and isinstance(position[0], tuple) and len(position[0]) == len(heard):
            due = Due(position[0], position[1])
        else:
            # Asked after the others have said how far they are: what changes from now on, they tell of.
            result = await _insisting(lambda: self._asked(job, "latest", limit), asked)
            due = Due([told.edition for _, told in heard], reached_by(result, LATEST_MS))
            if result["completeness"]["status"] != "open":
                yield result, (tuple(due.editions), due.after_ms)

        async def gathered(span: Span | None) -> Json | None:
            assert span is not None
            try:
                return await self._asked(job, f"{span.start_ms}/{span.end_ms}", limit)
            except ExpiredError:
                return None

        while True:
            for number, (_, told) in enumerate(heard):
                if told.edition == due.editions[number]:
                    # It has nothing to tell, and says so only after a while.
                    due.tell(number, replace(told, spans=[], rests={}))
            listening = Listening([voice for voice, _ in heard], due, gathered)
            async with contextlib.aclosing(_until_anew(listening)) as results:
                async for each in results:
                    yield each
            assert listening.anew is not None
            if not listening.anew[0]:
                yield listening.anew[1]
                return
            # Of a job that is read and was published anew all is news.
            editions = {voice: due.editions[number] for number, voice in enumerate(_names(heard))}
            heard = await _insisting(lambda: hear_all(job, self._ask), True)
            due = Due([editions.get(voice, 0) for voice in _names(heard)], due.after_ms)

    async def _asked(self, job: JobRecord, window: str, limit: int | None) -> Json:
        """Ask for a window of a job that reads others."""
        request = Query(job.definition.app_id, window, None, limit)
        value, hops = await self._ask(job.definition.key, request, FOLLOW_MS + 5_000)
        if parted_job(value) is not None:
            raise UnavailableError(f"{job.definition.key} was published anew just now")
        return {**value, "hops": hops}


async def _until_anew(listening: Listening) -> AsyncGenerator[Positioned, None]:
    """Yield what those who are listened to make due; they are asked no more when this ends."""
    try:
        async with contextlib.aclosing(listening.results()) as results:
            async for each in results:
                yield each
    finally:
        await listening.close()


async def _insisting(question: Callable[[], Awaitable[T]], asked: bool) -> T:
    """Ask until there is an answer; only once of who has not been answered anything yet."""
    while True:
        try:
            return await question()
        except UnavailableError:
            if not asked:
                raise
        await asyncio.sleep(RETRY_S)


def _names(heard: Sequence[Heard]) -> list[tuple[bytes, str]]:
    return [(voice.app, voice.publication) for voice, _ in heard]


def _back(value: Json, edition: int, after_ms: int) -> tuple[int, int]:
    """Return where a follower goes on with the job's own master, so that it hears of all that a side has told it."""
    base_edition, base_ms = value["base"]
    if after_ms == LATEST_MS:
        return base_edition, base_ms
    return (min(edition, base_edition), min(after_ms, base_ms)) if value["results"] else (edition, after_ms)


def _reached(value: Json, side: tuple[str, int, int] | None, after_ms: int) -> int:
    """Return up to where a follower has all windows that a side has closed, after this answer of its."""
    if side is not None and side[0] == value["side"]:
        after_ms = side[2]
    for result in value["results"]:
        after_ms = reached_by(result, after_ms)
    return after_ms
