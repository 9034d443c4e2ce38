"""Answers of one agent about itself, and about what it knows of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from elf.agents.applications.applications import Applications
from elf.agents.errors import ElfError
from elf.agents.group.masters import Masters
from elf.agents.host.clock import Clock
from elf.agents.master.listing import summary
from elf.agents.publications.end import install
from elf.agents.wire.agents import Introduce, ListJobs, ViewTree
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.placement import Install, Weigh
from elf.agents.wire.positions import Json
from elf.agents.wire.records import JobRecord, Member, contact_at
from elf.agents.wire.request import AnyRequest
from elf.agents.wire.sources import DescribeSource, Inspect
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

#: Jobs one `ListJobs` reply holds at most.
JOBS_MAX = 2_000

Handler = Callable[[Any], Awaitable[Any]]


class AgentAnswers:
    """Answers requests that are not about a job's master.

    Args:
        me: how this agent introduces itself.
        node: the overlay.
        catalogue: jobs and members known here.
        masters: jobs mastered here.
        applications: those that run here.
        here: by the kind of request, what answers those that are for this very agent.
        sources: answers about this agent's own sources.
        now_ms: the agent's clock.
    """

    def __init__(
        self,
        me: Callable[[], Member],
        node: OverlayNode,
        catalogue: Catalogue,
        masters: Masters,
        applications: Applications,
        here: Mapping[type, Handler],
        sources: Handler,
        now_ms: Clock,
    ) -> None:
        self._me = me
        self._node = node
        self._catalogue = catalogue
        self._masters = masters
        self._applications = applications
        self._here = here
        self._sources = sources
        self._now_ms = now_ms

    async def answer(self, request: AnyRequest, here: bool) -> tuple[Any] | Contact | None:
        """Answer a request; raises ElfError.

        Args:
            request: what is asked.
            here: it was sent to this very agent, not to whoever is near a key.

        Returns:
            The answer; who can answer; None if others nearer to the key may know.
        """
        if here and (handler := self._here.get(type(request))) is not None:
            return (await handler(request),)
        match request:
            case Weigh() if here:
                return (msgspec.to_builtins(self._masters.weigh(request, self._now_ms())),)
            case Install() if here:
                return ((await install(self._masters, request, self._now_ms())).encode(),)
            case DescribeSource(source=source) | Inspect(source=source):
                if source in self._me().sources:
                    return (await self._sources(request),)
                known = [m for m in self._catalogue.members(source) if m.agent_id != self._me().agent_id]
                return contact_at(known[0].address) if known else None
            case ListJobs(ended):
                return ([self._row(job) for job in self._jobs(ended)[:JOBS_MAX]],)
            case Introduce():
                return ({**msgspec.to_builtins(self._me()), "wall_ms": self._now_ms.wall_ms()},)
            case ViewTree(app):
                return (self._view(app),)
            case _:
                raise ElfError("this request is for one agent, not to be routed")

    def _view(self, app: bytes) -> Json:
        """Tell this agent's place in a job's tree."""
        published = self._catalogue.job(app)
        view = self._node.tree(published.tree if published else app)
        return {
            "address": self._node.contact.address,
            "name": self._me().name,
            "role": view.role,
            "parent": view.parent.address if view.parent else None,
            "children": [child.address for child in view.children],
        }

    def _row(self, job: JobRecord) -> Json:
        trouble = self._applications.trouble(job)
        return summary(job) if trouble is None or job.why else {**summary(job), "trouble": trouble}

    def _jobs(self, ended: bytes | None) -> list[JobRecord]:
        """Return the jobs that are known here, and `ended` too if it is known to be over."""
        over = None if ended is None else self._catalogue.job(ended)
        known = [over] if over is not None and over.stopped else []
        known += [*self._masters.jobs, *self._catalogue.running()]
        return list({job.definition.app_id: job for job in known}.values())
