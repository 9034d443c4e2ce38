"""The half of an agent that masters jobs and answers for them, put together (paper: Figure 8, "Job master")."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from elf.agents.applications.applications import Applications
from elf.agents.extensions.signed.runners import Runners, Trust
from elf.agents.group.root_groups import RootGroups
from elf.agents.host.means import Means
from elf.agents.host.neighbours import Neighbours
from elf.agents.publications.abandonment import GivingUp
from elf.agents.publications.notices import Notices
from elf.agents.publications.publisher import Publisher
from elf.agents.publications.replaced import Replaced
from elf.agents.results.feedback import Feedback
from elf.agents.results.inquiry import AnswerHere, Asking
from elf.agents.results.location import JobRequest
from elf.agents.results.own_results import OwnResults
from elf.agents.results.split.sides import Sides
from elf.agents.settings.config import AgentConfig
from elf.agents.store.stores import Stores
from elf.agents.wire.application_messages import Letter
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.changes import Leapt
from elf.agents.wire.records import JobRecord, Member, contact_at
from elf.agents.wire.root_groups import Fetch
from elf.overlay.contract import ControlEntry
from elf.overlay.decoding import read_msgpack
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode

Handler = Callable[[Any], Awaitable[Any]]


class MasterSide:
    """Jobs published, mastered, answered for and followed at one agent.

    Args:
        config: the agent's settings.
        me: how it introduces itself.
        node: the overlay.
        stores: its disk.
        neighbours: whether it has met others yet.
        answer: its own answer to a request to a key.
        means: its clock, its randomness, and work beside.
    """

    def __init__(
        self,
        config: AgentConfig,
        me: Callable[[], Member],
        node: OverlayNode,
        stores: Stores,
        neighbours: Neighbours,
        answer: AnswerHere,
        means: Means,
    ) -> None:
        self._me = me
        self._node = node
        self._spawn = means.spawn
        self.functions = Runners(Trust(config.functions.trusted), self._on_failed_function)
        admits = self.functions.admit
        self.catalogue = Catalogue(admits, config.api.operators)
        self.publisher = Publisher(node, self.known_sources, means.rng, admits)
        others = Notices(self._spread, self._ask)
        self.groups = RootGroups(node, stores, self.catalogue, others, admits, means.spawn, means.now_ms)
        self.copies = self.groups.copies
        self.masters = self.groups.masters
        self.sides = Sides(node, self.copies, self.catalogue, stores.database, means.spawn, means.now_ms)
        self.asking = Asking(node, self.catalogue, self.masters, self.sides, neighbours, answer)
        self._giving_up = GivingUp(self.catalogue, self._ask, lambda: me().name)
        self.results = OwnResults(self.masters, self.sides, self.asking.gathering, self.asking.following)
        self.feedback = Feedback(node, self.masters, self.results, self.catalogue)
        self.applications = Applications(me, node, self.catalogue, self.masters, self.asking, means.now_ms, means.rng)
        self._replaced = Replaced(self.masters, self.catalogue, self._ask, means.now_ms)

    def known_sources(self) -> set[str]:
        """Return the sources this agent has or has heard of."""
        return {job.definition.source for job in self.catalogue.running()} | set(self._me().sources)

    def handlers(self) -> dict[type, Handler]:
        """Return what answers the questions to this very agent that are about masters and applications."""
        return {Fetch: self.groups.pages.answer, Letter: self.applications.receive}

    def start(self) -> None:
        """Go on with the jobs that were mastered here, and look after all."""
        self.groups.leadership.restored()
        self._spawn(self.sides.masters.watch())
        self._spawn(self.feedback.run())
        self._spawn(self.applications.run())
        self._spawn(self.functions.run())
        self._spawn(self._giving_up.run())
        self._spawn(self._replaced.run())

    async def stop(self) -> None:
        """End what is done for jobs; nothing is forgotten."""
        self.functions.close()
        await self.groups.stop()

    def heed(self, app: bytes, entry: ControlEntry) -> None:
        """Do what a job's root says; what is not understood here is another release's, or the application's."""
        with contextlib.suppress(msgspec.DecodeError, OverlayError):
            self._node.leap(app, read_msgpack(entry.body, Leapt).through)

    def _on_failed_function(self, *failed: Any) -> None:
        self._giving_up.note(*failed)

    async def _spread(self, job: JobRecord) -> bool:
        if not job.owner:
            return await self.publisher.spread(job)
        members = self.catalogue.members(job.definition.source)
        return await self.publisher.insist(job, [contact_at(member.address) for member in members])

    async def _ask(self, key: str, request: JobRequest, timeout_ms: int = 5_000) -> tuple[Any, list[str]]:
        return await self.asking.ask(key, request, timeout_ms)
