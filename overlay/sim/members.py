"""One simulated agent's part in a job: its place in the tree, and its part in the job's root group.

The counterpart of `elf.agents.group`, `elf.agents.master` and `elf.agents.publications.attachments`, without SQL and
panes: what a leader does with its tree, how a copy is fetched, who begins where. The group itself is the real one.
Lives as long as a process does; what must outlive it is on the runtime's disk and in the machine's memory of records.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from elf.overlay.contract import Commit, ControlEntry, ControlState, Record, RollupState
from elf.overlay.errors import NotJoinedError, OverlayError, OvertakenError
from elf.overlay.group.care import CareTimes, GroupCare
from elf.overlay.group.effects import Save
from elf.overlay.group.messages import Kind, Place, Seat
from elf.overlay.group.seating import SIZE
from elf.overlay.group.state import GroupState, Role
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode
from elf.overlay.sim.changing import amend
from elf.overlay.sim.copies import Command, Copy, Count, Rename, Say, Turn
from elf.overlay.sim.enlisting import enlist
from elf.overlay.sim.jobs import JOB_KEY, Amend, Ask, Enlist, Fetch, Heard, Job, Who, contact_at

if TYPE_CHECKING:
    from elf.overlay.sim.agents import Machine

#: Pauses between tries of what another agent has to answer.
RETRY_S, RETRY_S_MAX = 0.1, 2.0
ASK_MS = 1_000
#: Faults last seconds here, not days, and so does patience.
TIMES = CareTimes(rest_s=1.0, look_ms=2_000, silent_ms=6_000, gone_ms=15_000, stable_ms=8_000)


class Member:
    """The `GroupHandler` of one process.

    Args:
        machine: whose process; its runtime is the disk.
    """

    def __init__(self, machine: Machine, job: Job) -> None:
        self.machine = machine
        self.job = job
        self.app = job.app
        self.runtime = machine.runtime
        self.contact = machine.contact
        #: Set once the process has a node.
        self.node: OverlayNode | None = None
        #: Whether the group has made us its leader, and whether we have taken the tree's root since.
        self.leads = self.is_root = False
        self.reign = object()
        self._is_dead = False
        self._stands = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._ruling: list[asyncio.Task[None]] = []
        self._begun: set[str] = set()

    # ---- life

    def restore(self, node: OverlayNode) -> None:
        """Take up what the disk has."""
        self.node = node
        copy = self.runtime.group.copy
        if copy is not None:
            self._open()
            self._learn(Heard.of(copy))

    def create(self, copy: Copy) -> None:
        """Begin the job's group with this agent alone."""
        self.runtime.group.copy = copy
        self._open()

    def die(self) -> None:
        """The process is gone: what it still does reaches nobody, and nobody counts it."""
        self._is_dead = True
        self.is_root = self.leads = False
        for task in list(self._tasks):
            task.cancel()

    def _open(self, leader: Contact | None = None) -> None:
        assert self.node is not None
        self.machine.call(self.node.groups.open, self.app, self._state(), leader)

    def _state(self) -> GroupState:
        """Return what is durable here."""
        disk = self.runtime.group
        if disk.copy is None:
            return GroupState(term=disk.term, vote=disk.vote)
        applied, seats = disk.copy.applied, disk.copy.seats
        entries = tuple(entry for entry in disk.entries if entry.place.index > applied.index)
        return GroupState(term=disk.term, vote=disk.vote, applied=applied, seats=seats, entries=entries)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.machine.task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- the overlay's GroupHandler

    async def on_group_save(self, app: bytes, save: Save) -> None:
        """Make term, vote and entries durable."""
        await self.runtime.touch_disk()
        disk = self.runtime.group
        applied = disk.copy.applied.index if disk.copy is not None else 0
        kept = [entry for entry in disk.entries if applied < entry.place.index <= save.after]
        disk.term = save.term
        disk.vote = save.vote
        disk.entries = (*kept, *save.entries)
        await self.runtime.touch_disk()

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        """Apply a decided entry durably."""
        await self.runtime.touch_disk()
        copy = self.runtime.group.copy
        if self._is_dead or copy is None or place.index <= copy.applied.index:
            return
        command = copy.apply(place, kind, body)
        self.job.truth.observe(self.runtime.name, place, kind, body)
        await self.runtime.touch_disk()
        if isinstance(command, Turn) and self.is_root:
            self._tell(copy)
        elif isinstance(command, Rename | Turn) and not self.leads:
            self._hear(Heard.of(copy))

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        """Be the job's master, or be it no more."""
        if self._is_dead or self.runtime.group.copy is None or self.leads == leads:
            return
        self.leads = leads
        for task in self._ruling:
            task.cancel()
        self._ruling.clear()
        if leads:
            self.job.reigns += 1
            self._ruling += [self._begin(self._lead()), self._begin(self._care())]
        else:
            self._resign()

    def on_group_behind(self, app: bytes, leader: Contact, term: int) -> None:
        """Fetch a copy."""
        self._begin_once("fetch", self._fetch(leader, term))

    def on_group_gone(self, app: bytes) -> None:
        """Forget the copy."""
        self._begin_once("forget", self._forget())

    def is_group_over(self, app: bytes) -> bool:
        """The job never ends."""
        return False

    def _begin_once(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        if what in self._begun or self._is_dead:
            work.close()
            return
        self._begun.add(what)
        self._begin(work).add_done_callback(lambda _: self._begun.discard(what))

    # ---- leading

    async def _lead(self) -> None:
        """Become the master: say so in the log, take the tree's root, tell everyone."""
        copy, node = self.runtime.group.copy, self.node
        assert copy is not None and node is not None
        if copy.root != self.contact.address:
            stamp_ms = max(self.machine.wall(), copy.reign + 1)
            with contextlib.suppress(OverlayError):
                await self.propose(Rename(self.contact.address, stamp_ms))
            if copy.root != self.contact.address:
                return
        self._take_root(node, copy)
        self._tell(copy)

    def _tell(self, copy: Copy) -> None:
        """Tell everyone who the master is and which versions there are: by the job's own tree first, all are in it."""
        assert self.node is not None
        heard = Heard.of(copy)
        for app in (self.app, self.job.source):
            self.machine.call(self.node.add_record, app, heard.record)
        self._hear(heard)

    def _take_root(self, node: OverlayNode, copy: Copy) -> None:
        self.is_root = True
        self.reign = object()
        app, handled = self.app, self.runtime.control.get(self.app, ControlState())
        control = msgspec.structs.replace(copy.control, mark=handled.mark)
        node.join_tree(
            app, member=False, root=self.contact, state=copy.rollup, control=control, reign=copy.reign, rooted=True
        )
        at = {known.address: agent for agent, known in copy.enlisted.items() if not known.lost}
        for agent, known in copy.enlisted.items():
            if known.lost:
                node.exclude(app, agent, at.get(known.address))

    def _resign(self) -> None:
        copy, node = self.runtime.group.copy, self.node
        if self.is_root and node is not None and copy is not None:
            self.is_root = False
            node.join_tree(self.app, member=False, root=contact_at(copy.root), reign=copy.reign, rooted=False)

    async def _care(self) -> None:
        assert self.node is not None
        await GroupCare(self.runtime.name, self.node.groups, self.app, self._look, TIMES).run()

    async def _look(self) -> list[Seat]:
        """Return the agents nearest to the job's key, nearest first."""
        assert self.node is not None
        contacts = await self.node.closest(self.app, SIZE)
        found = await asyncio.gather(*(self._introduced(contact) for contact in contacts))
        return [seat for seat in found if seat is not None]

    async def _introduced(self, contact: Contact) -> Seat | None:
        assert self.node is not None
        if contact == self.contact:
            return Seat(self.runtime.name, contact.address, False)
        try:
            name = await self.node.ask(contact, msgspec.msgpack.encode(Who()), ASK_MS)
        except OverlayError:
            return None
        return Seat(name.decode(), contact.address, False)

    # ---- what a root decides

    async def propose(self, command: Command) -> None:
        """Have a command decided and applied here; NotJoinedError or OvertakenError if we lead no more."""
        assert self.node is not None
        await self.node.groups.propose(self.app, msgspec.msgpack.encode(command))

    async def commit(self, commit: Commit) -> None:
        """Have a commit decided; OvertakenError if this agent leads no more."""
        try:
            await self.propose(Count(commit))
        except NotJoinedError as error:
            raise OvertakenError(str(error)) from None
        copy = self.runtime.group.copy
        if copy is None or copy.rollup != commit.state:
            raise OvertakenError("another commit was decided before")

    async def say(self, entry: ControlEntry) -> None:
        """Have an entry of the job's control log decided, if it is not; OvertakenError if this agent leads no more."""
        copy = self.runtime.group.copy
        if copy is None or not self.is_root:
            raise OvertakenError("this agent is the root no more")
        if entry.mark <= copy.control.mark:
            return
        try:
            await self.propose(Say(entry.mark, entry.body, entry.retain_above))
        except NotJoinedError as error:
            raise OvertakenError(str(error)) from None

    # ---- answers

    async def answer(self, body: bytes) -> bytes | None:
        """Answer another agent."""
        match msgspec.msgpack.decode(body, type=Ask):
            case Who():
                return self.runtime.name.encode()
            case Fetch(agent=agent):
                copy, view = self.runtime.group.copy, self.node.groups.view(self.app) if self.node else None
                leads = view is not None and view.role is Role.LEADER
                seated = view is not None and any(seat.agent == agent for seat in view.seats)
                return msgspec.msgpack.encode(copy) if copy is not None and leads and seated else None
            case Enlist(agent=agent, address=address):
                with contextlib.suppress(OverlayError):
                    return msgspec.msgpack.encode(await enlist(self, agent, address))
            case Amend() as request if self.is_root and (copy := self.runtime.group.copy) is not None:
                return msgspec.msgpack.encode(await amend(self, copy, request))
        return None

    async def direct(self, body: bytes) -> bytes | Contact | None:
        """Answer a question for the job's master if we are that, else point to the one that we have heard of."""
        heard = self.machine.heard
        if self.is_root:
            return await self.answer(body)
        return heard.root if heard is not None and heard.root != self.contact else None

    # ---- a copy's life

    async def _fetch(self, leader: Contact, term: int) -> None:
        """Fetch the leader's copy and open it; what goes wrong the leader asks for again."""
        assert self.node is not None
        request = msgspec.msgpack.encode(Fetch(self.runtime.name))
        try:
            copy = msgspec.msgpack.decode(await self.node.ask(leader, request, ASK_MS), type=Copy)
        except OverlayError:
            return
        await self.node.groups.close(self.app)
        if not self._state().yields_to(term, copy.applied):
            if self.runtime.group.copy is not None:
                self._open(leader)
            return
        await self._forget()
        # Term and vote stay: what this agent has promised to candidates holds for the group, not for its log.
        self.runtime.group.copy = copy
        await self.runtime.touch_disk()
        self._open(leader)

    async def _forget(self) -> None:
        assert self.node is not None
        await self.node.groups.close(self.app)
        if self.leads:
            self.on_group_lead(self.app, False)
        await self.runtime.touch_disk()
        self.runtime.group.copy = None
        self.runtime.group.entries = ()
        await self.runtime.touch_disk()

    # ---- the tree

    def on_record(self, app: bytes, record: Record) -> None:
        """Hear of the job: by its source's tree whoever works on it, by its own whoever forwards."""
        if record.key == JOB_KEY and self.node is not None and not self._is_dead:
            heard = Heard.read(record)
            if app == self.job.source:
                self.machine.cluster.loop.call_soon(self._hear, heard)
            else:
                self._learn(heard)
                self.node.move_root(app, heard.root, heard.reign)

    def _learn(self, heard: Heard) -> None:
        """Remember what is said of the job, and work by the versions there are."""
        self.machine.hear(heard)
        runtime, known = self.runtime, self.machine.heard
        if runtime.enlisted and known is not None and not self._is_dead:
            runtime.adopt(known.versions, runtime.unread)

    def _hear(self, heard: Heard) -> None:
        self._learn(heard)
        if self.machine.heard == heard and self.node is not None and not self._is_dead:
            self.stand()
            self.machine.call(self.node.move_root, self.app, heard.root, heard.reign)

    def stand(self) -> None:
        """Stand in the job's tree, once it is known where to begin."""
        node, runtime, heard = self.node, self.runtime, self.machine.heard
        if node is None or heard is None or self.app not in self.machine.trees:
            return
        if not runtime.enlisted:
            self._begin_once("enlist", self._begin_work())
            return
        state = None if self.is_root or self._stands else RollupState(committed=runtime.settled)
        self.machine.call(
            node.join_tree,
            self.app,
            member=True,
            root=heard.root,
            state=state,
            control=runtime.control.get(self.app),
            reign=heard.reign,
            rooted=self.is_root,
        )
        if not self._stands:
            self._stands = True
            for through in sorted(runtime.snapshots):
                self.machine.call(runtime.hand_over, node, self.app, through)
        self.machine.call(node.add_record, self.app, heard.record)

    async def _begin_work(self) -> None:
        """Ask the master where to begin, until it says so."""
        node, runtime, pause_s = self.node, self.runtime, RETRY_S
        assert node is not None
        request = msgspec.msgpack.encode(Enlist(runtime.name, self.contact.address))
        while self.app in self.machine.trees and self.machine.heard is not None:
            with contextlib.suppress(OverlayError):
                counted = msgspec.msgpack.decode(await node.ask(self.machine.heard.root, request), type=int | None)
                await runtime.touch_disk()
                if not self._is_dead:
                    assert self.machine.heard is not None
                    runtime.begin(counted, self.machine.heard.versions)
                    self.stand()
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)
