"""Answers about a job that is mastered here, or for a side of it: each request and the part that knows the answer."""

from __future__ import annotations

from typing import Any

import msgspec

from elf.agents.applications.applications import Applications
from elf.agents.errors import UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.host.clock import Clock
from elf.agents.host.introduction import who_is_at
from elf.agents.publications.adoption import adopt
from elf.agents.publications.amendment import amend, leap
from elf.agents.publications.backfill import load
from elf.agents.publications.end import end
from elf.agents.results.own_results import OwnResults
from elf.agents.results.split.sides import Sides
from elf.agents.wire.application_messages import Ask
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.ownership import require_order
from elf.agents.wire.questions import Describe, Fate, Follow, Query, Retire, Stop
from elf.agents.wire.request import AnyRequest
from elf.agents.wire.root_groups import Enlist
from elf.agents.wire.shares import Adopt, AskShare, LoadIntervals, Watch
from elf.overlay.node import OverlayNode
from elf.overlay.rollup.succession import fate_of

#: How long an agent has to say that it runs where it says.
PLACE_MS = 3_000
#: What has no answer while a job is stopped.
_OF_RUNNING = Query | Follow | AskShare | Watch | LoadIntervals | Leap | Ask
#: What is asked of a job's master, and answered by no other agent; a side's provisional master answers the first three.
OF_JOB = (
    *(Describe, Query, Follow, Fate),
    *(AskShare, Watch, Enlist, Stop, Retire, LoadIntervals, Amend, Adopt, Leap, Ask),
)


class JobAnswers:
    """Answers about the jobs that are mastered at one agent.

    Args:
        node: the overlay.
        masters: these jobs.
        sides: jobs that are answered for one side only.
        results: results of both.
        applications: those that run beside them.
        now_ms: the agent's clock.
    """

    def __init__(
        self,
        node: OverlayNode,
        masters: Masters,
        sides: Sides,
        results: OwnResults,
        applications: Applications,
        now_ms: Clock,
    ) -> None:
        self._node = node
        self._masters = masters
        self._sides = sides
        self._results = results
        self._applications = applications
        self._now_ms = now_ms

    async def answer(self, request: AnyRequest) -> Any:
        """Answer a request about a job that is mastered here; raises ElfError."""
        if isinstance(request, _OF_RUNNING):
            self._masters.require_running(request.app)
        match request:
            case Query() | Follow() | AskShare() | Watch():
                return await self._results.answer(request)
            case Describe(app) if self._sides.holds(app):
                held = self._sides.answerer(app)
                described = await self._masters.describe_copy(held.job, held.master)
                return {**described, "master": self._node.contact.address}
            case Describe(app):
                described = await self._masters.describe(app)
                return {**described, "application": self._applications.describe(self._masters.job(app))}
            case Fate(app, tree, agent, previous, through):
                if self._masters.job(app).tree != tree:
                    raise UnavailableError("this is not the job's newest publication")
                return fate_of(self._masters.master(app).state.rollup, agent, previous, through)
            case Ask():
                return await self._applications.answer(request)
            case _:
                return await self._change(request)

    async def _check_place(self, agent: str, address: str) -> None:
        """See that an agent runs at the address that it says.

        Whoever was there before is never counted again, and all who were enlisted are remembered.

        Raises:
            UnavailableError: another one does, or nobody answers there now.
        """
        there = await who_is_at(self._node, address, PLACE_MS)
        if there.agent_id != agent:
            raise UnavailableError(f"at {address} runs the agent {there.agent_id}, not {agent}")

    async def _change(self, request: AnyRequest) -> Any:
        masters = self._masters
        match request:
            case Enlist(app, instance, agent_id, address):
                if masters.job(app).instance != instance:
                    raise UnavailableError("this is not the job's newest publication")
                if masters.would_enlist(app, agent_id, address):
                    await self._check_place(agent_id, address)
                return msgspec.to_builtins(await masters.enlist(app, agent_id, address))
            case Retire(app, agent):
                if request.alone:
                    require_order(masters.job(app), request.order, "retire")
                return await masters.retire(app, agent)
            case LoadIntervals(app=app):
                masters.require_data(app)
                require_order(masters.job(app), request.order, "load")
                return await load(masters, request)
            case Amend():
                return await amend(masters, request, self._now_ms())
            case Adopt():
                return await adopt(masters, request)
            case Leap():
                return leap(masters, request)
            case Stop(app, order):
                await end(masters, app, self._now_ms(), order)
                return None
            case _:
                raise AssertionError(request)
