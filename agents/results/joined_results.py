"""Results of jobs mastered here, also of those that read other jobs: their masters are asked for the very same window.

What was joined is never kept: whoever asks again gets what the other jobs say by then, late data included.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

import msgspec
import polars as pl

from elf.agents.completeness.statement import joined
from elf.agents.errors import JobError
from elf.agents.group.masters import Masters
from elf.agents.jobs.key_texts import with_first_column
from elf.agents.jobs.plan import Plan
from elf.agents.language.joins import Use
from elf.agents.master.results import Json, Span, result_of
from elf.agents.results.follower import Following
from elf.agents.results.gathered import Gathered
from elf.agents.results.gatherer import Gathering, all_of, parted
from elf.agents.results.joined_news import read_by
from elf.agents.results.shares import least_through
from elf.agents.wire.requests import JobRecord
from elf.overlay.ids import app_id


class JobResults:
    """Answers for jobs mastered here.

    Args:
        masters: these jobs.
        gathering: asks for the results of other jobs.
        following: follows jobs.
    """

    def __init__(self, masters: Masters, gathering: Gathering, following: Following) -> None:
        self._masters = masters
        self._gathering = gathering
        self._following = following

    async def query(self, app: bytes, window: str, key: str | None, limit: int | None) -> Json:
        """Answer one window; `latest` is the newest that all jobs which are read have closed.

        Raises:
            UnknownJobError: the job is not mastered here.
            UnavailableError: a job that it reads cannot be asked now, or is not there.
            JobError: there is no such window, or no more.
        """
        joins = self.joins(app)
        base = await self._masters.query(app, window, key, limit)
        if not joins:
            return base
        span = _span(base)
        found = await self._gathered(app, span)
        if base["through_ms"] is None and "/" not in window:
            # Before the first commit there is no newest window; the others have closed the one that stands for it.
            return {**base, "rows": []}
        through_ms = least_through([each.through_ms for each in found])
        if window.strip().lower() == "latest" and through_ms is not None and through_ms < span.end_ms:
            run = self._masters.master(app).plan.window
            assert run is not None
            back_ms = -(-(span.end_ms - through_ms) // run.slide_ms) * run.slide_ms
            span = Span(span.start_ms - back_ms, span.end_ms - back_ms)
            base = await self._masters.query(app, f"{span.start_ms}/{span.end_ms}", key, limit)
            found = await self._gathered(app, span)
        return await self._joined(app, base, found, key, limit)

    async def newest(self, app: bytes, limit: int) -> Json:
        """Return the newest window that closed; errors as `query`."""
        return await self._masters.query(app, "latest", None, limit)

    async def follow(self, app: bytes, edition: int, after_ms: int, wait_ms: int) -> Json:
        """Wait for another edition; see `Masters.follow`. Who follows a job over others listens to all of them."""
        if self.joins(app):
            return parted(self._masters.job(app))
        return await self._masters.follow(app, edition, after_ms, wait_ms)

    async def followed(self, app: bytes, limit: int) -> AsyncGenerator[Json, None]:
        """Yield the results of a job that `has_others` as they come, until it is published anew; errors as `query`."""
        job = self._masters.job(app)
        follow = self._following.parts if job.definition.joined is None else self._following.joined
        following = follow(job, limit=limit)
        async with contextlib.aclosing(following) as results:
            async for each in results:
                if not isinstance(each, JobRecord):
                    yield each[0]

    def has_others(self, app: bytes) -> bool:
        """Tell whether the results of a job mastered here are made by several masters."""
        return self.joins(app) or self._masters.job(app).definition.options.trees > 1

    def joins(self, app: bytes) -> bool:
        """Tell whether a job mastered here reads other jobs."""
        return self._masters.job(app).definition.joined is not None

    async def _gathered(self, app: bytes, span: Span) -> list[Gathered]:
        """Ask for a window of all jobs that a job reads."""
        joined = self._masters.job(app).definition.joined
        assert joined is not None
        return await all_of([self._ask(app, use, span) for use in joined.uses])

    async def _ask(self, app: bytes, use: Use, span: Span) -> Gathered:
        creator, _, name = use.job.partition("/")
        key = self._masters.job(app).definition.key
        return await read_by(key, use.job, self._gathering.gathered(use.job, app_id(name, creator), span))

    async def _joined(
        self, app: bytes, base: Json, found: Sequence[Gathered], key: str | None, limit: int | None
    ) -> Json:
        plan, span = self._masters.master(app).plan, _span(base)
        rows = await asyncio.to_thread(_combine, plan, found, span)
        if key is not None:
            rows = with_first_column(plan, rows, key)
        rows = rows if limit is None else rows.head(limit)
        through_ms = least_through([each.through_ms for each in found])
        result = result_of(plan, span, rows, found[0].label, 0, through_ms, str)
        body: Json = msgspec.to_builtins(result)
        completeness = joined([each.completeness() for each in found])
        return {**base, **body, "completeness": completeness}


def _combine(plan: Plan, found: Sequence[Gathered], span: Span) -> pl.DataFrame:
    assert plan.joined is not None
    for columns, each in zip(plan.joined.read, found, strict=True):
        given = dict(each.plan.output)
        changed = next((name for name, kind in columns.items() if given.get(name) != kind), None)
        if changed is not None:
            raise JobError(
                f"{plan.definition.key} reads {each.key}, whose column {changed} is another one now: it was changed; "
                "stop and publish what reads it anew"
            )
    return plan.joined.combine([each.rows for each in found], (span.start_ms, span.end_ms))


def _span(result: Json) -> Span:
    return Span(result["window"]["start_ms"], result["window"]["end_ms"])
