"""Members of one group in virtual time: links that break, crashes between any two effects, disks that stay."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from elf.overlay import messages
from elf.overlay.errors import NotJoinedError, OverlayError
from elf.overlay.group.effects import Apply, GroupEffect, Lead, Save, Tell
from elf.overlay.group.machine import RootGroup
from elf.overlay.group.messages import Entry, GroupAppend, GroupAppended, GroupBehind, Kind, Place, Seat, decode_seats
from elf.overlay.group.state import GroupState, Role
from elf.overlay.ids import Contact

APP = bytes(range(20))


@dataclass
class Disk:
    """What one member finds again: what it saved, and what its runtime applied."""

    term: int = 0
    vote: str = ""
    entries: list[Entry] = field(default_factory=list)
    place: Place = field(default_factory=lambda: Place(1, 1))
    seats: tuple[Seat, ...] = ()
    applied: list[tuple[Place, bytes]] = field(default_factory=list)
    part: bytes = b""


class Member:
    """One agent: its disk, and while it is up and a member its machine."""

    def __init__(self, world: World, index: int) -> None:
        self.world, self.name = world, f"a{index}"
        self.contact = Contact.at("10.0.0.1", 1000 + index)
        self.disk: Disk | None = None
        self.group: RootGroup | None = None
        self.leads = False
        self.is_up = True

    @property
    def seat(self) -> Seat:
        return Seat(self.name, self.contact.address, True)

    def start(self) -> None:
        self.is_up = True
        if self.disk is None:
            return
        disk = self.disk
        entries = tuple(entry for entry in disk.entries if entry.place.index > disk.place.index)
        state = GroupState(term=disk.term, vote=disk.vote, applied=disk.place, seats=disk.seats, entries=entries)
        self.group = RootGroup(APP, self.name, state, self.world.rng, self.world.now_ms)

    def crash(self) -> None:
        self.group, self.leads, self.is_up = None, False, False

    def copy(self, other: Member) -> None:
        """Fetch everything from the leader, as a runtime does."""
        if other.disk is None:
            return
        theirs = other.disk
        term = max(theirs.term, self.disk.term if self.disk else 0)
        vote = self.disk.vote if self.disk and self.disk.term == term else ""
        self.disk = Disk(term, vote, [], theirs.place, theirs.seats, list(theirs.applied))
        self.start()

    def run(self, effects: list[GroupEffect]) -> None:
        for effect in effects:
            if self.world.rng.random() < self.world.crash_between:
                self.crash()
            if self.group is None or self.disk is None:
                return
            match effect:
                case Tell(to=to, message=message):
                    self.world.send(self, to, message)
                case Save(term=term, vote=vote, after=after, entries=entries):
                    disk = self.disk
                    assert term >= disk.term
                    assert (term, vote) == (disk.term, disk.vote) or term > disk.term or not disk.vote
                    assert all(entry.place.index > disk.place.index for entry in entries)
                    disk.term, disk.vote = term, vote
                    disk.entries = [entry for entry in disk.entries if entry.place.index <= after] + list(entries)
                    self.run(self.group.on_saved(after + len(entries), self.world.now_ms))
                case Apply(entries=entries):
                    for entry in entries:
                        self.apply(entry)
                    self.group.on_applied(self.disk.place.index)
                case Lead(leads=leads):
                    self.leads = leads

    def apply(self, entry: Entry) -> None:
        disk = self.disk
        assert disk is not None
        assert entry.place.index == disk.place.index + 1, "applied with a gap"
        disk.place = entry.place
        if entry.kind is Kind.COMMAND:
            disk.applied.append((entry.place, entry.body))
        if entry.kind is Kind.SEATS:
            disk.seats = decode_seats(entry.body)


class World:
    """Members and the links between them."""

    def __init__(self, count: int, seed: int, crash_between: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1_000_000
        self.crash_between = 0.0
        self.members = [Member(self, index) for index in range(count)]
        self.by_address = {member.contact.address: member for member in self.members}
        self.wires: dict[tuple[str, str], deque[bytes]] = {}
        self.cuts: set[tuple[str, str]] = set()
        #: Commands by the member that proposed them, and those seen applied while it led.
        self.proposed = 0
        self.promised: set[bytes] = set()
        self.leaders: dict[int, str] = {}
        first = self.members[0]
        first.disk = Disk(seats=(first.seat,))
        first.start()
        self.settle(lambda: first.leads)
        self.crash_between = crash_between

    def leader(self) -> Member | None:
        leading = [member for member in self.members if member.leads and member.group is not None]
        return max(leading, key=lambda member: member.group.term, default=None)  # type: ignore[union-attr]

    def send(self, sender: Member, to: Contact, message: messages.Message) -> None:
        pair = sender.contact.address, to.address
        if pair in self.cuts or not self.by_address[to.address].is_up:
            self.break_link(*pair)
            return
        self.wires.setdefault(pair, deque()).append(messages.encode(message))

    def break_link(self, one: str, other: str) -> None:
        """What is under way is lost, and both ends hear of it."""
        for pair in ((one, other), (other, one)):
            self.wires.pop(pair, None)
            member, peer = self.by_address[pair[0]], self.by_address[pair[1]]
            if member.group is not None:
                member.run(member.group.on_lost(peer.contact, self.now_ms))

    def step(self) -> None:
        """Deliver one message or let a little time pass."""
        waiting = [pair for pair, wire in self.wires.items() if wire]
        if waiting and self.rng.random() < 0.9:
            pair = self.rng.choice(waiting)
            self.deliver(pair, self.wires[pair].popleft())
        else:
            self.now_ms += self.rng.choice((1, 20, 100))
            for member in self.members:
                if member.group is not None and member.group.deadline_ms <= self.now_ms:
                    member.run(member.group.on_tick(self.now_ms))
        self.check()

    def deliver(self, pair: tuple[str, str], data: bytes) -> None:
        sender, member = self.by_address[pair[0]], self.by_address[pair[1]]
        message = messages.decode(data)
        if not member.is_up:
            return
        if member.group is None:
            if isinstance(message, GroupAppend) and message.to == member.name:
                self.send(member, sender.contact, GroupAppended(APP, message.term, member.name, False, 0))
            if isinstance(message, GroupBehind) and message.to == member.name:
                member.copy(sender)
            return
        if isinstance(message, GroupBehind):
            if message.to == member.name:
                member.copy(sender)
            return
        member.run(member.group.on_message(sender.contact, message, self.now_ms))  # type: ignore[arg-type]

    def propose(self) -> None:
        member = self.leader()
        if member is None or member.group is None:
            return
        self.proposed += 1
        try:
            _, effects = member.group.propose(b"%d" % self.proposed, self.now_ms)
        except NotJoinedError:
            return
        member.run(effects)

    def change(self) -> None:
        """Let the leader add or remove some member, as a runtime would: one vote at a time."""
        member = self.leader()
        if member is None or member.group is None:
            return
        seats = list(member.group.log.seats)
        outside = [m.seat for m in self.members if m.name not in {seat.agent for seat in seats}]
        draw = self.rng.random()
        if outside and draw < 0.5:
            seat = self.rng.choice(outside)
            seats.append(Seat(seat.agent, seat.address, self.rng.random() < 0.5))
        elif draw < 0.75:
            at = self.rng.randrange(len(seats))
            seats[at] = Seat(seats[at].agent, seats[at].address, True)
        elif len(seats) > 1:
            gone = self.rng.choice([seat for seat in seats if seat.agent != member.name])
            seats.remove(gone)
        try:
            effects = member.group.change(seats, self.now_ms)
        except (NotJoinedError, OverlayError):
            return
        member.run(effects)

    def crash(self, member: Member) -> None:
        member.crash()
        for other in self.members:
            if other is not member:
                self.break_link(member.contact.address, other.contact.address)

    def check(self) -> None:
        """At most one leader a term; all applied logs are prefixes of the longest; nothing promised is lost."""
        for member in self.members:
            if member.group is not None and member.group.role is Role.LEADER:
                assert self.leaders.setdefault(member.group.term, member.name) == member.name, "two leaders in a term"
        logs = [member.disk.applied for member in self.members if member.disk is not None]
        longest = max(logs, key=len)
        for log in logs:
            assert log == longest[: len(log)], "two members applied different entries"
        self.promised.update(body for member in self.members if member.leads and member.disk
                             for _, body in member.disk.applied[len(self.promised):])  # fmt: skip
        assert len(longest) >= len(self.promised), "a promised entry is lost"

    def settle(self, condition: object, steps: int = 20_000) -> None:
        for _ in range(steps):
            if condition():  # type: ignore[operator]
                return
            self.step()
        raise AssertionError("it did not come true")
