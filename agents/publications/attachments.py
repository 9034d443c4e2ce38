"""Which jobs this agent works on: workers attached to sources and trees, and detached again.

A job that is stopped and published again is another publication, with a tree, a worker and a master state of its own;
what an agent that was away still holds of the old one reaches nobody and is dropped.

The parts of a job with several trees are publications as well. Their new workers are fed from the same line on, or the
parts that come later would lack the first lines of a source.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import weakref
from collections.abc import Collection, Mapping, Sequence

import msgspec

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.intake.intake import Intake
from elf.agents.jobs.versions import Versions
from elf.agents.master.commands import Enlisted
from elf.agents.replication.holder import Holder
from elf.agents.replication.replicas import Replicas
from elf.agents.replication.succession import Succession
from elf.agents.results.split.participation import Partaking
from elf.agents.store.stores import Stores
from elf.agents.wire.catalogue import Catalogue, job_record
from elf.agents.wire.parts import siblings
from elf.agents.wire.questions import Locate, Located
from elf.agents.wire.records import JOB_KEY, JobRecord
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.root_groups import Enlist
from elf.agents.worker.snapshot_size import Handed
from elf.agents.worker.state import Progress, Snapshot
from elf.agents.worker.worker import Worker
from elf.overlay.contract import NEVER, Record, RollupState
from elf.overlay.errors import OverlayError
from elf.overlay.ids import source_id
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: First and longest pause before something that could not be done is tried again: a master out of reach, a full disk.
RETRY_S_MIN, RETRY_S_MAX = 0.1, 5.0
#: Where very many jobs wait for their masters, so many are tried again in a second: each asks over the network.
TRIES_PER_S = 50
#: Before the first line is read after a restart, masters are given so long to say whether their jobs were changed.
REFRESH_MS = 1_000
#: Before the first line of a source is read, the masters of all its jobs are waited for so long.
ALL_S = 10.0


class Attachments:
    """Attaches workers of this agent.

    Args:
        node: the overlay.
        intakes: this agent's sources.
        catalogue: the jobs known here; what it says now counts.
        masters: the jobs mastered here.
        stores: where workers were left, and how far control logs were handled.
        replicas: copies of snapshots at neighbours.
        holder: copies of others' here.
        partaking: this agent's part in results of one side only.
    """

    def __init__(
        self,
        node: OverlayNode,
        intakes: Mapping[str, Intake],
        catalogue: Catalogue,
        masters: Masters,
        stores: Stores,
        replicas: Replicas,
        holder: Holder,
        partaking: Partaking,
    ) -> None:
        self._agent_id = agent_id = stores.database.agent_id
        self._node = node
        self._intakes = intakes
        self._catalogue = catalogue
        self._masters = masters
        self._checkpoints = stores.checkpoints
        self._controls = stores.controls
        self._replicas = replicas
        self._holder = holder
        self._partaking = partaking
        #: Taking over what an agent whose disk is lost has left at its neighbours.
        self.succession = Succession(agent_id, node, intakes, catalogue, stores.checkpoints, self._enlist)
        #: Job, or source, -> lock, for as long as somebody holds it or waits for it.
        self._locks: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()
        #: Job -> tree of the publication worked on.
        self._trees: dict[bytes, bytes] = {}
        #: Since when a source waits for the masters of all its jobs before its first line is read.
        self._unread_s: dict[str, float] = {}
        #: Jobs that should be worked on and are not yet, with the reason; for `/readyz`.
        self.pending: dict[str, str] = {}
        #: Tree -> what was handed to it.
        self.handed: dict[bytes, Handed] = {}

    def attached(self) -> Mapping[str, Sequence[JobRecord]]:
        """Return the jobs worked on here, by source."""
        found: dict[str, list[JobRecord]] = {}
        for tree in self._trees.values():
            job = self._catalogue.job_of_tree(tree)
            if job is not None:
                found.setdefault(job.definition.source, []).append(job)
        return found

    def progress(self) -> list[tuple[str, int]]:
        """Return each job worked on here, and the position of the last control entry handled for it."""
        jobs = [job for job in map(self._catalogue.job_of_tree, self._trees.values()) if job is not None]
        return [(job.definition.key, self._node.control_mark(job.tree).position) for job in jobs]

    async def follow(self, job: JobRecord) -> None:
        """Do what a job's newest record says, one change of a job at a time, until it is done or superseded."""
        app, pause_s = job.definition.app_id, RETRY_S_MIN
        async with self._locks.setdefault(app, asyncio.Lock()):
            while self._catalogue.job(app) == job:
                try:
                    await self._apply(job)
                    self.pending.pop(job.definition.key, None)
                    if not job.stopped:
                        self._catalogue.confirm(job)
                    return
                except (OverlayError, ElfError, OSError, sqlite3.Error, msgspec.ValidationError) as error:
                    self.pending[job.definition.key] = str(error)
                    log.debug("job %s cannot be taken up yet: %s", job.definition.key, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, max(RETRY_S_MAX, len(self.pending) / TRIES_PER_S))
            if self._catalogue.job(app) is None:
                self.pending.pop(job.definition.key, None)

    async def purge(self, tombstone: JobRecord) -> None:
        """Let go of a purged job, whether it was taken up here or not."""
        if tombstone.definition.source in self._intakes:
            await self.follow(tombstone)
        self._replicas.forget(tombstone.tree)
        await asyncio.to_thread(self._checkpoints.forget, tombstone.tree)
        self.pending.pop(tombstone.definition.key, None)

    async def refresh(self, job: JobRecord, now_ms: int) -> None:
        """Learn a job's newest record from its master, if that answers soon: what changed while we were away.

        Args:
            job: the job.
            now_ms: the latest time that it may be, which the record is held to.
        """
        try:
            answer = await self._node.ask(job.master, encode(Locate(job.definition.app_id)), REFRESH_MS)
            newest = msgspec.convert(value_of(answer), Located).job
            if newest.definition.app_id == job.definition.app_id:
                self._catalogue.admit(source_id(newest.definition.source), job_record(newest), now_ms)
                self._catalogue.learn(newest)
        except (OverlayError, ElfError, msgspec.ValidationError) as error:
            log.debug("job %s: its master does not say whether it was changed: %s", job.definition.key, error)

    async def follow_newest(self, app: bytes) -> None:
        """Do what a job's newest record says, also if that is not the one in our store, or changes meanwhile."""
        while (job := self._catalogue.job(app)) is not None:
            await self.follow(job)
            if self._catalogue.job(app) == job:
                return

    def leave(self, source: str, held: Collection[bytes]) -> None:
        """Leave the trees of a source's jobs: their roots expect this agent no more. Its workers stay on disk.

        Of the trees in `held` the roots may lack something: nothing is said of these, or windows would not tell.
        """
        for job in list(self.attached().get(source, ())):
            self._trees.pop(job.definition.app_id, None)
            self.handed.pop(job.tree, None)
            self._partaking.forget(job.tree)
            self.pending.pop(job.definition.key, None)
            self._node.leave_tree(job.tree, retire=job.tree not in held, stay=self._masters.has_tree(job.tree))

    def seal(self, tree: bytes, snapshot: Snapshot) -> None:
        """Hand a durable snapshot to the tree.

        A refusal needs no answer here: the verdict that caused it waits in the pump and covers this snapshot too.
        """
        if self._node.seal(tree, snapshot.through, snapshot.payload):
            if snapshot.payload is not None:
                before = self.handed.get(tree, Handed())
                self.handed[tree] = Handed(before.snapshots + 1, before.bytes + len(snapshot.payload))
            self._replicas.offer(tree, snapshot)
            self._partaking.on_sealed(tree, snapshot)

    async def _apply(self, job: JobRecord) -> None:
        app, intake = job.definition.app_id, self._intakes.get(job.definition.source)
        if intake is None:
            return  # the source was left meanwhile
        attached = self._trees.get(app)
        if attached is not None and (attached != job.tree or job.stopped):
            await self._abandon(app, attached, intake)
        if job.stopped:
            await asyncio.to_thread(self._checkpoints.forget, job.tree)
        elif attached != job.tree:
            if not intake.pump.is_leaving:
                await self._attach(job, intake)
        else:
            versions = self._versions(job)
            await intake.change(job.tree, versions)
            self._stand(job, versions)

    async def _abandon(self, app: bytes, tree: bytes, intake: Intake) -> None:
        await intake.detach(tree)
        self._replicas.forget(tree)
        self._holder.forget(tree)
        self._partaking.forget(tree)
        self.handed.pop(tree, None)
        await asyncio.to_thread(self._checkpoints.forget, tree)
        if not self._masters.has_tree(tree):
            self._node.leave_tree(tree)
            await asyncio.to_thread(self._controls.forget, tree)
        del self._trees[app]

    async def _attach(self, job: JobRecord, intake: Intake) -> None:
        """Take a job up, with those of its other parts that are new here; without them, if one is not known yet.

        Their masters are asked before the source is held: one that does not answer holds up its own jobs alone.
        """
        while not await self._attach_with(job, intake, await self._entries(self._with_new_parts(job))):
            pass

    async def _attach_with(self, job: JobRecord, intake: Intake, entries: dict[bytes, Enlisted | None]) -> bool:
        """Do it, with what masters have said; False: another one has to be asked first."""
        source = job.definition.source
        async with self._locks.setdefault(b"source" + source.encode(), asyncio.Lock()):
            if self._trees.get(job.definition.app_id) == job.tree:
                self._stand(job, self._versions(job))  # it was taken up with another one meanwhile
                return True
            jobs = self._with_new_parts(job)
            if any(each.tree not in entries for each in jobs):
                return False
            if not jobs:
                return True
            await self.succession.settle(source)
            if self._is_unread(source):
                jobs = await self._ready_with_all(jobs, entries)
            workers = await asyncio.gather(*(self._worker(each, entries[each.tree]) for each in jobs))
            # The workers first: verdicts on what they sealed in their last lives come as soon as the trees are joined.
            await intake.attach(*workers)
            if self._intakes.get(source) is not intake:
                return True  # the source was left meanwhile; they are taken up if it comes back
            for each, worker in zip(jobs, workers, strict=True):
                self._begin(each, worker)
            return True

    async def _entries(self, jobs: Sequence[JobRecord]) -> dict[bytes, Enlisted | None]:
        """Ask the masters of jobs where new workers begin, by tree; None for those whose worker is on disk."""
        return dict(zip((each.tree for each in jobs), await asyncio.gather(*map(self._entry, jobs)), strict=True))

    async def _entry(self, job: JobRecord) -> Enlisted | None:
        return await self._enlist(job) if self._checkpoints.worker(job.tree) is None else None

    def _with_new_parts(self, job: JobRecord) -> list[JobRecord]:
        """Return what is to be taken up at once; nothing while a part's record, or its old worker's end, is to come.

        Whichever part is ready last takes up all of them.
        """
        if job.definition.is_alone or self._checkpoints.worker(job.tree) is not None:
            return [job]
        parts = siblings(job, self._catalogue)
        if any(self._trees.get(each.definition.app_id, each.tree) != each.tree for each in parts):
            return []
        return [each for each in parts if each.definition.app_id not in self._trees]

    def _is_unread(self, source: str) -> bool:
        """Tell whether no line of a source was ever read here: whoever is fed from its first line on gets all."""
        return self._checkpoints.source(source) is None and not self._intakes[source].pump.workers

    async def _ready_with_all(self, jobs: list[JobRecord], entries: dict[bytes, Enlisted | None]) -> list[JobRecord]:
        """Return what is to be fed from the first line of a source on: all jobs, as far as their masters answer.

        One that came later would lack what was read before, which an agent that lost its disk reads only this once.

        Raises:
            UnavailableError: for a while, that not all masters have answered.
        """
        source, now_s = jobs[0].definition.source, asyncio.get_running_loop().time()
        firsts = {each.definition.first.app: each for each in self._catalogue.running(source)}
        groups = [self._with_new_parts(each) for each in firsts.values() if each not in jobs]
        others = [each for group in groups for each in group if each not in jobs]
        await asyncio.gather(*(self._answer_of(each, entries) for each in others))
        answers = [each.tree in entries for each in others]
        if not all(answers) and now_s - self._unread_s.setdefault(source, now_s) < ALL_S:
            raise UnavailableError(f"the masters of other jobs of source {source} have not all answered yet")
        return [*jobs, *(each for each, answer in zip(others, answers, strict=True) if answer)]

    async def _answer_of(self, job: JobRecord, entries: dict[bytes, Enlisted | None]) -> None:
        with contextlib.suppress(OverlayError, ElfError, msgspec.ValidationError):
            entries[job.tree] = await self._entry(job)

    async def _worker(self, job: JobRecord, entry: Enlisted | None) -> Worker:
        """Return a job's worker as its last checkpoint left it, or a new one that its master knows of."""
        versions, state = self._versions(job), self._checkpoints.worker(job.tree)
        if state is not None:
            return Worker.restore(versions, self._agent_id, state)
        if entry is None:  # it was on disk a moment ago
            entry = await self._enlist(job)
        after = NEVER if entry.counted is None else entry.counted
        owed = () if entry.missed is None else ((after, entry.missed),)
        progress = Progress(counted=entry.counted, owed=owed)
        return Worker(versions, self._agent_id, progress, tree=job.tree, new=True, succeeds=bool(entry.of))

    def _begin(self, job: JobRecord, worker: Worker) -> None:
        """Join a job's tree and hand over what is retained."""
        tree = job.tree
        settled = NEVER if worker.progress.settled is None else worker.progress.settled
        self._stand(job, worker.versions, RollupState(committed=settled))
        # In one go with joining, so that nothing newer is handed over before the retained snapshots.
        for snapshot in self._checkpoints.snapshots(tree, after=settled):
            self.seal(tree, snapshot)
        self._trees[job.definition.app_id] = tree

    def renew(self, job: JobRecord) -> None:
        """Take a place in a job's tree anew, under another parent if there is one: the one there is misleads us."""
        worker = self._intakes[job.definition.source].pump.workers.get(job.tree)
        parent = self._node.tree(job.tree).parent
        if worker is None:
            return
        self._node.renew(job.tree)
        self._replicas.forget(job.tree)
        self._begin(job, worker)
        if parent is not None and parent != job.master:
            self._node.avoid(job.tree, parent)

    def _versions(self, job: JobRecord) -> Versions:
        """Return a publication's versions; UnavailableError if another one has followed, which is taken up for it."""
        try:
            return self._catalogue.versions(job.tree)
        except KeyError:
            raise UnavailableError(f"{job.definition.key} was published anew meanwhile") from None

    def _stand(self, job: JobRecord, versions: Versions, state: RollupState | None = None) -> None:
        """Stand in a job's tree as a member, under the root that its record names."""
        tree = job.tree
        rooted = self._masters.has_tree(tree)
        self._node.join_tree(
            tree,
            member=True,
            root=job.master,
            state=None if rooted else state,
            leap_after_ms=versions.newest.plan.leap_after_ms,
            control=self._controls.state(tree),
            reign=job.stamp_ms,
            rooted=rooted,
        )
        # Forwarders without the source hear of a new root from their children.
        self._node.add_record(tree, Record(JOB_KEY, job.stamp_ms, job.encode()))

    async def _enlist(self, job: JobRecord) -> Enlisted:
        """Ask the master where a new worker begins."""
        address = self._node.contact.address
        if self._masters.has_tree(job.tree):
            return await self._masters.enlist(job.definition.app_id, self._agent_id, address)
        request = Enlist(job.definition.app_id, job.instance, self._agent_id, address)
        return msgspec.convert(value_of(await self._node.ask(job.master, encode(request))), Enlisted)
