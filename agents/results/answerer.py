"""Whoever answers for a job here, from the panes that are had here: results, shares and news.

The master of a job of one part has the share that is the whole answer, and renders it; so has the provisional one of a
side (`elf.agents.results.split`), for as much as its side knows. The master of one of several parts says who has to be
asked, and that of a job that reads others (`elf.agents.results.joined_results`) asks them itself.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from elf.agents.errors import JobError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.language.query import Window
from elf.agents.master.announcement import Told, news_with_results, told_of
from elf.agents.master.results import Result, Span
from elf.agents.master.windows import Windows
from elf.agents.results.shares import Shared
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Follow, Query
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import AskShare, Watch

T = TypeVar("T")


class Answerer(abc.ABC):
    """Answers for one job. Every use may raise UnknownJobError: another agent does, by now."""

    #: Turns an agent id into a name for people.
    name_of: Callable[[str], str]

    @property
    @abc.abstractmethod
    def job(self) -> JobRecord:
        """The job, or the part of one."""

    @property
    @abc.abstractmethod
    def windows(self) -> Windows:
        """What its panes say."""

    @abc.abstractmethod
    def rendered(self, result: Result) -> Json:
        """Return a result as the API has it, as this one answers it."""

    @abc.abstractmethod
    async def follow(self, request: Follow, wait_ms: int) -> Json:
        """Wait for news of the job; return what they bring a follower."""

    async def query(self, request: Query) -> Json:
        """Answer one window; raises JobError if it is not one of the job's."""

        def find(windows: Windows, span: Span | None) -> Result:
            return windows.result(span, request.key, request.limit, self.name_of)

        return self.rendered(await self.found(request.window, find))

    async def found(self, window: str | Span, find: Callable[[Windows, Span | None], T]) -> T:
        """Find something of a window, as people write it or in ms, in a thread; errors as `Windows.share`."""
        windows = self.windows
        while True:
            had_begun = windows.through_ms is not None
            span = window if isinstance(window, Span) else windows.resolve(window)
            found = await asyncio.to_thread(find, windows, span)
            if had_begun or windows.through_ms is None:
                return found
            # The first commit came between: the window that stood for those to come would be a final one of long ago.

    async def news(self, edition: int, after_ms: int) -> tuple[int, list[Json]]:
        """Return the edition now, and the results that it brings a follower."""
        return await asyncio.to_thread(news_with_results, self.windows, edition, after_ms, self.name_of, self.rendered)


class Mastered(Answerer):
    """Answers for a part of a job as its master.

    Args:
        masters: the jobs mastered here.
        app: the part.
    """

    def __init__(self, masters: Masters, app: bytes) -> None:
        self._masters = masters
        self._app = app
        self.name_of = masters.name_of

    @property
    def job(self) -> JobRecord:
        """The part's record."""
        return self._masters.job(self._app)

    @property
    def windows(self) -> Windows:
        """What its master has."""
        return self._masters.master(self._app).windows

    def rendered(self, result: Result) -> Json:
        """Return a result as the API has it; of one side only, with who answers, and in which term of its group."""
        body = rendered(self.job.definition.key, result, self._masters.address)
        if body["completeness"]["status"] == "partial":
            body["completeness"] |= self._masters.side_of(self._app)
        return body

    async def follow(self, request: Follow, wait_ms: int) -> Json:
        """Wait for another edition; return what it brings a follower that knows this one (`Windows.news`)."""
        edition, results = request.edition, list[Json]()
        if await self._masters.changed(self._app, edition, wait_ms) is not None:
            edition, results = await self.news(edition, request.after_ms)
        return {"edition": edition, "results": results}

    async def share(self, request: AskShare) -> Json:
        """Return the part's share of a window, for an agent that puts those of all parts together."""
        self._masters.require_data(self._app)

        def find(windows: Windows, span: Span | None) -> Shared:
            share = windows.share(span, request.key, request.limit, self.name_of, request.version)
            if share.rows is None:
                rollup = windows.state.rollup
                # Who is expected no more may have brought some of what is left out.
                everybody = tuple(sorted({*share.label.missing, *rollup.roster, *rollup.retired}))
                label = replace(share.label, expected=len(everybody), missing=everybody)
                share = replace(share, label=label, names={agent: self.name_of(agent) for agent in everybody})
            # The job as it is now: it may have been changed since, but it has the version that was found.
            return Shared.of(self.job, share)

        window = request.window if request.span is None else Span(*request.span)
        body: Json = msgspec.to_builtins(await self.found(window, find))
        return body

    async def watch(self, request: Watch, wait_ms: int) -> Json:
        """Wait for another edition of the part; return what is new.

        Raises:
            JobError: a job that reads it asks for windows, and it has none.
        """
        if request.window is not None and self.windows.plan.window is None:
            raise JobError(f"{self.job.definition.key} has no window now: it was published anew")
        job, master = self.job, await self._masters.changed(self._app, request.edition, wait_ms)
        if master is None:
            told = Told(job=job, edition=request.edition, through_ms=self.windows.through_ms)
        else:
            told = await asyncio.to_thread(_told, job, master.windows, request)
        body: Json = msgspec.to_builtins(told)
        return body


def _told(job: JobRecord, windows: Windows, request: Watch) -> Told:
    other = None if request.window is None else Window(*request.window)
    while True:
        told = told_of(job, windows, request.edition, request.after_ms, other)
        # Else what closed with a commit that came between might be passed over.
        if windows.edition == told.edition:
            return told


class Parted(Mastered):
    """Answers as the master of one of several that have to be asked: it says so."""

    async def query(self, request: Query) -> Json:
        """Say that all parts have to be asked."""
        return parted(self.job)

    async def follow(self, request: Follow, wait_ms: int) -> Json:
        """Say that all have to be listened to."""
        return parted(self.job)


def parted(job: JobRecord) -> Json:
    """Answer a question that is not for one master: all parts have to be asked, or the masters of the jobs it reads."""
    return {"parted": job.encode()}


def parted_job(answer: Any) -> JobRecord | None:
    """Return the job of which an answer says that several masters have to be asked; None if it is another answer."""
    body = answer.get("parted") if isinstance(answer, dict) else None
    try:
        return JobRecord.decode(body) if isinstance(body, bytes) else None
    except msgspec.DecodeError as error:
        raise UnavailableError(f"another agent sent something that is no job: {error}") from None


def rendered(key: str, result: Result, master: str) -> Json:
    """Return a result of a job as the API has it, with the address of who answers for it."""
    body: Json = msgspec.to_builtins(result)
    return {"job": key, **body, "master": master}
