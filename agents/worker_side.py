"""The half of an agent that reads sources and works on jobs, put together (paper: Figure 8, "Job worker")."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from elf.agents.archive.keeper import Keeper
from elf.agents.archive.mirror import Mirror
from elf.agents.audits.auditor import Auditor
from elf.agents.audits.fates import Fates
from elf.agents.host.means import Means
from elf.agents.host.memory import give_back_at_rest
from elf.agents.intake.intake import Intake
from elf.agents.intake.source_checkpoints import Sealed
from elf.agents.intake.source_setup import make_pump, open_keeper, open_mirror
from elf.agents.jobs.versions import Versions
from elf.agents.master_side import MasterSide
from elf.agents.membership import Membership
from elf.agents.publications.attachments import Attachments
from elf.agents.replication.holder import Holder
from elf.agents.replication.replicas import Replicas
from elf.agents.settings.config import AgentConfig
from elf.agents.store.stores import Stores
from elf.agents.wire.audits import IsShut, Recheck, Show, Shut
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replicas import Keep, KeepCheckpoint, Recall
from elf.agents.worker import payload
from elf.overlay.contract import Verdict
from elf.overlay.errors import OvertakenError
from elf.overlay.node import OverlayNode

Handler = Callable[[Any], Awaitable[Any]]


class WorkerSide:
    """The sources of one agent, and the workers of all jobs that read them.

    Args:
        config: the agent's settings.
        node: the overlay.
        stores: its disk.
        jobs: what it knows of jobs, and masters.
        means: its clock, its randomness, and work beside.
    """

    def __init__(self, config: AgentConfig, node: OverlayNode, stores: Stores, jobs: MasterSide, means: Means) -> None:
        self._config = config
        self._node = node
        self._stores = stores
        self._spawn = means.spawn
        self._now_ms = means.now_ms
        self._is_root = jobs.masters.has_tree
        agent_id = stores.database.agent_id
        self.intakes: dict[str, Intake] = {}
        #: When sources that are left are left for good, whoever lacks what of them; by the event loop's clock.
        self.leave_by_s = float("inf")
        #: Held by whoever opens or closes sources while the agent runs.
        self.changing = asyncio.Lock()
        #: Looks after the archive's size, and its copy at a URL; None while there is none.
        self.keeper: Keeper | None = None
        self.mirror: Mirror | None = None
        self.replicas = Replicas(agent_id, node, jobs.catalogue, stores.checkpoints, means.spawn)
        self.holder = Holder(agent_id, node, jobs.catalogue, stores.held, means.spawn, means.now_ms)
        self.auditor = Auditor(agent_id, node, jobs.catalogue, stores.checkpoints, jobs.masters.doubt, means)
        self.fates = Fates(agent_id, node, jobs.catalogue)
        self.attachments = Attachments(
            node,
            self.intakes,
            jobs.catalogue,
            jobs.masters,
            stores,
            self.replicas,
            self.holder,
            jobs.sides.partaking,
        )

    async def settle(self, job: JobRecord, verdict: Verdict) -> None:
        """Tell a job's worker what became of its snapshots.

        Raises:
            OvertakenError: somebody has made it up.
        """
        intake = self.intakes.get(job.definition.source)
        if intake is None:
            return
        worker = intake.pump.workers.get(job.tree)
        is_ours = worker is None or self._is_root(job.tree)
        if worker is not None and not is_ours and not await self.fates.is_true(job, verdict, worker.progress):
            self.attachments.renew(job)
            raise OvertakenError("somebody has made it up")
        await intake.settle(job.tree, verdict)

    def handlers(self) -> dict[type, Handler]:
        """Return what answers the questions to this very agent that are about copies kept for others, and audits."""
        return {
            Keep: self.holder.keep,
            KeepCheckpoint: self.holder.keep_checkpoint,
            Recall: self._recall,
            Show: self.auditor.show,
            Recheck: self.auditor.recheck,
            Shut: self.auditor.heed,
            IsShut: self.auditor.is_shut,
        }

    def _seal(self, sealed: Sealed) -> None:
        """Hand a durable snapshot up."""
        tree, snapshot = sealed.tree, sealed.snapshot
        self.auditor.memory.keep(tree, snapshot.through, snapshot.payload, self._now_ms())
        self.attachments.seal(tree, snapshot)

    @property
    def unread(self) -> tuple[str, ...]:
        """The sources of which nothing is read, for nobody knows yet what their lines are."""
        return tuple(sorted(name for name, intake in self.intakes.items() if intake.pump.is_format_open))

    def open(self) -> None:
        """Open all sources, and read nothing yet.

        Raises:
            ConfigError: a source in the settings cannot be used.
        """
        self.mirror = open_mirror(self._config, self._stores.database.agent_id)
        for name in self._config.sources:
            self.intakes[name] = self.make_intake(name, self._config)

    def make_intake(self, name: str, config: AgentConfig) -> Intake:
        """Open a source by some settings, and read nothing yet.

        Raises:
            ConfigError: it cannot be used.
        """
        data, checkpoints = pathlib.Path(config.agent.data), self._stores.checkpoints
        agent_id = self._stores.database.agent_id
        pump, push = make_pump(name, config.sources[name], config, data, agent_id, checkpoints, self._now_ms)
        return Intake(pump, push, self._seal, self._node.congested)

    async def start(self, membership: Membership) -> None:
        """Take up the jobs of the last run, source by source, begin to read, and look after the archive."""
        for name in self.intakes:
            await self.begin(name, membership)
        # The intakes' archives have recovered.
        self.keeper = open_keeper(
            self._config, self._stores.database.agent_id, self._now_ms, self._stores.database.damages
        )
        for keeping in (self.keeper, self.mirror):
            if keeping is not None:
                self._spawn(keeping.run())
        self._spawn(self.replicas.run(self.attachments.attached))
        self._spawn(give_back_at_rest(lambda: sum(each.pump.counters.read for each in self.intakes.values())))

    async def begin(self, name: str, membership: Membership) -> None:
        """Take up the jobs of a source that is open, and begin to read it."""
        await self._enter(name, membership)
        self.intakes[name].start(lambda: membership.reintroduce(self.intakes))
        if self.keeper is not None:
            self.keeper.watch(name)

    async def stop(self) -> None:
        """Stop reading, and checkpoint."""
        for intake in self.intakes.values():
            await intake.stop()

    def merge(self, payloads: Sequence[bytes], versions: Versions) -> bytes:
        """Merge payloads of a job of these versions."""
        return payload.merge(payloads, versions)

    async def _recall(self, request: Recall) -> KeepCheckpoint | None:
        return await self.holder.recall(request.source, request.address)

    async def _enter(self, source: str, membership: Membership) -> None:
        """Join a source's tree, take up its jobs, and announce this agent there."""
        jobs = membership.enter(source)
        resumed = [job for job in jobs if self._stores.checkpoints.worker(job.tree) is not None]
        await asyncio.gather(
            *(self.attachments.refresh(job, self._now_ms.latest_ms()) for job in resumed if not job.stopped)
        )
        for job in jobs:
            if job in resumed:
                # Before the first line is read: what it misses now it would never get.
                await self.attachments.follow_newest(job.definition.app_id)
            else:
                self._spawn(self.attachments.follow(job))
        membership.reintroduce([source])
