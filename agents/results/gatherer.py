"""Results of jobs, asked for: the master of a job's one part renders its own share; of several parts all are asked.

Whichever agent is asked does it, and puts the shares together. A part whose master cannot be reached is named in an
error; a result never lacks the keys of a part without saying so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from elf.agents.errors import StoppedError, UnavailableError, UnknownJobError
from elf.agents.jobs.definition import Definition, check_definition
from elf.agents.jobs.parts import Part
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.master.results import Span
from elf.agents.master.share import Answer, Share
from elf.agents.results.answerer import parted_job, rendered
from elf.agents.results.location import JobRequest
from elf.agents.results.shares import Shared, common_span, part_of_key
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Query
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import AskShare

#: What a master answers, and the agents that the question went through.
Answered = tuple[Any, list[str]]
Ask = Callable[[str, JobRequest, int], Awaitable[Answered]]
T = TypeVar("T")
ASK_MS = 5_000
#: Plans of jobs that this agent does not work on, kept for the next question.
PLANS_MAX = 16
#: A job that is published anew while it is asked is asked once more.
TRIES = 3


async def all_of(questions: Sequence[Awaitable[T]]) -> list[T]:
    """Wait for all answers; of errors the one of the first question that has one counts, not the quickest."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


class Gathering:
    """Asks for results on behalf of one agent.

    Args:
        ask: asks a master.
        catalogue: jobs and members known here.
    """

    def __init__(self, ask: Ask, catalogue: Catalogue) -> None:
        self._ask = ask
        self._catalogue = catalogue
        self._plans: dict[tuple[bytes, int], Plan] = {}

    def known(self, app: bytes) -> JobRecord | None:
        """Return a running job with several trees, if it is known here."""
        job = self._catalogue.job(app)
        return None if job is None or job.stopped or job.definition.is_alone else job

    async def result(self, first: Part, window: str, key: str | None, limit: int | None) -> Json:
        """Return one result, as the API has it; errors as `of_parts`.

        Args:
            first: of the job.
            window: as people write it.
            key: only rows whose first group key is this, as people write it.
            limit: most rows.
        """
        job = self.known(first.app)
        if job is None:
            value, hops = await self._ask(first.key, Query(first.app, window, key, limit), ASK_MS)
            job = parted_job(value)
            if job is None:
                return {**value, "hops": hops}
        return (await self.of_parts(job, window, key, limit))[0]

    async def of_parts(
        self, job: JobRecord, window: str | Span, key: str | None = None, limit: int | None = None
    ) -> tuple[Json, list[Shared]]:
        """Return one result, and the shares it is made of.

        Args:
            job: part 0 as far as it is known here; what the masters say counts.
            window: as people write it, or in ms.
            key: only rows whose first group key is this, as people write it.
            limit: most rows.

        Raises:
            UnknownJobError: nobody knows the job.
            UnavailableError: a part has no master now, or it cannot be reached.
            JobError: there is no such window, or no more.
        """
        shares, hops = await self._agreed(job, window, key, limit)
        result = await self._put_together(shares, lambda found: Answer.of(found, limit).result())
        body = rendered(shares[0].job.definition.first.key, result, shares[0].job.master.address)
        return {**body, "hops": hops}, shares

    async def answer(self, first: Part, span: Span) -> Answer:
        """Return what a job, of one or several parts, says of a window; errors as `of_parts`."""
        job = self.known(first.app)
        if job is None:
            share = AskShare(first.app, "latest", (span.start_ms, span.end_ms))
            shared = _shared((await self._ask(first.key, share, ASK_MS))[0])
            job = shared.job
            if job.definition.is_alone:
                return await self._put_together([shared], Answer.of)
        return await self._put_together((await self._agreed(job, span, None, None))[0], Answer.of)

    async def _agreed(
        self, job: JobRecord, window: str | Span, key: str | None, limit: int | None
    ) -> tuple[list[Shared], list[str]]:
        """Ask the parts until all are of one publication, and have the key if only one was asked."""
        parts = self._parts_with(job, job.definition, key)
        for _ in range(TRIES):
            shares, hops = await self._shares(job, parts, window, key, limit)
            newest = shares[0].job
            alike = all(each.job.publication == newest.publication for each in shares)
            if not alike or newest.definition.parts != job.definition.parts:
                job = max((each.job for each in shares), key=lambda each: each.stamp_ms)
                parts = self._parts_with(job, job.definition, key)
            elif set(self._parts_with(newest, shares[0].definition, key)) <= set(parts):
                return shares, hops
            else:
                # The version that counts the window has keys of another type, and these are elsewhere.
                parts = job.definition.parts
        name = job.definition.first.key
        raise UnavailableError(f"{name} is being published or stopped at this moment; ask again")

    def _parts_with(self, job: JobRecord, definition: Definition, key: str | None) -> Sequence[Part]:
        """Return the parts to ask for a key, which may be there by a version's definition; all for all keys."""
        parts = definition.parts
        only = None if key is None else part_of_key(self._plan(job, definition), key)
        if only is None:
            return parts
        # Of a job that was changed the first part says by which version a window counts.
        return sorted({parts[0], parts[only]}) if job.versions else [parts[only]]

    async def _shares(
        self, job: JobRecord, parts: Sequence[Part], window: str | Span, key: str | None, limit: int | None
    ) -> tuple[list[Shared], list[str]]:
        """Ask parts for the same window; again those that are ahead, or count it by another version than the first."""
        span = window if isinstance(window, Span) else None
        text = "latest" if isinstance(window, Span) else window

        def question(part: Part, span: Span | None, version: int | None = None) -> Awaitable[Answered]:
            bounds = None if span is None else (span.start_ms, span.end_ms)
            return self.ask_part(job, part, AskShare(part.app, text, bounds, key, limit, version))

        async def again(numbers: Sequence[int], version: int | None = None) -> None:
            answers = await all_of([question(parts[number], common, version) for number in numbers])
            for number, (value, _) in zip(numbers, answers, strict=True):
                shares[number] = _shared(value)

        answers = await all_of([question(part, span) for part in parts])
        shares = [_shared(value) for value, _ in answers]
        common = common_span(shares)
        await again([number for number, each in enumerate(shares) if each.span != common])
        version = shares[0].version
        await again([number for number, each in enumerate(shares) if each.version != version], version)
        return shares, answers[0][1]

    async def ask_part(self, job: JobRecord, part: Part, request: JobRequest, timeout_ms: int = ASK_MS) -> Answered:
        """Ask the master of a part; errors name the part."""
        of = f"part {part.number} of {len(job.definition.parts)} of {part.job}"
        try:
            return await self._ask(part.key, request, timeout_ms)
        except UnknownJobError:
            if not part.number:
                raise
            raise UnavailableError(f"{of} has no master that is known") from None
        except StoppedError as error:
            if not part.number:
                raise
            # The first part is stopped before all others, and resumed before them.
            raise UnavailableError(f"{of} has not heard that it was resumed, or {error}") from None
        except UnavailableError as error:
            raise UnavailableError(f"{of} is not to be had: {error}") from None

    async def _put_together(self, shares: Sequence[Shared], then: Callable[[Sequence[Share]], T]) -> T:
        """Unpack shares, and put them together, in a thread; UnavailableError where their rows are none of the job."""
        plan = self._plan(shares[0].job, shares[0].definition)

        def make() -> T:
            return then([each.share(plan, first=not number) for number, each in enumerate(shares)])

        return await asyncio.to_thread(make)

    def _plan(self, job: JobRecord, definition: Definition) -> Plan:
        """Return the plan of a version of a job; it is the same for all its parts."""
        key = (job.tree, definition.version)
        plan = self._plans.get(key)
        if plan is None:
            check_definition(definition)
            plan = compile_job(definition, definition.types)
            while len(self._plans) >= PLANS_MAX:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        return plan


def _shared(value: Any) -> Shared:
    try:
        return msgspec.convert(value, Shared)
    except msgspec.ValidationError as error:
        raise UnavailableError(f"another agent sent something that is no share of a result: {error}") from None
