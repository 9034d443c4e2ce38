"""Control machines in a tree that never holds still: cut links, crashes, new parents, new roots; checked from outside.

A link is a FIFO per direction; a cut loses what is under way and both ends hear of it first, as
`elf.overlay.links.websocket` promises. Every message goes through encode and decode. Agents are numbered by their
distance to the key: a parent has a lower number than its child, and who sees nobody lower is the root. What survives a
crash is what `on_control` stored.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from elf.overlay import messages
from elf.overlay.contract import ORIGIN, ControlEntry, ControlState, Mark
from elf.overlay.control.machine import PENDING_MAX, Control
from elf.overlay.effects import ChildDown, ChildUp, Deliver, Effect, ParentDown, ParentUp, RootChanged, Send
from elf.overlay.ids import Contact
from tests.sweep.runtime import handled

APP = bytes(range(20))


@dataclass(frozen=True)
class Ask:
    """A wish for an edge; `granted` is the answer."""

    epoch: int
    granted: bool = False


@dataclass(frozen=True)
class Part:
    """The good-bye of a child."""

    epoch: int


class Peer:
    """One agent: what it stored, and while it is up its machine and edges."""

    def __init__(self, world: ControlWorld, index: int) -> None:
        self.world, self.index = world, index
        self.contact = Contact.at("10.0.0.1", 1000 + index)
        self.group = 0
        self.store: ControlState | None = None
        self.handled: list[ControlEntry] = []
        self.machine: Control | None = None
        self.work: deque[ControlEntry] = deque()
        self.parent: int | None = None
        self.asked: int | None = None
        self.epoch = 0
        self.is_root = False
        self.said = 0
        #: How far this agent's clock is off.
        self.skew_ms = world.rng.randint(0, 20_000) if world.skewed else 0

    @property
    def now_ms(self) -> int:
        return self.world.now_ms + self.skew_ms

    def start(self) -> None:
        self.machine = Control(APP, self.world.rng)
        self.run(self.machine.enrol(self.store))

    def crash(self) -> None:
        self.machine = self.parent = self.asked = None
        self.is_root = False
        self.work.clear()

    # ---- the tree, as far as it matters here

    def seek(self) -> None:
        """Take a parent if there is any, else become the root if that is allowed."""
        assert self.machine is not None
        now_ms = self.now_ms
        above = self.world.candidates(self)
        if above and self.parent is None and self.asked is None:
            if self.is_root:
                self.is_root = False
                self.run(self.machine.on_edge(RootChanged(False), now_ms))
            self.epoch = max(self.epoch + 1, now_ms * 1000)
            self.asked = self.world.rng.choice(above)
            self.world.send(self.index, self.asked, Ask(self.epoch))
        elif not above and self.parent is None and not self.is_root and self.world.may_be_root(self):
            self.is_root = True
            self.run(self.machine.on_edge(RootChanged(True), now_ms))

    def part(self) -> None:
        """Leave the parent for another."""
        if self.machine is not None and self.parent is not None:
            self.world.send(self.index, self.parent, Part(self.epoch))
            self.parent = None
            self.run(self.machine.on_edge(ParentDown(), self.now_ms))

    def on_lost(self, other: int) -> None:
        if self.machine is None:
            return
        if self.parent == other:
            self.parent = None
            self.run(self.machine.on_edge(ParentDown(), self.now_ms))
        if self.asked == other:
            self.asked = None
        self.run(self.machine.on_edge(ChildDown(self.world.peers[other].contact), self.now_ms))

    def receive(self, source: int, message: Ask | Part | bytes) -> None:
        if self.machine is None:
            return
        sender, now_ms = self.world.peers[source].contact, self.now_ms
        if isinstance(message, bytes):
            decoded = messages.decode(message)
            if isinstance(decoded, messages.Unlink):
                if self.parent == source and self.epoch == decoded.epoch:
                    self.on_lost(source)
                return
            assert isinstance(decoded, messages.ControlAsk | messages.ControlSeen | messages.ControlEntries)
            self.run(self.machine.on_message(sender, decoded, now_ms))
        elif isinstance(message, Part):
            self.run(self.machine.on_edge(ChildDown(sender), now_ms))
        elif not message.granted:
            self.run(self.machine.on_edge(ChildUp(sender, message.epoch), now_ms))
            self.world.send(self.index, source, Ask(message.epoch, granted=True))
        elif self.asked == source and self.epoch == message.epoch:
            self.asked, self.parent = None, source
            self.run(self.machine.on_edge(ParentUp(sender, message.epoch), now_ms))

    # ---- the runtime

    def say(self) -> None:
        assert self.machine is not None
        self.said += 1
        body = f"{self.index}#{self.said}".encode() + bytes(self.world.rng.randrange(self.world.body_bytes_max))
        _, effects = self.machine.append(body, self.now_ms)
        self.run(effects)

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                assert not self.work, "one at a time"
                self.work.append(effect.entry)
            else:
                assert isinstance(effect, Send)
                self.world.check_sent(self, effect)
                target = self.world.index_of[effect.to.id]
                self.world.send(self.index, target, messages.encode(effect.message))

    def handle(self) -> None:
        """Let the runtime store the entry it has; it may crash before it can say so."""
        if self.machine is None or not self.work:
            return
        entry = self.work.popleft()
        self.world.check_handled(self, entry)
        self.handled.append(entry)
        self.store = handled(self.store or ControlState(), entry)
        if self.world.rng.random() < self.world.crash_when_stored:
            self.world.crash(self.index)
        else:
            self.run(self.machine.on_delivered(entry.mark))


class ControlWorld:
    """All agents, the links between them, and the clock."""

    def __init__(self, count: int, seed: int, *, recorded: bool, skewed: bool = False, body_bytes_max: int = 8) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1_000_000
        self.recorded, self.skewed, self.body_bytes_max = recorded, skewed, body_bytes_max
        self.crash_when_stored = 0.0
        self.peers = [Peer(self, index) for index in range(count)]
        self.index_of = {peer.contact.id: peer.index for peer in self.peers}
        self.links: dict[tuple[int, int], deque[Ask | Part | bytes | None]] = {}
        #: What every entry says and which one is before it; all agents must agree.
        self.truth: dict[Mark, tuple[Mark, bytes]] = {}
        self.durable: set[Mark] = set()
        self.sent: set[tuple[int, int, int, Mark]] = set()
        self.skips = 0
        for peer in self.peers:
            peer.start()

    # ---- what the tree allows

    def candidates(self, peer: Peer) -> list[int]:
        lower = self.peers[: peer.index]
        return [other.index for other in lower if other.machine is not None and other.group == peer.group]

    def may_be_root(self, peer: Peer) -> bool:
        return peer.index == 0 if self.recorded else True

    # ---- links

    def send(self, source: int, target: int, message: Ask | Part | bytes) -> None:
        if None in self.links.get((target, source), ()):
            return
        if self.peers[target].machine is None or self.peers[target].group != self.peers[source].group:
            self._lost(target, source)
        else:
            self.links.setdefault((source, target), deque()).append(message)

    def _lost(self, a: int, b: int) -> None:
        """Let `b` hear that its link to `a` is gone, before anything new from there."""
        queue = self.links.setdefault((a, b), deque())
        if None not in queue:
            queue.clear()
            queue.append(None)

    def cut(self, a: int, b: int) -> None:
        self._lost(a, b)
        self._lost(b, a)

    def deliver(self) -> bool:
        ready = [pair for pair, queue in self.links.items() if queue]
        if not ready:
            return False
        source, target = self.rng.choice(ready)
        message = self.links[source, target].popleft()
        if message is None:
            self.peers[target].on_lost(source)
        else:
            self.peers[target].receive(source, message)
        return True

    # ---- faults

    def crash(self, index: int) -> None:
        if self.peers[index].machine is None:
            return
        self.peers[index].crash()
        for other in range(len(self.peers)):
            if other != index:
                self.links.pop((other, index), None)
                self._lost(index, other)

    def regroup(self, groups: int) -> None:
        """Partition the network anew, or heal it with one group."""
        for peer in self.peers:
            peer.group = self.rng.randrange(groups)
        for a in self.peers:
            for b in self.peers[: a.index]:
                if a.group != b.group:
                    self.cut(a.index, b.index)

    # ---- running

    def step(self, faults: float) -> None:
        peer = self.rng.choice(self.peers)
        draw = self.rng.random()
        if draw < 0.55 and self.deliver():
            return
        self.now_ms += self.rng.randint(0, 20)
        if peer.machine is None:
            if self.rng.random() < 0.1:
                peer.start()
        elif draw < 0.75:
            peer.handle()
        elif draw < 0.9:
            peer.seek()
        elif draw < 0.93 and peer.is_root and len(self.truth) < PENDING_MAX:
            peer.say()
        elif self.rng.random() < faults:
            match self.rng.randrange(8):
                case 0 | 1:
                    self.crash(peer.index)
                case 2 | 3 | 4:
                    self.cut(*self.rng.sample(range(len(self.peers)), 2))
                case 5 if not self.recorded:
                    self.regroup(self.rng.randint(1, 3))
                case _:
                    peer.part()

    def heal(self) -> None:
        """Stop the faults, bring everyone back, and run until nothing moves."""
        self.crash_when_stored = 0.0
        self.regroup(1)
        for peer in self.peers:
            if peer.machine is None:
                peer.start()
        self.settle()

    def settle(self) -> None:
        quiet = 0
        while quiet < 3:
            moved = False
            while self.deliver():
                moved = True
            for peer in self.peers:
                moved |= bool(peer.work)
                peer.handle()
                if (peer.parent is None and not peer.is_root) or (peer.is_root and self.candidates(peer)):
                    peer.seek()
                    moved = True
            quiet = 0 if moved else quiet + 1

    # ---- checks from outside

    def check_sent(self, peer: Peer, effect: Send) -> None:
        if not isinstance(effect.message, messages.ControlEntries):
            return
        after = effect.message.after
        for entry in effect.message.entries:
            assert entry.mark in self.durable, "durable at the root before it goes down"
            known = self.truth.setdefault(entry.mark, (after, entry.body))
            assert known == (after, entry.body), "one history behind every mark"
            once = (peer.index, self.index_of[effect.to.id], effect.message.epoch, entry.mark)
            assert once not in self.sent, "each entry once per edge"
            self.sent.add(once)
            after = entry.mark

    def check_handled(self, peer: Peer, entry: ControlEntry) -> None:
        previous = peer.handled[-1].mark if peer.handled else ORIGIN
        assert entry.mark > previous, "in order, at most once, also over restarts"
        self.durable.add(entry.mark)
        self.skips += entry.skipped
        if not entry.skipped:
            assert self.truth.setdefault(entry.mark, (previous, entry.body)) == (previous, entry.body), "no gap"
        elif entry.mark in self.truth:
            assert self.truth[entry.mark][1] == entry.body

    def check_end(self) -> None:
        """Everyone stands where the root stands, with the same entries retained."""
        assert [peer.is_root for peer in self.peers] == [peer.index == 0 for peer in self.peers]
        root = self.peers[0].machine
        assert root is not None
        for peer in self.peers:
            assert peer.machine is not None
            assert peer.machine.delivered == root.delivered == root.log.last
            assert peer.machine.log.last == root.log.last
            count = min(len(peer.machine.log.entries), len(root.log.entries))
            assert peer.machine.log.entries[-count:] == root.log.entries[-count:]
