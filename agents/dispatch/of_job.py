"""Answers about a job that is mastered here: each request and the part that knows the answer."""

from __future__ import annotations

from typing import Any

import msgspec

from elf.agents.applications.applications import Applications
from elf.agents.errors import JobError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.host.clock import Clock
from elf.agents.publications.adoption import adopt
from elf.agents.publications.amendment import amend, leap
from elf.agents.publications.backfill import load
from elf.agents.publications.end import end
from elf.agents.results.gatherer import parted
from elf.agents.results.joined_results import JobResults
from elf.agents.results.shares import share, watch
from elf.agents.wire.application_messages import Ask
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.requests import AnyRequest, Describe, Enlist, Follow, Query, Retire, Stop
from elf.agents.wire.shares import Adopt, LoadIntervals, Share, Watch

#: A follower's request is answered at the latest after this long, news or not.
FOLLOW_MS_MAX = 20_000
#: What has no answer while a job is stopped.
_OF_RUNNING = Query | Follow | Share | Watch | LoadIntervals | Leap | Ask
#: What is asked of a job's master, and answered by no other agent; a side's provisional master answers the first three.
OF_JOB = (
    *(Describe, Query, Follow),
    *(Share, Watch, Enlist, Stop, Retire, LoadIntervals, Amend, Adopt, Leap, Ask),
)


class JobAnswers:
    """Answers about the jobs that are mastered at one agent.

    Args:
        masters: these jobs.
        results: their results.
        applications: those that run beside them.
        now_ms: the agent's clock.
    """

    def __init__(self, masters: Masters, results: JobResults, applications: Applications, now_ms: Clock) -> None:
        self._masters = masters
        self._results = results
        self._applications = applications
        self._now_ms = now_ms

    async def answer(self, request: AnyRequest) -> Any:
        """Answer a request about a job that is mastered here; raises ElfError."""
        if isinstance(request, _OF_RUNNING):
            self._masters.require_running(request.app)
        match request:
            case Describe(app):
                described = await self._masters.describe(app)
                return {**described, "application": self._applications.describe(self._masters.job(app))}
            case Ask():
                return await self._applications.answer(request)
            case Query(app) | Follow(app) if self._masters.job(app).definition.options.trees > 1:
                return parted(self._masters.job(app))
            case Share(app=app) | LoadIntervals(app=app) if self._results.joins(app):
                raise JobError(f"{self._masters.job(app).definition.key} reads other jobs and has no data of its own")
            case Share():
                return await share(self._masters, request)
            case Watch():
                return await watch(self._masters, request, max(0, min(request.wait_ms, FOLLOW_MS_MAX)))
            case Query(app, window, key, limit):
                return await self._results.query(app, window, key, limit)
            case Follow(app, edition, after_ms, wait_ms):
                return await self._results.follow(app, edition, after_ms, max(0, min(wait_ms, FOLLOW_MS_MAX)))
            case _:
                return await self._change(request)

    async def _change(self, request: AnyRequest) -> Any:
        masters = self._masters
        match request:
            case Enlist(app, instance, agent_id, address):
                if masters.job(app).instance != instance:
                    raise UnavailableError("this is not the job's newest publication")
                return msgspec.to_builtins(await masters.enlist(app, agent_id, address))
            case Retire(app, agent):
                return await masters.retire(app, agent)
            case LoadIntervals():
                return await load(masters, request)
            case Amend():
                return await amend(masters, request, self._now_ms())
            case Adopt():
                return await adopt(masters, request)
            case Leap():
                return leap(masters, request)
            case Stop(app):
                await end(masters, app, self._now_ms())
                return None
            case _:
                raise AssertionError(request)
