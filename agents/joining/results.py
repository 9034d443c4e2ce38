"""Results of jobs mastered here, also of those that read other jobs: their masters are asked for the very same window.

What was joined is never kept: whoever asks again gets what the other jobs say by then, late data included. Nobody is
sent a window that one of them has not closed yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import polars as pl

from agents.errors import JobError, StoppedError, UnavailableError, UnknownJobError
from agents.jobs.joins import Use
from agents.jobs.plan import Plan
from agents.joining.completeness import joined_completeness
from agents.masters.masters import Masters
from agents.masters.results import Json, Span, result_of
from agents.parts.gathered import Gathered
from agents.parts.gathering import Gathering, all_of
from agents.parts.shares import least_through
from overlay.ids import app_id

#: How long a window that the job's agents have closed is waited for at the masters of the jobs that it reads.
PATIENCE_S, LOOK_S = 5.0, 0.2


class JobResults:
    """Answers for jobs mastered here.

    Args:
        masters: these jobs.
        gathering: asks for the results of other jobs.
    """

    def __init__(self, masters: Masters, gathering: Gathering) -> None:
        self._masters, self._gathering = masters, gathering

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
        """Return the newest window that closed, once all jobs that are read have closed it; errors as `query`."""
        joins = self.joins(app)
        base = await self._masters.query(app, "latest", None, limit)
        return await self._closed(app, base, limit) if joins else base

    async def follow(self, app: bytes, edition: int, after_ms: int, wait_ms: int) -> Json:
        """Wait for another edition; see `Masters.follow`. Errors as `query`: a follower asks again."""
        joins = self.joins(app)
        answer = await self._masters.follow(app, edition, after_ms, wait_ms)
        if not joins:
            return answer
        return {**answer, "results": await all_of([self._closed(app, base, None) for base in answer["results"]])}

    def joins(self, app: bytes) -> bool:
        """Tell whether a job mastered here reads other jobs."""
        return self._masters.job(app).definition.joined is not None

    async def _closed(self, app: bytes, base: Json, limit: int | None) -> Json:
        """Make a window's result once all jobs that are read have closed the window."""
        span, loop = _span(base), asyncio.get_running_loop()
        end_s = loop.time() + PATIENCE_S
        while True:
            found = await self._gathered(app, span)
            through_ms = least_through([each.through_ms for each in found])
            if through_ms is not None and (through_ms >= span.end_ms or base["completeness"]["status"] == "open"):
                return {**await self._joined(app, base, found, None, limit), **_rest_of(base)}
            if loop.time() > end_s:
                behind = min(found, key=lambda each: each.through_ms or 0).key
                raise UnavailableError(f"{behind} has not closed the window that ends at {span.end_ms} yet")
            await asyncio.sleep(LOOK_S)

    async def _gathered(self, app: bytes, span: Span) -> list[Gathered]:
        """Ask for a window of all jobs that a job reads."""
        joined = self._masters.job(app).definition.joined
        assert joined is not None
        return await all_of([self._ask(app, use, span) for use in joined.uses])

    async def _ask(self, app: bytes, use: Use, span: Span) -> Gathered:
        creator, _, name = use.job.partition("/")
        key = self._masters.job(app).definition.key
        try:
            return await self._gathering.gathered(use.job, app_id(name, creator), span)
        except UnknownJobError:
            raise UnavailableError(f"{key} reads {use.job}, and there is no such job now") from None
        except StoppedError as error:
            # Not ours is stopped: who follows it waits until the other one is resumed.
            raise UnavailableError(f"{key} reads {use.job}: {error}") from None
        except JobError as error:
            raise type(error)(f"{key} reads {use.job}: {error}") from None

    async def _joined(
        self, app: bytes, base: Json, found: Sequence[Gathered], key: str | None, limit: int | None
    ) -> Json:
        plan, span = self._masters.master(app).plan, _span(base)
        rows = await asyncio.to_thread(_combine, plan, found, span)
        if key is not None:
            rows = rows.filter(rows.to_series(0).cast(pl.String) == key)
        rows = rows if limit is None else rows.head(limit)
        through_ms = least_through([each.through_ms for each in found])
        result = result_of(plan, span, rows, found[0].label, 0, through_ms, str)
        joined: Json = msgspec.to_builtins(result)
        completeness = joined_completeness([each.completeness() for each in found])
        return {**base, **joined, "completeness": completeness}


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


def _rest_of(base: Json) -> Json:
    return {name: base[name] for name in ("also_revised", "also_closed") if name in base}
