"""One agent: its parts put together, started, and stopped in order (DESIGN section 2; paper: Figure 8).

The agent is the overlay's `Handler`: what comes from the tree is passed to the part that knows what to do. It decides
nothing itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import pathlib
import sqlite3
from collections.abc import Sequence

import msgspec

from elf.agents.applications.applications import Applications
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.mirror import Mirror
from elf.agents.dispatch import Answers
from elf.agents.errors import ElfError
from elf.agents.extensions.signed.runners import Runners, Trust
from elf.agents.group.copies import Copies
from elf.agents.group.leadership import JOB_KEY, Reigns
from elf.agents.group.masters import Masters
from elf.agents.group.transfer import Fetcher, Pages
from elf.agents.host.clock import Clock
from elf.agents.host.memory import give_back_at_rest
from elf.agents.host.neighbours import Neighbours
from elf.agents.identity import Doubles, open_state
from elf.agents.intake.intake import Intake
from elf.agents.intake.source_answers import OwnSources
from elf.agents.intake.source_setup import make_pump, open_keeper, open_mirror
from elf.agents.master.commands import Command, Turn
from elf.agents.publications.abandonment import GivingUp
from elf.agents.publications.attachments import RETRY_S_MAX, Attachments
from elf.agents.publications.notices import Telling
from elf.agents.publications.publisher import Publisher
from elf.agents.publications.replaced import Replaced
from elf.agents.replication.holder import Holder
from elf.agents.replication.replicas import Replicas
from elf.agents.results.feedback import FEEDBACK_KEY, Feedback
from elf.agents.results.inquiry import Asking
from elf.agents.results.own_results import OwnResults
from elf.agents.results.split.sides import Sides
from elf.agents.settings.config import AgentConfig, overlay_settings
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.controls import Controls
from elf.agents.store.groups import GroupLogs
from elf.agents.store.held import HeldCopies
from elf.agents.store.panes import Panes
from elf.agents.store.records import Records
from elf.agents.wire.catalogue import Catalogue, member_record
from elf.agents.wire.changes import Leapt
from elf.agents.wire.requests import JobRecord, Member
from elf.agents.wire.split import SIDE_KEY
from elf.agents.worker import payload
from elf.overlay.background import Background
from elf.overlay.contract import Commit, ControlEntry, Record, Verdict
from elf.overlay.decoding import read_msgpack
from elf.overlay.errors import OverlayError
from elf.overlay.fields import SERIAL_MAX
from elf.overlay.group.effects import Save
from elf.overlay.group.messages import Kind, Place
from elf.overlay.ids import Contact, source_id
from elf.overlay.node import OverlayNode
from elf.overlay.struct_types import prepare_structs

log = logging.getLogger(__name__)


class Agent:
    """One agent, from its settings.

    Args:
        config: the settings.
        clock: the time of day.
    """

    def __init__(self, config: AgentConfig, clock: Clock | None = None) -> None:
        self.config = config
        self.now_ms = clock or Clock()
        self._since_ms = self.now_ms()
        self._release = importlib.metadata.version("elf-stream")
        self.database = open_state(pathlib.Path(config.agent.data))
        self.agent_id = self.database.agent_id
        self.node = OverlayNode(overlay_settings(config, self.agent_id), self, groups=self)
        self.neighbours = Neighbours(self.node, self.now_ms)
        self.functions = Runners(Trust(config.functions.trusted), lambda *failed: self._giving_up.note(*failed))
        admits = self.functions.admit
        self.catalogue = Catalogue(admits)
        self._controls = Controls(self.database)
        panes, logs = Panes(self.database), GroupLogs(self.database)
        self.publisher = Publisher(self.node, self.known_sources, admits)
        self.copies = Copies(self.agent_id, self.node, panes, logs, self._controls, self.catalogue.learn, admits)
        self._fetcher = Fetcher(self.agent_id, self.node, panes, logs, self._controls, self.copies)
        self._pages = Pages(panes, self._controls, self.copies)
        telling = Telling(self.publisher.spread, lambda key, request, ms: self.asking.ask(key, request, ms))
        self._reigns = Reigns(self.node, self.copies, self._controls, self.catalogue, telling, self.now_ms)
        self.copies.changed = self._on_decided
        self.copies.opened = self._reigns.on_opened
        self.masters = Masters(self.node, self.copies, self._reigns, self.catalogue.name_of)
        self.intakes: dict[str, Intake] = {}
        #: Looks after the archive's size, and its copy at a URL; None while there is none.
        self.keeper: Keeper | None = None
        self.mirror: Mirror | None = None
        self._records = Records(self.database)
        self._checkpoints = Checkpoints(self.database)
        self._background = Background()
        self._spawn = self._background.spawn
        self.doubles = Doubles(self.database, self.introduce, self.node, self._reintroduce, self.intakes, self._spawn)
        self.sides = Sides(self.node, self.copies, self.catalogue, self.database, self._spawn, self.now_ms)
        self.replicas = Replicas(self.agent_id, self.node, self.catalogue, self._checkpoints, self._spawn)
        self.asking = Asking(
            self.node, self.catalogue, self.masters, self.sides, lambda key, body: self.answers.answer(key, body)
        )
        self._giving_up = GivingUp(self.catalogue, self.asking.ask, lambda: self.introduce().name)
        results = OwnResults(self.masters, self.sides, self.asking.gathering, self.asking.following)
        self.feedback = Feedback(self.node, self.masters, results, self.catalogue)
        self.applications = Applications(
            self.introduce, self.node, self.catalogue, self.masters, self.asking, self.now_ms
        )
        held = HeldCopies(self.database)
        self.holder = Holder(self.agent_id, self.node, self.catalogue, held, self._spawn, self.now_ms)
        self.answers = Answers(
            self.introduce,
            self.node,
            self.catalogue,
            self.masters,
            results,
            self.sides,
            self._pages,
            OwnSources(self).answer,
            self.add_record,
            self.holder,
            self.applications,
            self.now_ms,
        )
        self.attachments = Attachments(
            self.agent_id,
            self.node,
            self.intakes,
            self.catalogue,
            self.masters,
            self._checkpoints,
            self._controls,
            self.replicas,
            self.holder,
            self.sides.partaking,
        )

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
        )

    def known_sources(self) -> set[str]:
        """Return the sources this agent has or has heard of."""
        return {job.definition.source for job in self.catalogue.running()} | set(self.config.sources)

    async def start(self) -> None:
        """Open sockets, take up the last run's work, and begin to read.

        Raises:
            ConfigError: a source, a secret or an address in the settings cannot be used.
        """
        prepare_structs("elf.overlay", "elf.cbt", "elf.agents")
        data = pathlib.Path(self.config.agent.data)
        self.mirror = open_mirror(self.config, self.agent_id)
        for name, source in self.config.sources.items():
            pump, push = make_pump(name, source, self.config, data, self.agent_id, self._checkpoints, self.now_ms)
            self.intakes[name] = Intake(
                pump, push, lambda one: self.attachments.seal(one.tree, one.snapshot), self.node.congested
            )
        await self.node.start()
        await self.doubles.check()
        self.copies.restore()
        self.holder.restore()
        # Not before these: while it is waited for, others may bring groups that are still to be taken up.
        await self.neighbours.compare()
        for name, intake in self.intakes.items():
            await self._enter_source(name)
            intake.start()
        self._reigns.restored()
        # The intakes' archives have recovered.
        self.keeper = open_keeper(self.config, self.agent_id, self.now_ms, self.database.damages)
        for keeping in (self.keeper, self.mirror):
            if keeping is not None:
                self._spawn(keeping.run())
        self._spawn(self.neighbours.entering.run())
        self._spawn(self.neighbours.run())
        self._spawn(self.replicas.run(self.attachments.attached))
        self._spawn(self.sides.masters.watch())
        self._spawn(self.feedback.run())
        self._spawn(self.applications.run())
        self._spawn(self.functions.run())
        self._spawn(self._giving_up.run())
        self._spawn(give_back_at_rest(lambda: sum(each.pump.counters.read for each in self.intakes.values())))
        self._spawn(Replaced(self.masters, self.catalogue, self.asking.ask, self.now_ms).run())

    async def stop(self) -> None:
        """Stop reading, checkpoint, leave the overlay, close."""
        await self._background.stop()
        for intake in self.intakes.values():
            await intake.stop()
        self.functions.close()
        await self._reigns.stop()
        self._pages.close()
        await self.node.stop()
        self.database.close()

    def add_record(self, tree: bytes, record: Record) -> bool:
        """Put a control record into a tree this agent stands in, and heed it here too."""
        new: bool = self.node.add_record(tree, record)
        if new:
            self.on_record(tree, record)
        return new

    def announce(self, source: str, record: Record) -> bool:
        """Tell the agents of a source something; False if this agent is none of them."""
        if source not in self.intakes:
            return False
        self.add_record(source_id(source), record)
        return True

    # The overlay's Handler.

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer a request or say who can."""
        return await self.answers.answer(key, body)

    def on_record(self, app: bytes, record: Record) -> None:
        """Learn a job or a member; start or stop working on the job if it is of one of our sources."""
        if record.key == FEEDBACK_KEY:
            return  # the overlay keeps the newest for us
        if record.key == SIDE_KEY:
            self.sides.on_record(app, record)
            return
        try:
            if record.key == JOB_KEY:
                told = JobRecord.decode(record.body)
                self.catalogue.learn(told)
                self.node.move_root(told.tree, told.master, told.stamp_ms)
                self._follow_change(told)
                return
            job = self.catalogue.learn_record(record)
        except (msgspec.DecodeError, ElfError, ValueError) as error:
            log.warning("control record %s cannot be used here: %s", record.key, error)
            return
        try:
            # At once, so that whoever published knows it is on disk somewhere; a full disk must not lose the job.
            self._records.put(app, record)
        except (OSError, sqlite3.Error) as error:
            log.error("control record %s is not on disk yet: %s", record.key, error)
            self._spawn(self._remember(app, record))
        if job is not None:
            self._reigns.on_record(job)
            if job.definition.source in self.intakes:
                self._spawn(self._follow(job))
        if record.key == member_record(self.introduce(), 0).key:
            if self.catalogue.is_gone(self.agent_id):
                # Somebody took us for gone.
                self._introduce_to(app, record.version + 1)
            self.doubles.heed(record)

    def _on_decided(self, app: bytes, command: Command | None) -> None:
        """A copy of ours has applied a command, or has begun or ceased to lead."""
        self._reigns.on_changed(app, command)
        copy = self.copies.get(app)
        if isinstance(command, Turn) and copy is not None:
            self._follow_change(copy.job)

    def _follow_change(self, job: JobRecord) -> None:
        """Count by a job's newest version, sooner than its source's tree brings it."""
        if job.versions and job.definition.source in self.intakes:
            self._spawn(self._follow(job))

    async def _follow(self, job: JobRecord) -> None:
        await self.doubles.checked.wait()
        self.neighbours.look()
        await self.attachments.follow(job)

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Make a commit durable; what only one side has counted is not."""
        if not await self.sides.commit(app, commit):
            await self.masters.commit(app, commit)

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Tell the worker what became of its snapshots; what a provisional master says of them settles nothing."""
        if self.sides.on_verdict(app, verdict):
            return
        job = self.catalogue.job_of_tree(app)
        if job is not None and job.definition.source in self.intakes:
            await self.intakes[job.definition.source].settle(app, verdict)

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Note durably how far a tree's control log was handled; at a job's root, on its whole group."""
        if self.sides.is_side(app):
            return
        entry = await self.masters.say(app, entry)
        if await asyncio.to_thread(self._controls.put, app, entry):
            self._heed(app, entry)
            await self.applications.on_control(app, entry)

    def _heed(self, app: bytes, entry: ControlEntry) -> None:
        """Do what the root says; what is not understood here is another release's, or the application's."""
        with contextlib.suppress(msgspec.DecodeError, OverlayError):
            self.node.leap(app, read_msgpack(entry.body, Leapt).through)

    async def on_group_save(self, app: bytes, save: Save) -> None:
        """Make a root group's promises durable."""
        await self.copies.on_save(app, save)

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        """Apply what a root group has decided."""
        await self.copies.on_apply(app, place, kind, body)

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        """Be a job's master, or be it no more."""
        self.copies.on_lead(app, leads)

    def on_group_behind(self, app: bytes, leader: Contact, term: int) -> None:
        """Fetch a copy."""
        self._spawn(self._fetcher.fetch(app, leader, term))

    def on_group_gone(self, app: bytes) -> None:
        """Forget a copy."""
        job = self.copies.apps.get(app)
        if job is not None:
            self._spawn(self.copies.drop(job, app))

    def is_group_over(self, app: bytes) -> bool:
        """Tell whether the job whose tree this is was stopped."""
        return self.catalogue.is_over(app)

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Merge payloads of a job."""
        return payload.merge(payloads, self.catalogue.versions(self.sides.tree_of(app)))

    # Own work.

    async def _remember(self, app: bytes, record: Record) -> None:
        """Write a control record down once the disk takes it; a newer version stays."""
        while True:
            await asyncio.sleep(RETRY_S_MAX)
            with contextlib.suppress(OSError, sqlite3.Error):
                await asyncio.to_thread(self._records.put, app, record)
                return

    async def _enter_source(self, source: str) -> None:
        """Join a source's tree with what we knew of it, and announce ourselves there."""
        tree = source_id(source)
        self.node.join_tree(tree, member=True, control=self._controls.state(tree))
        known = list(self._records.all(tree))
        for record in known:
            self.node.add_record(tree, record)
        # All before the first job is taken up, which may take a while: labels name agents.
        jobs = [job for job in map(self._learn_again, known) if job is not None]
        for lacking, _ in self.catalogue.unusable(source):
            # Lines are read on without it. A worker that came back would not know which; a new one says what it lacks.
            self._checkpoints.forget(lacking.tree)
        resumed = [job for job in jobs if self._checkpoints.worker(job.tree) is not None]
        await asyncio.gather(*(self.attachments.refresh(job) for job in resumed if not job.stopped))
        for job in jobs:
            if job in resumed:
                # Before the first line is read: what it misses now it would never get.
                await self.attachments.follow_newest(job.definition.app_id)
            else:
                self._spawn(self.attachments.follow(job))
        self._introduce_to(tree)

    def _learn_again(self, record: Record) -> JobRecord | None:
        """Learn what an earlier run has stored; another release may have, and taken what this one refuses."""
        try:
            return self.catalogue.learn_record(record)
        except (msgspec.DecodeError, ElfError, ValueError) as error:
            log.error("control record %s of an earlier run cannot be used here: %s", record.key, error)
            return None

    def _reintroduce(self) -> None:
        for source in self.intakes:
            self._introduce_to(source_id(source))

    def _introduce_to(self, tree: bytes, version: int = 0) -> None:
        """Tell the agents of a source that we are one of them; after whatever is said of us there."""
        me = member_record(self.introduce(), 0)
        known = max((record.version + 1 for record in self.node.records(tree) if record.key == me.key), default=0)
        later = min(max(self.now_ms(), known, version), SERIAL_MAX)
        self.add_record(tree, msgspec.structs.replace(me, version=later))
