"""One agent: its parts put together, started, and stopped in order (DESIGN section 2; paper: Figure 8).

The agent is the overlay's `Handler`: what comes from the tree is passed to the part that knows what to do. It decides
nothing itself.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
import time
from collections.abc import Callable, Coroutine, Sequence

import msgspec

from agents import payload
from agents.answers import Answers
from agents.catalogue import Catalogue, member_record
from agents.config import AgentConfig
from agents.errors import ElfError
from agents.intake import Intake
from agents.masters import JOB_KEY, Masters
from agents.publishing import Publisher
from agents.requests import DescribeSource, Enlist, JobRecord, Member, encode, value_of
from agents.results import Json
from agents.source_setup import describe_columns, make_pump
from agents.store.checkpoints import Checkpoints, Progress, Snapshot
from agents.store.database import Database
from agents.store.panes import Panes
from agents.store.records import Records
from agents.worker import Worker
from overlay.contract import NEVER, Commit, OverlaySettings, Record, RollupState, Verdict
from overlay.errors import OverlayError
from overlay.ids import Contact, source_id
from overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: Pause between tries to join while no configured agent answers.
JOIN_RETRY_S = 1.0
#: First and longest pause before a job's master is asked again where a new worker begins.
ENLIST_RETRY_S, ENLIST_RETRY_S_MAX = 0.1, 5.0


def wall_clock_ms() -> int:
    """Return the time of day in ms since the epoch."""
    return time.time_ns() // 1_000_000


class Agent:
    """One agent, from its settings.

    Args:
        config: the settings.
        now_ms: wall clock.
    """

    def __init__(self, config: AgentConfig, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.config, self.now_ms = config, now_ms
        data = pathlib.Path(config.agent.data)
        self.database = Database(data / "state.db")
        self.agent_id = self.database.agent_id
        overlay = config.overlay
        settings = OverlaySettings(
            bind=overlay.bind,
            advertise=overlay.advertise,
            join=tuple(overlay.join),
            secret_file=overlay.secret_file,
            contacts_file=str(data / "contacts.json"),
            k=overlay.k,
            agent_id=self.agent_id,
        )
        self.node = OverlayNode(settings, self)
        self.catalogue = Catalogue()
        self.masters = Masters(self.node, Panes(self.database), self.catalogue.name_of, self.catalogue.learn)
        self.intakes: dict[str, Intake] = {}
        self.joined = not overlay.join
        self._records = Records(self.database)
        self._checkpoints = Checkpoints(self.database)
        self.publisher = Publisher(self.node, self.known_sources)
        self.answers = Answers(
            self.introduce,
            self.node,
            self.catalogue,
            self.masters,
            self._describe_source,
            self.add_record,
            self.publisher.spread,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._working: dict[bytes, asyncio.Lock] = {}

    def introduce(self) -> Member:
        """Say who this agent is."""
        address = self.node.contact.address
        return Member(
            agent_id=self.agent_id,
            name=self.config.agent.name or address,
            address=address,
            sources=tuple(sorted(self.config.sources)),
        )

    def known_sources(self) -> set[str]:
        """Return the sources this agent has or has heard of."""
        return {job.definition.source for job in self.catalogue.running()} | set(self.config.sources)

    async def start(self) -> None:
        """Open sockets, take up the last run's work, and begin to read.

        Raises:
            ConfigError: a source, a secret or an address in the settings cannot be used.
        """
        data = pathlib.Path(self.config.agent.data)
        for name, source in self.config.sources.items():
            pump, push = make_pump(name, source, self.config, data, self.agent_id, self._checkpoints, self.now_ms)
            self.intakes[name] = Intake(pump, push, lambda one: self._seal(one.app, one.snapshot))
        await self.node.start()
        self.masters.restore()
        for name, intake in self.intakes.items():
            await self._enter_source(name)
            intake.start()
        self._spawn(self._join())

    async def stop(self) -> None:
        """Stop reading, checkpoint, leave the overlay, close."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for intake in self.intakes.values():
            await intake.stop()
        await self.node.stop()
        self.database.close()

    def add_record(self, tree: bytes, record: Record) -> bool:
        """Put a control record into a tree this agent stands in, and heed it here too."""
        new: bool = self.node.add_record(tree, record)
        if new:
            self.on_record(tree, record)
        return new

    # The overlay's Handler.

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer a request or say who can."""
        return await self.answers.answer(key, body)

    def on_record(self, app: bytes, record: Record) -> None:
        """Learn a job or a member; start or stop working on the job if it is of one of our sources."""
        try:
            if record.key == JOB_KEY:
                self.catalogue.learn(JobRecord.decode(record.body))
                return
            job = self.catalogue.learn_record(record)
        except (msgspec.DecodeError, ElfError, ValueError) as error:
            log.warning("control record %s cannot be used here: %s", record.key, error)
            return
        self._records.put(app, record)
        if job is not None and job.definition.source in self.intakes:
            self._spawn(self._work_on(job))

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Make a commit durable."""
        await self.masters.commit(app, commit)

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Tell the worker what became of its snapshots."""
        job = self.catalogue.job(app)
        if job is not None and job.definition.source in self.intakes:
            await self.intakes[job.definition.source].settle(app, verdict)

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Merge payloads of a job."""
        return payload.merge(payloads, self.catalogue.plan(app).schema)

    # Own work.

    async def _join(self) -> None:
        while not self.joined:
            self.joined = await self.node.join() > 0
            if not self.joined:
                log.warning("none of %s answers yet", ", ".join(self.config.overlay.join))
                await asyncio.sleep(JOIN_RETRY_S)

    async def _enter_source(self, source: str) -> None:
        """Join a source's tree with what we knew of it, and announce ourselves there."""
        tree = source_id(source)
        self.node.join_tree(tree, member=True)
        for record in self._records.all(tree):
            self.node.add_record(tree, record)
            job = self.catalogue.learn_record(record)
            if job is not None:
                await self._work_on(job)
        self.add_record(tree, member_record(self.introduce(), self.now_ms()))

    async def _work_on(self, job: JobRecord) -> None:
        async with self._working.setdefault(job.definition.app_id, asyncio.Lock()):
            await self._work_on_alone(job)

    async def _work_on_alone(self, job: JobRecord) -> None:
        app, intake = job.definition.app_id, self.intakes[job.definition.source]
        running, state = intake.pump.workers.get(app), self._checkpoints.worker(app)
        if running is not None and running.progress.instance == job.instance and not job.stopped:
            return
        if running is not None or (state is not None and (job.stopped or state.progress.instance != job.instance)):
            await intake.detach(app)
            await asyncio.to_thread(self._checkpoints.forget, app)
            state = None
            if app not in self.masters:
                self.node.leave_tree(app)
        if job.stopped:
            return
        plan = self.catalogue.plan(app)
        if state is not None:
            worker = Worker.restore(plan, self.agent_id, state)
        else:
            counted = await self._enlist(job)
            if self.catalogue.job(app) != job:
                return
            worker = Worker(plan, self.agent_id, Progress(instance=job.instance, counted=counted), new=True)
        # The worker first: verdicts on what it sealed in its last life come as soon as the tree is joined.
        await intake.attach(worker)
        settled = NEVER if worker.progress.settled is None else worker.progress.settled
        self.node.join_tree(
            app,
            member=True,
            root=job.master,
            state=None if app in self.masters else RollupState(committed=settled),
            leap_after_ms=job.definition.options.leap_after_ms,
        )
        # In one go with joining, so that nothing newer is handed over before the retained snapshots.
        for snapshot in self._checkpoints.snapshots(app, after=settled):
            self._seal(app, snapshot)

    async def _enlist(self, job: JobRecord) -> int | None:
        """Ask the master where a new worker begins, until it answers or the job is another one."""
        app, pause_s = job.definition.app_id, ENLIST_RETRY_S
        request = encode(Enlist(app, self.agent_id, self.node.contact.address))
        while self.catalogue.job(app) == job:
            try:
                if app in self.masters:
                    return await self.masters.enlist(app, self.agent_id, self.node.contact.address)
                found: int | None = value_of(await self.node.ask(job.master, request))
                return found
            except (OverlayError, ElfError) as error:
                log.debug("the master of %s cannot be asked yet: %s", job.definition.key, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, ENLIST_RETRY_S_MAX)
        return None

    def _seal(self, app: bytes, snapshot: Snapshot) -> None:
        """Hand a durable snapshot to the tree.

        A refusal needs no answer here: the verdict that caused it waits in the pump and covers this snapshot too.
        """
        self.node.seal(app, snapshot.through, snapshot.payload)

    async def _describe_source(self, request: DescribeSource) -> Json:
        name, intake = request.source, self.intakes[request.source]
        described = await asyncio.to_thread(
            describe_columns, name, self.config.sources[name], intake.push.path, request.names
        )
        members = {member.agent_id: member.address for member in self.catalogue.members(request.source)}
        members[self.agent_id] = self.node.contact.address
        job = self.catalogue.job(request.job)
        address = self.node.contact.address
        return {
            **described,
            "address": address,
            "members": members,
            "record": job.encode() if job else None,
        }

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", exc_info=task.exception())
