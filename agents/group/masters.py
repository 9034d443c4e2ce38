"""The masters this agent is: installing and stopping jobs, taking their commits, answering for them.

A job's master is the less loaded of the two agents that its publisher's lookups found closest to the job's candidate
keys (paper, section 2.3; `elf.overlay.placement`). It need not have the job's source.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec

from elf.agents.completeness.runs import RunsFrom
from elf.agents.errors import (
    AgentRunningError,
    JobConflictError,
    JobError,
    JobSpecError,
    UnavailableError,
    UnknownJobError,
)
from elf.agents.extensions.installed_applications import require_application
from elf.agents.group.copies import Copies
from elf.agents.group.holds import Holds
from elf.agents.group.leadership import Leadership
from elf.agents.host.introduction import who_is_at
from elf.agents.jobs.definition import check_definition
from elf.agents.master.commands import Command, Count, Dismiss, Enlisted, Enrol, Rename, Say
from elf.agents.master.description import describe
from elf.agents.master.listing import identity_of
from elf.agents.master.master import Master
from elf.agents.master.state import MasterState
from elf.agents.master.stops import stopped_error
from elf.agents.wire.catalogue import find_member
from elf.agents.wire.changes import Leapt
from elf.agents.wire.ownership import Order, check_own, ended, require_publisher
from elf.agents.wire.placement import Weigh, Weight
from elf.agents.wire.positions import Json
from elf.agents.wire.records import JOB_KEY, JobRecord
from elf.agents.worker.payload import Notes, noting
from elf.overlay.contract import NEVER, Commit, ControlEntry, Record, RollupState, RosterEntry
from elf.overlay.errors import NotJoinedError, OverlayError, OvertakenError
from elf.overlay.node import OverlayNode
from elf.overlay.rollup.succession import brought_through, counted_through

log = logging.getLogger(__name__)

#: Agents of one address that are remembered of a job, each with a disk of its own: all but the last one lost theirs.
ENLISTED_PER_ADDRESS_MAX = 64
#: An agent that does not answer within this time is taken for gone, if an operator says so.
ANSWER_MS = 1_500
#: A new job's publisher waits so long for its root group to have more than one member.
ROOT_S, ROOT_LOOK_S = 2.0, 0.02
#: Runs of intervals that wait for a commit to say that they may be wrong.
DOUBTS_MAX = 256


class Masters:
    """All jobs whose master is this agent: those whose root group it leads.

    Args:
        node: the overlay.
        copies: the copies of masters kept here.
        leadership: which of them are the masters.
        names: turns an agent id into a name for people.
    """

    def __init__(self, node: OverlayNode, copies: Copies, leadership: Leadership, names: Callable[[str], str]) -> None:
        self._node = node
        self._copies = copies
        self._names = names
        self.name_of = names
        self.admits = copies.admits
        self._rooted = leadership.rooted
        self.told = leadership.told
        self._holds = Holds()
        #: Tree -> runs of intervals, both ends included, that may be wrong: a gap of the next commit.
        self._doubts: dict[bytes, RunsFrom] = {}

    def __contains__(self, app: bytes) -> bool:
        return app in self._rooted

    def has_tree(self, tree: bytes) -> bool:
        """Tell whether a publication's tree has its root here."""
        return self._copies.apps.get(tree) in self._rooted

    def rests(self, app: bytes) -> bool:
        """Tell whether a job is mastered here, and stopped."""
        return app in self._rooted and self.job(app).rests

    def require_running(self, app: bytes) -> None:
        """Refuse to answer for a stopped job; raises StoppedError, which says how to get it back."""
        if self.rests(app):
            raise stopped_error(self.job(app))

    def require_data(self, app: bytes) -> None:
        """Refuse to bring or take panes of a job that has none; raises JobError."""
        definition = self.job(app).definition
        if definition.joined is not None:
            raise JobError(f"{definition.key} reads other jobs and has no data of its own")

    @property
    def apps(self) -> frozenset[bytes]:
        """The ids of the jobs this agent is master of."""
        return frozenset(self._rooted)

    @property
    def jobs(self) -> list[JobRecord]:
        """The jobs this agent is master of."""
        return [self.job(app) for app in self._rooted]

    def progress(self) -> list[tuple[str, int | None]]:
        """Return each job's key and the end of its last committed interval (ms)."""
        return [(self.job(app).definition.key, self.master(app).windows.through_ms) for app in self._rooted]

    def too_late(self) -> list[tuple[str, int]]:
        """Return each job's key and how many rows came too late for any of its results."""
        return [(self.job(app).definition.key, self.master(app).state.too_late) for app in self._rooted]

    def weigh(self, request: Weigh, now_ms: int) -> Weight:
        """Tell a publisher our load, and keep the job for it meanwhile."""
        holder = self._holds.take(request, now_ms)
        copy = self._copies.get(request.app)
        running = copy.job if copy is not None and not copy.job.stopped else None
        return Weight(roots=self._node.roots(), job=running, holder=holder)

    async def install(
        self, job: JobRecord, roster: Mapping[str, str], ended: str = "", keys: Mapping[str, bytes] | None = None
    ) -> JobRecord:
        """Become a job's master and return the job; publishing the same definition again changes nothing.

        Args:
            job: the publication.
            roster: agent id -> address of those expected from the first commit on.
            ended: the instance of the publication before, if the publisher knows that it was stopped.
            keys: agent id -> public key; of who is here nothing is believed without a word of its own.

        Raises:
            JobConflictError: another definition of this creator and name is running.
            UnavailableError: the job is being stopped, or is running and its master is not known now.
        """
        check_definition(job.definition)
        check_own(job)
        try:
            require_application(job.definition)
        except JobSpecError as error:
            raise JobSpecError(f"at {self._node.contact.address}, which would be the job's master: {error}") from None
        app, key = job.definition.app_id, job.definition.key
        if app in self._rooted:
            running = self.job(app)
            if running.stopped:
                raise UnavailableError(f"job {key} is just being stopped; try again")
            require_publisher(running, job)
            if identity_of(running) == identity_of(job):
                return await self._renew(running, job.stamp_ms)
            raise JobConflictError(
                f"job {key} is running with another definition; change it while it runs (`elf update`), "
                "stop it first (`elf stop`), or publish under another name"
            )
        known = keys or {}
        rollup = RollupState(roster={agent: RosterEntry(admitted=NEVER, key=known.get(agent, b"")) for agent in roster})
        state = MasterState(rollup=rollup, enlisted={agent: Enlisted(at) for agent, at in roster.items()})
        async with self._copies.life(app):  # a copy may have been fetched by then
            copy = self._copies.get(app)
            if copy is not None and not copy.master.state.ended and copy.job.instance != ended:
                raise UnavailableError(f"job {key} is running and has no master at this moment; try again")
            await self._copies.forget(app)
            self._copies.create(job, state)
        await self._wait_for_root(app)
        return job

    async def _wait_for_root(self, app: bytes) -> None:
        """Wait until the tree has its root here, and a little longer for the job to be on more disks than ours."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while loop.time() - began_s < ROOT_S:
            if app in self._rooted and self._copies.is_grown(app):
                return
            await asyncio.sleep(ROOT_LOOK_S)
        if app not in self._rooted:
            raise UnavailableError("the job's master could not begin; see the agent's log")

    async def _renew(self, job: JobRecord, stamp_ms: int) -> JobRecord:
        """Make a running job's record later, so that it outlives a stop that did not come through."""
        if stamp_ms <= job.stamp_ms:
            return job
        app = job.definition.app_id
        await self.decide(app, Rename(msgspec.structs.replace(job, stamp_ms=stamp_ms)))
        job = self.job(app)
        self._node.add_record(job.tree, Record(JOB_KEY, job.stamp_ms, job.encode()))
        return job

    async def decide(self, app: bytes, command: Command) -> None:
        """Have a command decided and applied; raises UnavailableError if this agent leads the job no more."""
        try:
            await self._copies.propose(app, command)
        except OverlayError as error:
            raise UnavailableError(str(error)) from None

    def would_enlist(self, app: bytes, agent: str, address: str) -> bool:
        """Tell whether `enlist` would take note of a new agent, for good.

        Raises:
            UnavailableError: too many have been at its address.
        """
        enlisted = self.master(app).state.enlisted
        if agent in enlisted:
            return False
        if sum(each.address == address for each in enlisted.values()) >= ENLISTED_PER_ADDRESS_MAX:
            raise UnavailableError(f"{ENLISTED_PER_ADDRESS_MAX} agents were at {address} already, which is the most")
        return True

    async def enlist(self, app: bytes, agent: str, address: str) -> Enlisted:
        """Note that a new worker begins; return what an agent that was lost at its address has left it to bring."""
        master = self.master(app)
        enlisted = master.state.enlisted
        if agent in enlisted:
            return enlisted[agent]
        lost = [old for old, known in enlisted.items() if known.address == address and not known.lost]
        tree = self.job(app).tree
        floors = {old: self._node.exclude(tree, old, agent) for old in lost}
        through = max([master.state.rollup.committed, *floors.values()])
        while master.state.rollup.committed < through:
            # A commit is on its way that may hold what the newcomer will not bring: it has to get there first.
            await self._rooted[app].wait()
            self.master(app)
        brought = [self._brought_through(app, old, floor) for old, floor in floors.items()]
        # One that was lost before it was ever counted had a predecessor itself.
        counted = max([NEVER, *brought, *(each for old in lost if (each := enlisted[old].counted) is not None)])
        missed = through if lost and counted < through else None
        entry = Enlisted(address, None if counted == NEVER else counted, missed=missed, of=tuple(lost))
        await self.decide(app, Enrol(agent, entry, tuple(lost)))
        return entry

    def _brought_through(self, app: bytes, old: str, floor: int) -> int:
        """Return the last interval that an agent brought anything of which was excluded at a floor."""
        copy = self._copies.get(app)
        assert copy is not None
        if copy.job.definition.options.straggler in ("drop", "void"):
            return floor
        return brought_through(copy.master.state.rollup, old, floor)

    async def retire(self, app: bytes, named: str) -> Json | None:
        """Take an agent that is gone for good off a job's roster; returns its gap, None if it is not on the roster.

        Gone is also who runs without the job's source: what it still has of that is counted once it has it again.

        Raises:
            AgentRunningError: it still answers, and has the source.
            BadRequestError: several agents have that name.
        """
        master = self.master(app)
        rollup = master.state.rollup
        accounts = {**rollup.retired, **rollup.roster}
        addresses = {agent: known.address for agent, known in master.state.enlisted.items()}
        agent = find_member(named, {each: (self._names(each), addresses.get(each, "")) for each in accounts})
        if agent is None:
            return None
        name, address = self._names(agent), addresses.get(agent, "")
        if agent in rollup.roster:
            source = self.job(app).definition.source
            if address and await self._feeds(agent, address, source):
                has = f"still answers at {address} and has source {source!r}"
                raise AgentRunningError(f"agent {name} {has}; stop it first")
            await self.decide(app, Dismiss(agent, self._node.retire(self.job(app).tree, agent)))
        counted = counted_through(accounts[agent], rollup.committed)
        since_ms = None if counted is None else master.versions.end_ms(counted)
        return {"agent": agent, "name": name, "address": address, "missing_since_ms": since_ms}

    async def _feeds(self, agent: str, address: str, source: str) -> bool:
        """Tell whether an agent runs with a source; another one at its address is not the same."""
        try:
            member = await who_is_at(self._node, address, ANSWER_MS)
        except UnavailableError:
            return False
        return member.agent_id == agent and source in member.sources

    async def begin_stop(self, app: bytes, now_ms: int, order: Order | None = None) -> JobRecord:
        """Have it decided that a job ends, whoever leads it; returns the record that says so.

        Raises:
            NotCreatorError: it has a creator, who has not ordered it.
        """
        tombstone = ended(self.job(app), now_ms, order)
        await self.decide(app, Rename(tombstone))
        return tombstone

    async def commit(self, tree: bytes, commit: Commit) -> None:
        """Have a commit decided: durable at a majority of the root group, and taken into the panes here.

        Raises:
            OvertakenError: this agent leads the job no more; what becomes of the commit is another root's to say.
        """
        app = self._copies.apps.get(tree, b"")
        doubts = self._doubts.get(tree, ())
        if doubts:
            commit = msgspec.structs.replace(commit, payload=noting(commit.payload, Notes(gaps=doubts)))
        try:
            await self._copies.propose(app, Count(commit))
            left = self._doubts.pop(tree, ())[len(doubts) :]
            if left:
                self._doubts[tree] = left
        except NotJoinedError as error:
            raise OvertakenError(str(error)) from None
        copy = self._copies.get(app)
        if copy is None or copy.master.state.rollup != commit.state:
            raise OvertakenError("another commit was decided before")

    def doubt(self, tree: bytes, first: int, last: int) -> None:
        """Label a run of intervals, both ends included, as lacking something: with the next commit."""
        known = self._doubts.get(tree, ())
        if (first, last) not in known and len(known) < DOUBTS_MAX:
            self._doubts[tree] = (*known, (first, last))

    async def say(self, tree: bytes, entry: ControlEntry) -> ControlEntry:
        """Have an entry of a job's control log decided, at its root; return it as this agent itself is to keep it.

        Raises:
            OvertakenError: this agent leads the job no more; what becomes of the entry is another root's to say.
        """
        app = self._copies.apps.get(tree)
        if app is None or entry.retain_above is None:
            return entry
        if app not in self._rooted:
            raise OvertakenError("this agent leads the job no more")
        if not self._copies.has_said(tree, entry.mark):
            try:
                await self._copies.propose(app, Say(entry.mark, entry.body, entry.retain_above))
            except NotJoinedError as error:
                raise OvertakenError(str(error)) from None
        return msgspec.structs.replace(entry, retain_above=None)

    def leap(self, app: bytes, through: int | None = None) -> tuple[int, tuple[str, ...]]:
        """Let a job's tree wait no longer for who is silent, up to an interval; returns which it is, and whom."""
        tree = self.job(app).tree
        through, silent = self._node.leap(tree, through)
        if silent:
            self._node.multicast(tree, Leapt(through).encode())
        return through, silent

    async def force(self, app: bytes, key: str) -> None:
        """Go on alone with a job whose root group has lost its majority for good: the operator's word for it.

        Args:
            app: the job.
            key: the job as people write it, for messages.

        Raises:
            JobError: this agent has no copy of the job, or the group has a leader, as far as is known here.
        """
        copy = self._copies.get(app)
        if copy is None:
            raise JobError(f"this agent keeps no copy of {key}; ask one of those that its master named as members")
        view = self._node.groups.view(copy.job.tree)
        if view is not None and (view.quorate or (view.leader and not copy.leads)):
            raise JobError(f"the root group of {key} has a leader; nothing needs to be forced")
        log.warning("job %s: an operator lets this agent go on without the rest of its root group", key)
        await self._node.groups.change(copy.job.tree, None)

    async def describe(self, app: bytes) -> Json:
        """Describe a job and how far it has come."""
        return await self.describe_copy(self.job(app), self.master(app))

    async def describe_copy(self, job: JobRecord, master: Master) -> Json:
        """Describe a job as one of its masters knows it, provisional ones included."""
        position, view = self._node.control_mark(job.tree).position, self._node.groups.view(job.tree)
        # In a thread: a commit or a large answer may keep it waiting.
        return await asyncio.to_thread(describe, job, master, self._names, position, view)

    async def changed(self, app: bytes, edition: int, wait_ms: int) -> Master | None:
        """Wait until a job's edition is another one; None if it is the same after `wait_ms`."""
        master = self.master(app)
        if master.windows.edition == edition:
            try:
                # Not `wait_for`: in Python 3.11 it forgets that it was cancelled if there is news at the same time.
                async with asyncio.timeout(wait_ms / 1000):
                    await self._rooted[app].wait()
            except TimeoutError:
                return None
            self.job(app)
        return master

    @property
    def address(self) -> str:
        """Where this agent is."""
        return self._node.contact.address

    def side_of(self, app: bytes) -> Json:
        """Say who answers for a side of a split job, and in which term of its root group."""
        view = self._node.groups.view(self.job(app).tree)
        return {"side": self.name_of(self._copies.agent_id), "term": view.term if view else 0}

    def job(self, app: bytes) -> JobRecord:
        """Return a job mastered here; UnknownJobError if it is not."""
        copy = self._copies.get(app)
        if copy is None or app not in self._rooted:
            raise UnknownJobError(app.hex(), ())
        return copy.job

    def master(self, app: bytes) -> Master:
        """Return the master of a job mastered here; UnknownJobError if it is not."""
        self.job(app)
        copy = self._copies.get(app)
        assert copy is not None
        return copy.master
