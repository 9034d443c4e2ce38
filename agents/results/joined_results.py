"""Answers of a job that reads other jobs: their masters are asked for the very same window.

What was joined is never kept: whoever asks again gets what the other jobs say by then, late data included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from elf.agents.completeness.statement import joined
from elf.agents.errors import JobError
from elf.agents.group.masters import Masters
from elf.agents.jobs.key_texts import with_first_column
from elf.agents.jobs.parts import first_part
from elf.agents.jobs.plan import Plan
from elf.agents.language.joins import Joined, Use
from elf.agents.master.results import Result, Span
from elf.agents.master.share import Answer, least_through
from elf.agents.master.windows import Windows
from elf.agents.results.answerer import Parted
from elf.agents.results.gatherer import Gathering, all_of
from elf.agents.results.joined_news import read_by
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Query


class Joining(Parted):
    """Answers for a job that reads others as its master.

    Args:
        masters: the jobs mastered here.
        app: the job.
        joined: what it reads.
        gathering: asks for the results of other jobs.
    """

    def __init__(self, masters: Masters, app: bytes, joined: Joined, gathering: Gathering) -> None:
        super().__init__(masters, app)
        self._joined = joined
        self._gathering = gathering

    async def query(self, request: Query) -> Json:
        """Answer one window; `latest` is the newest that all jobs which are read have closed.

        Raises:
            UnknownJobError: the job is not mastered here.
            UnavailableError: a job that it reads cannot be asked now, or is not there.
            JobError: there is no such window, or no more.
        """
        own, span = await self._own(request.window)
        found = await self._read(span)
        if own.through_ms is None and "/" not in request.window:
            # Before the first commit there is no newest window; the others have closed the one that stands for it.
            return self.rendered(own.result())
        through_ms = least_through([each.through_ms for each in found])
        if request.window.strip().lower() == "latest" and through_ms is not None and through_ms < span.end_ms:
            run = self.windows.plan.window
            assert run is not None
            back_ms = -(-(span.end_ms - through_ms) // run.slide_ms) * run.slide_ms
            _, span = await self._own(Span(span.start_ms - back_ms, span.end_ms - back_ms))
            found = await self._read(span)
        plan = self.windows.plan
        return self.rendered(await asyncio.to_thread(_combined, plan, found, span, request.key, request.limit))

    async def _own(self, window: str | Span) -> tuple[Answer, Span]:
        """Return the job's own share, which has no rows: it is checked whether there is such a window, and which."""

        def find(windows: Windows, span: Span | None) -> Answer:
            return Answer.of([windows.share(span, None, 0, self.name_of)])

        own = await self.found(window, find)
        assert own.span is not None
        return own, own.span

    async def _read(self, span: Span) -> list[Answer]:
        """Ask for a window of all jobs that are read."""
        return await all_of([self._ask(use, span) for use in self._joined.uses])

    async def _ask(self, use: Use, span: Span) -> Answer:
        answer = self._gathering.answer(first_part(use.job), span)
        return await read_by(self.job.definition.key, use.job, answer)


def _combined(plan: Plan, found: Sequence[Answer], span: Span, key: str | None, limit: int | None) -> Result:
    """Join answers of one window."""
    assert plan.joined is not None
    for columns, read, each in zip(plan.joined.read, plan.joined.query.reads, found, strict=True):
        given = dict(each.plan.output)
        changed = next((name for name, kind in columns.items() if given.get(name) != kind), None)
        if changed is not None:
            raise JobError(
                f"{plan.definition.key} reads {read.job}, whose column {changed} is another one now: it was changed; "
                "stop and publish what reads it anew"
            )
    rows = plan.joined.combine([each.rows for each in found], (span.start_ms, span.end_ms))
    if key is not None:
        rows = with_first_column(plan, rows, key)
    answer = Answer(
        plan=plan,
        span=span,
        rows=rows if limit is None else rows.head(limit),
        through_ms=least_through([each.through_ms for each in found]),
        completeness=joined([each.completeness for each in found]),
    )
    return answer.result()
