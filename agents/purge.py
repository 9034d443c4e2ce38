"""Purging a job or an agent everywhere, by an operator's order: nothing of it stays on any agent, nor comes back.

The order is asked of all agents that are known, and spreads in the trees of all sources, where it stays: an agent that
was away hears of it there. It is on an agent's disk before anything is erased, so what a crash has left goes at the
next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence

from elf.agents.errors import ElfError, NotAdmittedError, UnavailableError
from elf.agents.host.means import Means
from elf.agents.jobs.orders import Order
from elf.agents.master_side import MasterSide
from elf.agents.store.stores import Stores
from elf.agents.wire.positions import Json
from elf.agents.wire.purges import PREFIX, Purge, order_of, purge_record
from elf.agents.wire.records import JOB, MEMBER, JobRecord, Member
from elf.agents.wire.request import encode
from elf.agents.wire.sources import Spread
from elf.agents.worker_side import WorkerSide
from elf.overlay.contract import Record
from elf.overlay.errors import OverlayError
from elf.overlay.ids import ID_BYTES, source_id
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: Under which tree the store has what was purged: no source's, nor a job's.
PURGES = bytes(ID_BYTES)


class Purging:
    """Purges at one agent, and has others do so.

    Args:
        me: how this agent introduces itself.
        node: the overlay.
        stores: its disk.
        jobs: what it knows of jobs and members, and masters.
        sources: its workers, and what it keeps for others.
        announce: puts a record into the tree of a source that this agent has; False if it has not.
        means: its clock, and work beside.
    """

    def __init__(
        self,
        me: Callable[[], Member],
        node: OverlayNode,
        stores: Stores,
        jobs: MasterSide,
        sources: WorkerSide,
        announce: Callable[[str, Record], bool],
        means: Means,
    ) -> None:
        self._me = me
        self._node = node
        self._records = stores.records
        self._catalogue = jobs.catalogue
        self._purges = jobs.catalogue.purges
        self._groups = jobs.groups
        self._asking = jobs.asking
        self._attachments = sources.attachments
        self._holder = sources.holder
        self._announce = announce
        self._audit = stores.audit
        self._now_ms = means.now_ms
        self._spawn = means.spawn
        #: One at a time: what is heard of in two ways is erased once.
        self._lock = asyncio.Lock()

    def restore(self) -> None:
        """Take up what was purged in former runs, before anything else of these is; `finish` erases what is left."""
        for record in self._records.all(PURGES):
            with contextlib.suppress(ElfError):
                self._purges.take(order_of(record))

    async def finish(self) -> None:
        """Erase what a crash has left of what was purged, or a copy has brought."""
        for order in tuple(self._purges.orders()):
            async with self._lock:
                await self._erase(order)

    async def purge(self, order: Order) -> Json:
        """Purge something everywhere.

        Returns:
            `{"purged", "by", "agents": [{"agent", "purged", "why"}]}`: what, the operator's name, and who did so or why
            not; agents that did not answer are not in it, and hear of it later.

        Raises:
            NotCreatorError: the order is none of an operator's.
        """
        name = self._purges.operator(order)
        contacts = [self._node.contact, *self._node.contacts()]
        addresses = [each.address for each in contacts] + [each.address for each in self._catalogue.all_members()]
        addresses += [job.master.address for job in self._catalogue.jobs()]
        sources = {source for member in self._catalogue.all_members() for source in member.sources}
        # Before it is forgotten here where it was.
        answers = await self._asking.ask_each(list(dict.fromkeys(addresses)), Purge(order))
        await asyncio.gather(*(self._tell(source, order) for source in sorted(sources)))
        return {"purged": order.job, "by": name, "agents": sorted(answers, key=lambda each: str(each["agent"]))}

    async def answer(self, request: Purge) -> Json:
        """Purge something here, because another agent was asked to."""
        told = {"agent": self._me().name, "purged": True, "why": ""}
        try:
            await self.heed(request.order)
        except ElfError as error:
            return {**told, "purged": False, "why": str(error)}
        return told

    def on_record(self, record: Record) -> bool:
        """Purge what a record says, soon, if it is one of a purge; an order of others' operators is passed on only."""
        if not record.key.startswith(PREFIX):
            return False
        self._spawn(self._heed(record))
        return True

    async def _heed(self, record: Record) -> None:
        with contextlib.suppress(ElfError):
            await self.heed(order_of(record))

    async def heed(self, order: Order) -> None:
        """Purge something here, once.

        Raises:
            NotCreatorError: the order is none of an operator's of this agent.
            UnavailableError: it cannot be kept: the disk refused.
        """
        name = self._purges.operator(order)
        async with self._lock:
            if not self._purges.is_new(order):
                return
            try:
                await asyncio.to_thread(self._records.put, PURGES, purge_record(order))
            except (OSError, sqlite3.Error) as error:
                raise UnavailableError(f"the purge cannot be kept, so nothing is erased: {error}") from None
            self._purges.take(order)
            log.warning("%s is purged by operator %s", order.job, name)
            await asyncio.to_thread(self._audit.note, who=name, what="purge", on=order.job, status=200)
            await self._erase(order)

    async def _tell(self, source: str, order: Order) -> None:
        record = purge_record(order)
        if self._announce(source, record):
            return
        with contextlib.suppress(OverlayError, ElfError):
            await self._node.route(source_id(source), encode(Spread(source, record.key, record.version, record.body)))

    async def _erase(self, order: Order) -> None:
        if order.job.startswith(MEMBER):
            await self._erase_member(order.job.removeprefix(MEMBER))
            return
        name = order.job.removeprefix(JOB)
        known = {job.tree: job for job in self._catalogue.jobs() if job.definition.first.key == name}
        known |= {
            copy.job.tree: copy.job for copy in self._groups.copies.all() if copy.job.definition.first.key == name
        }
        for job in known.values():
            try:
                self._purges.check_job(job)
            except NotAdmittedError:
                await self._erase_job(job, order)

    async def _erase_job(self, job: JobRecord, order: Order) -> None:
        """Let go of a job as of one that has ended, and then of its end."""
        app, source = job.definition.app_id, job.definition.source
        tombstone = job.tombstone(self._now_ms(), order)
        self._catalogue.bury(tombstone)
        await self._groups.leadership.purge(app, tombstone)
        await self._attachments.purge(tombstone)
        self._holder.forget(job.tree)
        # Of the job's own tree all: results for its agents, too.
        own = [(job.tree, record.key) for record in self._node.records(job.tree)]
        await self._forget([(source_id(source), JOB + job.definition.key), *own])
        self._catalogue.forget_job(tombstone)

    async def _erase_member(self, agent_id: str) -> None:
        member = self._catalogue.member(agent_id)
        if agent_id != self._me().agent_id:
            await self._holder.forget_agent(agent_id)
        if member is None:
            return
        await self._forget([(source_id(source), MEMBER + agent_id) for source in member.sources])
        self._catalogue.forget_member(agent_id)

    async def _forget(self, places: Sequence[tuple[bytes, str]]) -> None:
        for tree, key in places:
            self._node.forget_record(tree, key)
            await asyncio.to_thread(self._records.forget, tree, key)
