"""The masters this agent is: installing and stopping jobs, taking their commits, answering for them.

A job's master is the less loaded of the two agents that its publisher's lookups found closest to the job's candidate
keys (paper, section 2.3; `overlay.placement`). It need not have the job's source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from agents.errors import AgentRunningError, ElfError, JobConflictError, JobError, UnknownJobError
from agents.holds import Holds
from agents.jobs.definition import check_definition
from agents.jobs.plan import compile_job
from agents.jobs.types import SqlType
from agents.master import Enlisted, Master, MasterState
from agents.requests import Introduce, JobRecord, Weigh, Weight, contact_at, encode, value_of
from agents.results import Json, Span
from agents.retiring import counted_through, find_member
from agents.store.controls import Controls
from agents.store.panes import Panes
from agents.windows import Last, Latest, parse_window
from overlay.contract import NEVER, Commit, Record, RollupState, RosterEntry
from overlay.errors import OverlayError
from overlay.node import OverlayNode

#: The key of the job's own record in its tree, for forwarders that do not have the source.
JOB_KEY = "job"
#: Windows a follower is sent at a time when many closed (a backlog) or changed at once; older ones can be asked for.
FOLLOW_WINDOWS_MAX = 20
#: An agent that does not answer within this time is taken for gone, if an operator says so.
ANSWER_MS = 1_500


class Masters:
    """All jobs whose master is this agent.

    Args:
        node: the overlay.
        store: where they live on disk.
        controls: where the control logs of their trees live.
        names: turns an agent id into a name for people.
        learn: told of each job before its tree is joined, so that payloads of it can be merged here.
    """

    def __init__(
        self,
        node: OverlayNode,
        store: Panes,
        controls: Controls,
        names: Callable[[str], str],
        learn: Callable[[JobRecord], None],
    ) -> None:
        self._node, self._store, self._controls, self._names, self._learn = node, store, controls, names, learn
        self._jobs: dict[bytes, JobRecord] = {}
        self._masters: dict[bytes, Master] = {}
        self._news: dict[bytes, asyncio.Event] = {}
        #: Tree -> job.
        self._apps: dict[bytes, bytes] = {}
        self._holds = Holds()

    def __contains__(self, app: bytes) -> bool:
        return app in self._masters

    def has_tree(self, tree: bytes) -> bool:
        """Tell whether a publication's tree has its root here."""
        return tree in self._apps

    @property
    def jobs(self) -> list[JobRecord]:
        """The jobs this agent is master of."""
        return list(self._jobs.values())

    def progress(self) -> list[tuple[str, int | None]]:
        """Return each job's key and the end of its last committed interval (ms)."""
        return [(master.plan.definition.key, master.through_ms) for master in self._masters.values()]

    def too_late(self) -> list[tuple[str, int]]:
        """Return each job's key and how many rows came too late for any of its results."""
        return [(master.plan.definition.key, master.state.too_late) for master in self._masters.values()]

    def restore(self) -> None:
        """Take up the masters of the last run."""
        for _, body, state in self._store.masters():
            self._start(JobRecord.decode(body), state)
        until_ms = self._store.uncertain_before_ms
        if until_ms is not None:
            for master in self._masters.values():
                master.doubt(until_ms)
            self._store.settle_doubts()

    def weigh(self, request: Weigh, now_ms: int) -> Weight:
        """Tell a publisher our load, and keep the job for it meanwhile."""
        holder = self._holds.take(request, now_ms)
        return Weight(roots=self._node.roots(), job=self._jobs.get(request.app), holder=holder)

    def install(self, job: JobRecord, roster: Mapping[str, str]) -> JobRecord:
        """Become a job's master and return the job; publishing the same definition again changes nothing.

        Args:
            job: the publication.
            roster: agent id -> address of those expected from the first commit on.

        Raises:
            JobConflictError: another definition of this creator and name is running.
        """
        check_definition(job.definition)
        app = job.definition.app_id
        running = self._jobs.get(app)
        if running is not None:
            if _content(running) == _content(job):
                return self._renew(running, job.stamp_ms)
            raise JobConflictError(
                f"job {job.definition.key} is running with another definition; stop it first (`elf stop`), "
                "or publish under another name"
            )
        rollup = RollupState(roster={agent: RosterEntry(admitted=NEVER) for agent in roster})
        enlisted = {agent: Enlisted(address) for agent, address in roster.items()}
        state = msgspec.msgpack.encode(MasterState(rollup=rollup, enlisted=enlisted))
        self._store.create(app, job.encode(), state)
        self._start(job, state)
        return job

    def _renew(self, job: JobRecord, stamp_ms: int) -> JobRecord:
        """Make a running job's record later, so that it outlives a stop that did not come through."""
        if stamp_ms <= job.stamp_ms:
            return job
        job = msgspec.structs.replace(job, stamp_ms=stamp_ms)
        app = job.definition.app_id
        self._store.rename(app, job.encode())
        self._jobs[app] = job
        self._learn(job)
        self._node.add_record(job.tree, Record(JOB_KEY, stamp_ms, job.encode()))
        return job

    async def enlist(self, app: bytes, agent: str, address: str) -> int | None:
        """Note that a new worker begins; return up to where an agent that was lost at its address was counted."""
        master = self._master(app)
        enlisted = master.state.enlisted
        if agent in enlisted:
            return enlisted[agent].counted
        lost = [old for old, known in enlisted.items() if known.address == address and not known.lost]
        counted = max([self._node.exclude(self.job(app).tree, old, agent) for old in lost], default=NEVER)
        entry = Enlisted(address, None if counted == NEVER else counted)
        await asyncio.to_thread(master.enlist, agent, entry, lost)
        return entry.counted

    async def retire(self, app: bytes, named: str) -> Json | None:
        """Take an agent that is gone for good off a job's roster; returns its gap, None if it is not on the roster.

        Raises:
            AgentRunningError: it still answers.
            BadRequestError: several agents have that name.
        """
        master, rollup = self._master(app), self._masters[app].state.rollup
        accounts = {**rollup.retired, **rollup.roster}
        addresses = {agent: known.address for agent, known in master.state.enlisted.items()}
        agent = find_member(named, {each: (self._names(each), addresses.get(each, "")) for each in accounts})
        if agent is None:
            return None
        name, address = self._names(agent), addresses.get(agent, "")
        if agent in rollup.roster:
            if address and await self._answers(agent, address):
                raise AgentRunningError(f"agent {name} still answers at {address}; stop it first")
            await asyncio.to_thread(master.retire, agent, self._node.retire(self.job(app).tree, agent))
        counted = counted_through(accounts[agent], rollup.committed)
        since_ms = None if counted is None else (counted + 1) * master.plan.interval_ms
        return {"agent": agent, "name": name, "address": address, "missing_since_ms": since_ms}

    async def _answers(self, agent: str, address: str) -> bool:
        """Tell whether an agent runs; another one at its address is not the same."""
        try:
            member = value_of(await self._node.ask(contact_at(address), encode(Introduce()), ANSWER_MS))
        except (OverlayError, ElfError, ValueError):
            return False
        return bool(member["agent_id"] == agent)

    def stop(self, tombstone: JobRecord) -> None:
        """Stop mastering a job and drop its panes."""
        app, tree = tombstone.definition.app_id, tombstone.tree
        self.job(app)
        # Forwarders know the job from its own tree only; the next publication may have another master.
        self._learn(tombstone)
        self._node.add_record(tree, Record(JOB_KEY, tombstone.stamp_ms, tombstone.encode()))
        self._node.leave_tree(tree)
        del self._apps[tree]
        self._store.forget(app)
        self._controls.forget(tree)
        del self._masters[app], self._jobs[app]
        self._news.pop(app).set()

    async def commit(self, tree: bytes, commit: Commit) -> None:
        """Make a commit durable and tell followers."""
        app = self._apps[tree]
        master = self._masters[app]
        await asyncio.to_thread(master.commit, commit)
        news, self._news[app] = self._news[app], asyncio.Event()
        news.set()

    def describe(self, app: bytes) -> Json:
        """Describe a job and how far it has come."""
        job, master = self.job(app), self._masters[app]
        definition, roster = job.definition, master.state.rollup.roster
        return {
            **summary(job),
            "options": msgspec.to_builtins(definition.options),
            "interval_ms": master.plan.interval_ms,
            "window": None if master.plan.window is None else master.plan.window._asdict(),
            "output": [{"name": name, "type": kind.ddl} for name, kind in master.plan.output],
            "keys": len(master.plan.schema.keys),
            "through_ms": master.through_ms,
            "roster": sorted(self._names(agent) for agent in roster),
            "retired": sorted(self._names(agent) for agent in master.state.rollup.retired),
            "too_late": master.state.too_late,
            "control": self._node.control_mark(job.tree).position,
        }

    async def query(self, app: bytes, window: str, key: str | None, limit: int | None) -> Json:
        """Answer one window."""
        master = self._master(app)
        span = _resolve(master, window)
        return self._render(app, await asyncio.to_thread(master.result, span, key, limit, self._names))

    async def follow(self, app: bytes, edition: int, after_ms: int, wait_ms: int) -> Json:
        """Wait for another edition; return what it brings a follower that knows this one (`Master.news`)."""
        master = self._master(app)
        if master.edition == edition:
            try:
                await asyncio.wait_for(self._news[app].wait(), wait_ms / 1000)
            except TimeoutError:
                return {"edition": edition, "results": []}
            self.job(app)
        return await asyncio.to_thread(self._news_of, app, master, edition, after_ms)

    def _news_of(self, app: bytes, master: Master, edition: int, after_ms: int) -> Json:
        now = master.edition
        spans, changed = master.news(edition, after_ms, FOLLOW_WINDOWS_MAX)
        results = [self._render(app, master.result(span, None, None, self._names)) for span in spans]
        if changed.rest is not None:
            # Older windows that changed, too, and that a follower is not sent one by one.
            rest = {"start_ms": changed.rest.start_ms, "end_ms": changed.rest.end_ms, "windows": changed.rest_count}
            results[0]["also_revised"] = rest
        return {"edition": now, "results": results}

    def _start(self, job: JobRecord, state: bytes) -> None:
        definition = job.definition
        app = definition.app_id
        plan = compile_job(definition, {name: SqlType.parse(kind) for name, kind in definition.columns.items()})
        master = Master(plan, self._store, state)
        self._learn(job)
        self._jobs[app], self._masters[app], self._news[app] = job, master, asyncio.Event()
        self._apps[job.tree] = app
        self._node.join_tree(
            job.tree,
            member=False,
            root=self._node.contact,
            state=master.state.rollup,
            leap_after_ms=definition.options.leap_after_ms,
            control=self._controls.state(job.tree),
        )
        at = {known.address: agent for agent, known in master.state.enlisted.items() if not known.lost}
        for agent, enlisted in master.state.enlisted.items():
            if enlisted.lost:
                self._node.exclude(job.tree, agent, at.get(enlisted.address))
        for agent in master.state.retiring:
            self._node.retire(job.tree, agent)
        self._node.add_record(job.tree, Record(JOB_KEY, job.stamp_ms, job.encode()))

    def _render(self, app: bytes, result: msgspec.Struct) -> Json:
        body: Json = msgspec.to_builtins(result)
        return {"job": self.job(app).definition.key, **body, "master": self._node.contact.address}

    def job(self, app: bytes) -> JobRecord:
        """Return a job mastered here; UnknownJobError if it is not."""
        job = self._jobs.get(app)
        if job is None:
            raise UnknownJobError(app.hex(), ())
        return job

    def _master(self, app: bytes) -> Master:
        self.job(app)
        return self._masters[app]


