"""One agent: its two halves put together, started, and stopped in order (DESIGN section 2; paper: Figure 8).

The agent is the overlay's `Handler`: what comes from the tree is passed to the part that knows what to do. It decides
nothing itself.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import pathlib
from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import Any

import msgspec

from elf.agents.dispatch.composition import make_answers
from elf.agents.errors import ElfError
from elf.agents.host.clock import Clock
from elf.agents.host.means import Means
from elf.agents.host.neighbours import Neighbours
from elf.agents.identity import Doubles, open_state
from elf.agents.master.commands import Command, Turn
from elf.agents.master_side import MasterSide
from elf.agents.membership import Membership
from elf.agents.purge import Purging
from elf.agents.reconfiguration import Reconfiguration
from elf.agents.settings.config import AgentConfig, overlay_settings
from elf.agents.store.stores import Stores
from elf.agents.wire.records import FEEDBACK_KEY, JOB_KEY, JobRecord, Member
from elf.agents.wire.split import SIDE_KEY
from elf.agents.worker_side import WorkerSide
from elf.overlay.background import Background
from elf.overlay.contract import Commit, ControlEntry, Record, Verdict
from elf.overlay.group.effects import Save
from elf.overlay.group.messages import Kind, Place
from elf.overlay.ids import Contact, source_id
from elf.overlay.network import Network
from elf.overlay.node import OverlayNode
from elf.overlay.struct_types import prepare_structs

log = logging.getLogger(__name__)


class Agent:
    """One agent, from its settings.

    Args:
        config: the settings.
        clock: the time of day.
        network: clocks, sockets and links of the overlay; the real ones unless told otherwise.
        rng: source of everything random; a `SystemRandom` unless told otherwise.
    """

    def __init__(
        self, config: AgentConfig, clock: Clock | None = None, network: Network | None = None, rng: Random | None = None
    ) -> None:
        self.now_ms = clock or Clock()
        self.reconfiguration = Reconfiguration(config, self.now_ms)
        self._since_ms = self.now_ms()
        #: Called once this agent has left its jobs, and may end.
        self.on_departed: Callable[[], None] = lambda: None
        self._release = importlib.metadata.version("elf-stream")
        self._background = Background()
        self.means = Means(self.now_ms, rng if rng is not None else SystemRandom(), self._background.spawn)
        self.stores = Stores(open_state(pathlib.Path(config.agent.data), self.means.rng, self.now_ms), self.now_ms)
        self.agent_id = self.stores.database.agent_id
        self.node = OverlayNode(
            overlay_settings(config, self.agent_id), self, self.means.rng, network=network, groups=self, trust=self
        )
        self.neighbours = Neighbours(self.node, self.now_ms)
        self.jobs = MasterSide(
            config, self.introduce, self.node, self.stores, self.neighbours, self._answer, self.means
        )
        self.sources = WorkerSide(config, self.node, self.stores, self.jobs, self.means)
        self.jobs.copies.changed = self._on_decided
        self.membership = Membership(
            self.introduce, self.node, self.stores, self.jobs.catalogue, self.add_record, config.overlay, self.means
        )
        self.doubles = Doubles(
            self.stores.database, self.introduce, self.node, self._reintroduce, self.sources.intakes, self.means.spawn
        )
        self.purging = Purging(
            self.introduce,
            self.node,
            self.stores,
            self.jobs,
            self.sources,
            self.announce,
            self.means,
        )
        self.answers = make_answers(
            lambda: self.config,
            self.introduce,
            self.node,
            self.jobs,
            self.sources,
            self.add_record,
            self.now_ms,
            self.purging,
        )
        self.catalogue = self.jobs.catalogue
        self.catalogue.asks = self.sources.intakes.__contains__
        self.copies = self.jobs.copies
        self.masters = self.jobs.masters
        self.sides = self.jobs.sides
        self.asking = self.jobs.asking
        self.feedback = self.jobs.feedback
        self.publisher = self.jobs.publisher
        self.applications = self.jobs.applications
        self.intakes = self.sources.intakes
        self.attachments = self.sources.attachments
        self.holder = self.sources.holder
        self.replicas = self.sources.replicas
        self.database = self.stores.database
        self.reconfiguration.compose(self.node, self.neighbours, self.membership, self.jobs, self.sources, self.means)

    @property
    def config(self) -> AgentConfig:
        """The settings that hold."""
        return self.reconfiguration.config

    def introduce(self) -> Member:
        """Say who this agent is."""
        address = self.node.contact.address
        return Member(
            agent_id=self.agent_id,
            name=self.config.agent.name or address,
            address=address,
            sources=tuple(sorted(self.config.sources)),
            since_ms=self._since_ms,
            release=self._release,
            unread=self.sources.unread,
        )

    async def start(self) -> None:
        """Open sockets, take up the last run's work, and begin to read.

        Raises:
            ConfigError: a source, a secret or an address in the settings cannot be used.
        """
        prepare_structs("elf.overlay", "elf.cbt", "elf.agents")
        self.sources.open()
        await self.node.start()
        await self.doubles.check()
        self.purging.restore()
        self.jobs.copies.restore()
        self.sources.holder.restore()
        # Not before these: while it is waited for, others may bring groups that are still to be taken up.
        await self.neighbours.compare()
        await self.sources.start(self.membership)
        self.jobs.start()
        await self.purging.finish()
        self._background.spawn(self.neighbours.entering.run())
        self._background.spawn(self.neighbours.run())

    async def stop(self) -> None:
        """Stop reading, checkpoint, leave the overlay, close."""
        await self._background.stop()
        await self.sources.stop()
        await self.jobs.stop()
        await self.node.stop()
        self.stores.database.close()

    def add_record(self, tree: bytes, record: Record) -> bool:
        """Put a control record into a tree this agent stands in, and heed it here too; False if it is not believed.

        Raises:
            NotCreatorError: nobody may say that, or not now.
        """
        record = self.membership.completed(record)
        self.catalogue.admit(tree, record, self.now_ms.latest_ms(), told=False)
        new: bool = self.membership.believes(record) and self.node.add_record(tree, record)
        if new:
            self.on_record(tree, record)
        return new

    def announce(self, source: str, record: Record) -> bool:
        """Tell the agents of a source something; False if this agent is none of them."""
        if source not in self.sources.intakes:
            return False
        self.add_record(source_id(source), record)
        return True

    # The overlay's Handler.

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer a request or say who can."""
        return await self._answer(key, body)

    def admits(self, app: bytes, record: Record) -> bool:
        """Tell whether a neighbour's record may be taken; each that may not is logged once."""
        return self.membership.admits(app, record)

    def on_record(self, app: bytes, record: Record) -> None:
        """Learn a job or a member; start or stop working on the job if it is of one of our sources."""
        if record.key == FEEDBACK_KEY:
            return  # the overlay keeps the newest for us
        if record.key == SIDE_KEY:
            self.jobs.sides.on_record(app, record)
            return
        try:
            if record.key == JOB_KEY:
                self._on_job(JobRecord.decode(record.body))
                return
            job = self.membership.learn(app, record)
        except (msgspec.DecodeError, ElfError, ValueError) as error:
            log.warning("control record %s cannot be used here: %s", record.key, error)
            return
        if self.purging.on_record(record):
            return
        if job is not None:
            self.jobs.groups.leadership.on_record(job)
            if job.definition.source in self.sources.intakes:
                self._background.spawn(self._follow(job))
        if self.membership.is_own(record):
            if self.membership.retires(record):
                self.membership.introduce_to(app, record.version + 1)
            self.doubles.heed(record)

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Make a commit durable; what only one side has counted is not."""
        if not await self.jobs.sides.commit(app, commit):
            await self.jobs.masters.commit(app, commit)

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Tell the worker what became of its snapshots; what a provisional master says of them settles nothing."""
        if self.jobs.sides.on_verdict(app, verdict):
            return
        job = self.jobs.catalogue.job_of_tree(app)
        if job is not None:
            await self.sources.settle(job, verdict)

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Note durably how far a tree's control log was handled; at a job's root, on its whole group."""
        if self.jobs.sides.is_side(app):
            return
        entry = await self.jobs.masters.say(app, entry)
        if await asyncio.to_thread(self.stores.controls.put, app, entry):
            self.jobs.heed(app, entry)
            await self.jobs.applications.on_control(app, entry)

    async def on_group_save(self, app: bytes, save: Save) -> None:
        """Make a root group's promises durable."""
        await self.jobs.copies.on_save(app, save)

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        """Apply what a root group has decided."""
        await self.jobs.copies.on_apply(app, place, kind, body)

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        """Be a job's master, or be it no more."""
        self.jobs.copies.on_lead(app, leads)

    def on_group_behind(self, app: bytes, leader: Contact, term: int) -> None:
        """Fetch a copy."""
        self.jobs.groups.fetch(app, leader, term)

    def on_group_gone(self, app: bytes) -> None:
        """Forget a copy."""
        self.jobs.groups.drop(app)

    def is_group_over(self, app: bytes) -> bool:
        """Tell whether the job whose tree this is was stopped."""
        return self.jobs.catalogue.is_over(app)

    def on_chosen(self, app: bytes, child: Contact, claim: Any) -> None:
        """Merge a child's claim again; not where one side of a split counts for itself, which settles nothing."""
        if not self.jobs.sides.is_side(app):
            self.sources.auditor.begin(app, child, claim)

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Merge payloads of a job."""
        return self.sources.merge(payloads, self.jobs.catalogue.versions(self.jobs.sides.tree_of(app)))

    # The overlay's Trust.

    @property
    def public(self) -> bytes:
        """This agent's public key."""
        return self.membership.passport.key.public

    def sign(self, message: bytes) -> bytes:
        """Sign as this agent."""
        return self.membership.passport.key.sign(message)

    def key_of(self, agent: str) -> bytes | None:
        """Return the key that an agent has introduced itself with."""
        return self.jobs.catalogue.key_of(agent)

    def may_have_ended(self, app: bytes, interval: int) -> bool:
        """Tell whether an interval of a job that is mastered here can be over at any agent."""
        return self.jobs.catalogue.may_have_ended(self.jobs.sides.tree_of(app), interval, self.now_ms())

    # Jobs that change.

    def _on_job(self, job: JobRecord) -> None:
        """Heed a job's own record in its tree."""
        self.jobs.catalogue.learn(job)
        self.node.move_root(job.tree, job.master, job.stamp_ms)
        self.jobs.groups.leadership.on_record(job)
        self._follow_change(job)

    def _on_decided(self, app: bytes, command: Command | None) -> None:
        """A copy of ours has applied a command, or has begun or ceased to lead."""
        self.jobs.groups.leadership.on_changed(app, command)
        copy = self.jobs.copies.get(app)
        if isinstance(command, Turn) and copy is not None:
            self._follow_change(copy.job)

    def _follow_change(self, job: JobRecord) -> None:
        """Count by a job's newest version, sooner than its source's tree brings it."""
        if job.versions and job.definition.source in self.sources.intakes:
            self._background.spawn(self._follow(job))

    async def _follow(self, job: JobRecord) -> None:
        await self.doubles.checked.wait()
        self.neighbours.look()
        await self.sources.attachments.follow(job)

    async def _answer(self, key: bytes, body: bytes) -> bytes | Contact | None:
        return await self.answers.answer(key, body)

    def _reintroduce(self) -> None:
        self.membership.reintroduce(self.sources.intakes)
