"""The copies of masters that this agent keeps: one for each job whose root group it is a member of.

A job's master is decided on by its root group (`elf.overlay.group`): what one of the members, the leader, decides is
applied to all copies in the same order, panes included. So whichever agent is lost, another one has everything and goes
on. Only the leader's copy is the master that answers and commits (`elf.agents.master`); the others only keep up.
Paper: §3.3 leaves the loss of a master open; OVERLAY 6.5 replicates what it decided, and not the panes.

Differs from OVERLAY 6.5 in that the panes are replicated, too: snapshots are let go of once they are committed, so a
master that took over without the panes could not answer for windows that were open, nor for any before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Callable, Sequence

import msgspec

from elf.agents.errors import ElfError, JobError, NotAdmittedError, NotCreatorError
from elf.agents.jobs.versions import Version, Versions, compile_versions
from elf.agents.language.own_functions import Admits
from elf.agents.master.commands import (
    Command,
    Count,
    Dismiss,
    End,
    Enrol,
    Load,
    Remember,
    Rename,
    Say,
    Turn,
    decode_command,
    encode_command,
)
from elf.agents.master.master import Master
from elf.agents.master.state import MasterState
from elf.agents.master.version_decision import with_version
from elf.agents.store.controls import Controls, decided_key
from elf.agents.store.groups import GroupLogs
from elf.agents.store.panes import Panes
from elf.agents.store.shared_transactions import Desk
from elf.agents.wire.ownership import check_successor
from elf.agents.wire.records import JobRecord
from elf.cbt import PaoDecodeError
from elf.overlay.contract import Commit, ControlEntry, Mark
from elf.overlay.errors import NotJoinedError
from elf.overlay.group.effects import Save
from elf.overlay.group.messages import Kind, Place, Seat, decode_seats
from elf.overlay.group.seating import SIZE
from elf.overlay.group.state import Role
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: Commits with larger payloads take a thread each, so that small ones of other jobs need not wait for them.
TOGETHER_BYTES_MAX = 16 << 10


class Copy:
    """One job's copy: its newest record and its master's state; `leads`: it is the master."""

    def __init__(self, job: JobRecord, master: Master) -> None:
        self.job = job
        self.master = master
        self.leads = False


class Copies:
    """All copies of this agent.

    Args:
        agent_id: this agent's name in groups.
        node: the overlay.
        store: where copies live on disk.
        logs: where the groups' logs do.
        controls: where the control logs of their trees do.
        learn: told of each job, so that payloads of it can be merged here.
        admits: decides whether functions that jobs bring along may run here; a master runs none, and yet refuses them.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        store: Panes,
        logs: GroupLogs,
        controls: Controls,
        learn: Callable[[JobRecord], None],
        admits: Admits | None = None,
    ) -> None:
        self.agent_id = agent_id
        self._node = node
        self._store = store
        self._logs = logs
        self._controls = controls
        self._learn = learn
        self.admits = admits
        #: Told when a copy has applied a command, or has begun or ceased to lead (None).
        self.changed: Callable[[bytes, Command | None], None] = lambda app, command: None
        #: Told when a copy was taken from another agent.
        self.opened: Callable[[bytes], None] = lambda app: None
        #: Tells of which agents of a source no line is read, for nobody knows what they are.
        self.unread: Callable[[str], frozenset[str]] = lambda source: frozenset()
        self._desk = Desk(store.carry_out)
        self._copies: dict[bytes, Copy] = {}
        self._lives: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()
        #: Tree -> job.
        self.apps: dict[bytes, bytes] = {}

    def compile(self, versions: Sequence[Version], known: Versions | None = None) -> Versions:
        """Compile the versions of a job as `compile_versions`, if its functions may run here."""
        return compile_versions(versions, known, self.admits)

    def get(self, app: bytes) -> Copy | None:
        """Return the copy of a job, whoever leads."""
        return self._copies.get(app)

    def all(self) -> list[Copy]:
        """Return all copies."""
        return list(self._copies.values())

    def serves(self, tree: bytes, agent: str) -> bool:
        """Tell whether an agent may have our copy: we lead the group, and it is a member, or will be one.

        Whether a majority lets us lead may be for that agent to say, once it has the copy.
        """
        view = self._node.groups.view(tree)
        return view is not None and view.role is Role.LEADER and any(seat.agent == agent for seat in view.seats)

    def has_said(self, tree: bytes, mark: Mark) -> bool:
        """Tell whether an entry of a tree's control log, or a later one, is decided."""
        known = self._controls.state(decided_key(tree))
        return known is not None and known.mark >= mark

    def is_grown(self, app: bytes) -> bool:
        """Tell whether a job led here has the members that it can have, as far as we know other agents."""
        copy = self._copies.get(app)
        view = self._node.groups.view(copy.job.tree) if copy is not None else None
        if copy is None or view is None:
            return False
        wanted = min(SIZE, 1 + len(self._node.contacts()))
        return (
            len(view.seats) >= wanted and sum(seat.votes for seat in copy.master.state.seats) >= wanted - 1 + wanted % 2
        )

    # ---- a copy's life

    def life(self, app: bytes) -> asyncio.Lock:
        """Held by who drops or replaces a job's copy, until what comes in its place is open: all write to one past."""
        return self._lives.setdefault(app, asyncio.Lock())

    def restore(self) -> None:
        """Take up the copies of the last run."""
        self._store.sweep()
        for app, body, state in self._store.masters():
            try:
                self._restore(app, body, state)
            except (ElfError, msgspec.MsgspecError, PaoDecodeError, ValueError) as error:
                # It stays on disk. If the job's root group goes on elsewhere, its leader sends another copy.
                log.error("the copy of the master of job %s cannot be used: %s", app.hex(), error)
        until_ms = self._store.uncertain_before_ms
        if until_ms is not None:
            for copy in self._copies.values():
                copy.master.doubt(until_ms)
            self._store.settle_doubts()

    def _restore(self, app: bytes, body: bytes, state: bytes) -> None:
        job = JobRecord.decode(body)
        ended = msgspec.msgpack.decode(state, type=MasterState).ended
        with contextlib.suppress(NotAdmittedError):  # an operator has purged it
            if not ended:
                self._open(job, state)
                return
        self._store.forget(app)
        self._logs.forget(job.tree)
        for key in (job.tree, decided_key(job.tree)):
            self._controls.forget(key)

    def create(self, job: JobRecord, state: MasterState) -> None:
        """Begin a job's group with this agent alone, which leads it at once.

        Raises:
            JobSpecError: the job cannot run on this release; nothing of it is kept.
        """
        app = job.definition.app_id
        self.compile(job.history)
        encoded = msgspec.msgpack.encode(msgspec.structs.replace(state, seats=(self._own_seat(),)))
        self._logs.forget(job.tree)
        self._store.create(app, job.encode(), encoded)
        self._open(job, encoded)

    def take(self, job: JobRecord, state: bytes, leader: Contact) -> None:
        """Open a copy that was fetched from the group's leader and lies on disk already."""
        self._open(job, state, leader)
        self.opened(job.definition.app_id)

    async def close(self, app: bytes) -> None:
        """Close a copy, which stays on disk."""
        copy = self._copies.get(app)
        if copy is None:
            return
        if copy.leads:
            # It goes for a later leader's, of whom the group may not have heard yet, and will not tell any more.
            copy.leads = False
            self.changed(app, None)
        del self._copies[app]
        self.apps.pop(copy.job.tree, None)
        await self._node.groups.close(copy.job.tree)

    async def close_for(self, job: JobRecord, leader: Contact, term: int, applied: Place) -> bool:
        """Close a copy for that of a term's leader; False, and it stays open, if what is here may not go for that."""
        app, tree = job.definition.app_id, job.tree
        copy = self._copies.get(app)
        if copy is not None and copy.job.tree != tree and copy.job.stamp_ms > job.stamp_ms:
            return False  # the leader has not heard yet that the job was published anew
        await self.close(app)
        if copy is None or copy.job.tree != tree:
            return self._logs.state(tree, Place(), ()).yields_to(term, applied)
        own = copy.master.state
        if self._logs.state(tree, own.applied, own.seats).yields_to(term, applied):
            return True
        self._open(copy.job, msgspec.msgpack.encode(own), leader)
        return False

    async def drop(self, app: bytes, tree: bytes) -> None:
        """Close the copy of a publication and drop it from disk, unless another one has come in its place by then."""
        async with self.life(app):
            copy = self._copies.get(app)
            if copy is not None and copy.job.tree == tree:
                await self.forget(app)

    async def forget(self, app: bytes) -> None:
        """Close a copy and drop it from disk; its life is the caller's."""
        copy = self._copies.get(app)
        await self.close(app)
        await asyncio.to_thread(self._store.forget, app)
        if copy is not None:
            await asyncio.to_thread(self._logs.forget, copy.job.tree)
            for key in (copy.job.tree, decided_key(copy.job.tree)):
                await asyncio.to_thread(self._controls.forget, key)

    def _open(self, job: JobRecord, state: bytes, leader: Contact | None = None) -> None:
        app = job.definition.app_id
        master = Master(self.compile(job.history), self._store, state)
        source = job.definition.source
        master.windows.unread = lambda: self.unread(source)
        self._learn(job)
        seats = self._seats_of(master.state)
        self._copies[app], self.apps[job.tree] = Copy(job, master), app
        self._node.groups.open(job.tree, self._logs.state(job.tree, master.state.applied, seats), leader)

    def _seats_of(self, state: MasterState) -> tuple[Seat, ...]:
        """Return a group's members; of one whose only vote was ours under another name or address, ourselves.

        Nobody else can have led such a group. A state from before there were groups has no members.
        """
        own = self._own_seat()
        voters = [seat for seat in state.seats if seat.votes]
        if len(voters) <= 1 and (not voters or voters[0].address == own.address or voters[0].agent == own.agent):
            return (own, *(seat for seat in state.seats if not seat.votes and seat.agent != own.agent))
        return state.seats

    def _own_seat(self) -> Seat:
        return Seat(self.agent_id, self._node.contact.address, True)

    # ---- deciding

    async def propose(self, app: bytes, command: Command) -> None:
        """Have a command decided and applied here.

        Raises:
            NotJoinedError, OvertakenError: this agent does not lead the job, or no more.
        """
        copy = self._copies.get(app)
        if copy is None:
            raise NotJoinedError("this agent has no copy of the job any more")
        await self._node.groups.propose(copy.job.tree, encode_command(command))

    # ---- the overlay's GroupHandler

    async def on_save(self, tree: bytes, save: Save) -> None:
        """Make term, vote and entries durable."""
        applied = self._copies[self.apps[tree]].master.state.applied
        await self._desk.carry_out(self._logs.saving(tree, save, applied.index))

    async def on_apply(self, tree: bytes, place: Place, kind: Kind, body: bytes) -> None:
        """Apply a decided entry durably; what every copy would refuse changes nothing on any."""
        app = self.apps.get(tree)
        copy = self._copies.get(app) if app is not None else None
        if app is None or copy is None or place.index <= copy.master.state.applied.index:
            return
        if kind is not Kind.COMMAND:
            seats = decode_seats(body) if kind is Kind.SEATS else None
            await self._desk.carry_out(copy.master.noting(place, seats))
            return
        try:
            command = decode_command(body)
        except msgspec.DecodeError as error:
            log.error("job %s: a decision is not readable and counts nothing: %s", copy.job.definition.key, error)
            await self._desk.carry_out(copy.master.noting(place))
            return
        await self._apply(copy, command, place)
        self.changed(app, command)

    async def _apply(self, copy: Copy, command: Command, place: Place) -> None:
        master = copy.master
        match command:
            case Count(commit=commit):
                try:
                    await self._commit(master, commit, place)
                except PaoDecodeError as error:
                    # Every copy refuses the same, and the agents will hear that it was counted: say what is missing.
                    log.error("job %s: a commit holds nothing readable: %s", copy.job.definition.key, error)
                    await self._commit(master, master.emptied(commit), place)
            case Load():
                try:
                    await asyncio.to_thread(master.load, command, place)
                except PaoDecodeError as error:
                    log.error("job %s: what was to be loaded is not readable: %s", copy.job.definition.key, error)
                    await self._desk.carry_out(master.noting(place))
            case Enrol(agent=agent, entry=entry, lost=lost):
                await asyncio.to_thread(master.enlist, agent, entry, lost, place)
            case Dismiss(agent=agent, last=last):
                await asyncio.to_thread(master.retire, agent, last, place)
            case Rename(job=job, version=number):
                overtaken = number is not None and number != copy.job.history[-1].number
                if job.tree == copy.job.tree and job.stamp_ms > copy.job.stamp_ms and not overtaken:
                    # Whoever proposed it may not have known of a version, or of the end, that was decided before.
                    stopped = job.stopped or copy.job.stopped
                    known = {"definition": copy.job.definition, "versions": copy.job.versions, "stopped": stopped}
                    known |= {"published": copy.job.published, "ended": copy.job.ended or job.ended}
                    await self._rename_as_ordered(copy, msgspec.structs.replace(job, **known))
                await self._desk.carry_out(master.noting(place))
            case Turn(version=version):
                try:
                    changed = with_version(copy.job, version, master.state.rollup.committed)
                except (ValueError, JobError) as error:
                    # Every copy refuses the same; who tried it again and again would apply nothing that comes after.
                    log.error("job %s: a version is none of this job's: %s", copy.job.definition.key, error)
                    changed = None
                if changed is not None and self._is_ordered(copy, changed):
                    versions = await asyncio.to_thread(self.compile, changed.history, master.versions)
                    await self._rename(copy, changed)
                    await asyncio.to_thread(master.adopt, versions)
                await self._desk.carry_out(master.noting(place))
            case Say(entry=entry, retain_above=retain_above):
                said = ControlEntry(entry.mark, entry.body, retain_above=retain_above)
                # Apart from what this agent has heeded itself, which comes to it by the tree like to every other one.
                await asyncio.to_thread(self._controls.put, decided_key(copy.job.tree), said)
                await self._desk.carry_out(master.noting(place))
            case Remember(body=body):
                await self._desk.carry_out(master.noting(place, kept=body))
            case End(tombstone=tombstone) if self._is_ordered(copy, tombstone):
                copy.job = tombstone
                self._learn(tombstone)
                # A start that comes before the copy is forgotten must not take it for a running job's.
                await self._desk.carry_out(master.noting(place, ended=True))
            case End():
                await self._desk.carry_out(master.noting(place))

    async def _commit(self, master: Master, commit: Commit, place: Place) -> None:
        """Have a master take a commit, a small one together with what others have to write."""
        if len(commit.payload or b"") > TOGETHER_BYTES_MAX:
            await asyncio.to_thread(master.commit, commit, place)
        else:
            await self._desk.carry_out(master.committing(commit, place))

    def _is_ordered(self, copy: Copy, job: JobRecord) -> bool:
        """Tell whether a decision about a job is as its creator has ordered; every copy says the same."""
        try:
            check_successor(copy.job, job)
        except NotCreatorError as error:
            log.error("job %s: a decision changes nothing: %s", copy.job.definition.key, error)
            return False
        return True

    async def _rename_as_ordered(self, copy: Copy, job: JobRecord) -> None:
        if self._is_ordered(copy, job):
            await self._rename(copy, job)

    async def _rename(self, copy: Copy, job: JobRecord) -> None:
        await asyncio.to_thread(self._store.rename, copy.master.app, job.encode())
        copy.job = job
        self._learn(job)

    def on_lead(self, tree: bytes, leads: bool) -> None:
        """This agent's copy is the master now, or is it no more."""
        app = self.apps.get(tree)
        copy = self._copies.get(app) if app is not None else None
        if app is not None and copy is not None and copy.leads != leads:
            copy.leads = leads
            self.changed(app, None)