def summary(job: JobRecord) -> Json:
    """The row of a job in lists."""
    definition = job.definition
    return {
        "creator": definition.creator,
        "name": definition.name,
        "app_id": definition.app_id.hex(),
        "source": definition.source,
        "query": definition.query,
        "columns": definition.columns,
        "master": job.master.address,
        "state": "stopped" if job.stopped else "running",
        "version": definition.version,
        "published_ms": job.published_ms,
    }


def _content(job: JobRecord) -> object:
    definition = job.definition
    return definition.source, definition.query, definition.columns, definition.options


def _resolve(master: Master, window: str) -> Span | None:
    """Turn the text of a window into whole intervals of this job.

    Raises:
        JobError: the job has no windows, or the window does not consist of whole intervals.
    """
    asked = parse_window(window)
    if isinstance(asked, Latest):
        return master.latest()
    if master.plan.window is None:
        raise JobError("this job has no window: it counts since it began; ask for `latest`")
    interval_ms = master.plan.interval_ms
    if isinstance(asked, Last):
        end_ms = master.through_ms or 0
        span = Span(end_ms - asked.length_ms, end_ms)
    else:
        span = Span(asked.start_ms, asked.end_ms)
    if span.start_ms % interval_ms or span.end_ms % interval_ms:
        raise JobError(
            f"a window of this job is made of whole intervals of {interval_ms} ms, aligned to 1970-01-01T00:00Z; "
            f"[{span.start_ms}, {span.end_ms}) is not"
        )
    return span
