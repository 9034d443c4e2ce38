"""A world of machines in virtual time: seeded delays, cut links, crashes and restarts, checked from outside.

Every message goes through encode and decode. A link is a FIFO per direction; a cut loses what is under way and both
ends hear of it before anything new arrives, as `elf.overlay.links.websocket` promises. What survives a crash is what a
runtime stores: snapshots, carried data, commits with their state, verdicts handled.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from elf.overlay import messages
from elf.overlay.application import Application
from elf.overlay.contract import NEVER, Commit, OverlaySettings, RollupState, Trust, Verdict
from elf.overlay.effects import (
    Committed,
    ContactsChanged,
    Effect,
    Input,
    LookedUp,
    Lookup,
    Merge,
    Merged,
    Notified,
    Notify,
    PeerLost,
    Persist,
    Received,
    Send,
    Tick,
)
from elf.overlay.ids import Contact, distance
from elf.overlay.rollup.words import spoken
from elf.overlay.routing import bounded
from tests.overlay.keyed import Keyed
from tests.overlay.tree.invariants import check
from tests.sweep.runtime import pack, unpack

APP = bytes(range(20))
EDGE_MESSAGES = (
    messages.Join, messages.Accept, messages.Redirect, messages.Heartbeat, messages.Unlink, messages.Drop,
)  # fmt: skip


@dataclass
class Store:
    """What one agent finds again after a crash."""

    snapshots: dict[int, list[str]] = field(default_factory=dict)
    carry: list[str] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    settled: int = NEVER
    sealed: int = NEVER
    commits: list[Commit] = field(default_factory=list)
    state: RollupState | None = None


class Machine:
    """One agent: its store, and while it is up its application and the work it has outside the machines."""

    def __init__(self, world: World, index: int) -> None:
        self.world, self.index = world, index
        self.contact = Contact.at("10.0.0.1", 1000 + index)
        self.name = f"a{index}"
        self.store = Store()
        self.app: Application | None = None
        self.work: deque[tuple[str, object]] = deque()
        self.verdicts: deque[Verdict] = deque()
        self.produced = 0
        self.knows: list[int] = []
        #: The last interval handed over in this life.
        self.handed = NEVER

    def view(self, key: bytes) -> Sequence[Contact]:
        return bounded([self.world.machines[i].contact for i in self.knows], self.contact.id, key)

    def trust(self) -> Trust | None:
        """Return its key."""
        return Keyed(self.name)

    def start(self) -> None:
        world = self.world
        settings = OverlaySettings(
            agent_id=self.name, leap_after_ms=world.leap_after_ms, grace_ms=100, fan_in_max=world.fan_in_max
        )
        self.app = Application(APP, self.contact, self.view, settings, world.rng, None, trust=self.trust())
        state = self.store.state if self.index == world.root else None
        root = world.machines[world.root].contact if world.root is not None else None
        self.run(self.app.join(self.index in world.members, root, world.now_ms, state=state))
        for through in sorted(self.store.snapshots):
            self.hand_over(through)

    def crash(self) -> None:
        self.app = None
        self.work.clear()
        self.verdicts.clear()
        self.handed = NEVER

    def hand_over(self, through: int) -> None:
        assert self.app is not None
        items = self.store.snapshots[through]
        payload = pack(items) if items else None
        taken, effects = self.app.seal(through, payload, self.world.now_ms)
        if taken and self.world.replicas and self.world.rng.random() < self.world.replicas:
            holder = self.world.rng.choice(self.world.machines)
            word = spoken(Keyed(self.name), APP, self.name, self.handed, through, payload)
            self.world.copies.append(
                (holder.index, messages.Claim(self.handed, through, (self.name,), payload, (word,)))
            )
        self.handed = through
        self.run(effects)

    def seal(self, through: int, items: list[str]) -> None:
        """One transaction of the runtime, then the hand-over; see `OverlayNode.seal`."""
        store = self.store
        through = max(through, store.settled + 1, *(t + 1 for t in store.snapshots), NEVER)
        items = [item for item in items if not any(a < interval_of(item) <= t for a, t in store.dropped)]
        store.snapshots[through] = items + store.carry
        store.sealed = through
        store.carry = []
        self.hand_over(through)

    def feed(self, event: Input) -> None:
        if self.app is not None:
            self.run(self.app.handle(event, self.world.now_ms))
            check(self.app.tree)

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    self.world.send(self, to, message)
                case Merge() | Persist() | Lookup():
                    self.work.append((type(effect).__name__, effect))
                case Notify(verdict=verdict):
                    self.verdicts.append(verdict)

    def do_work(self) -> None:
        """Finish one thing outside the machines, in any order but for verdicts."""
        if self.verdicts and self.world.rng.random() < 0.5:
            self.heed(self.verdicts.popleft())
            return
        if not self.work:
            return
        position = self.world.rng.randrange(len(self.work))
        _, effect = self.work[position]
        del self.work[position]
        match effect:
            case Merge(ticket=ticket, payloads=payloads):
                self.feed(Merged(ticket, *self.merge(payloads)))
            case Persist(commit=commit):
                self.persist(commit)
            case Lookup():
                alive = [m.contact for m in self.world.machines if m.app is not None]
                self.feed(LookedUp(tuple(sorted(alive, key=lambda c: distance(c.id, APP))[:3])))

    def merge(self, payloads: Sequence[bytes]) -> tuple[bytes | None, tuple[int, ...]]:
        """Merge payloads; returns which would not, too."""
        return pack([item for payload in payloads for item in unpack(payload)]), ()

    def persist(self, commit: Commit) -> None:
        """Make a commit durable, if we are the root, and say so; or crash before that."""
        self.world.check_commit(self, commit)
        self.store.commits.append(commit)
        self.store.state = msgspec.msgpack.decode(msgspec.msgpack.encode(commit.state), type=RollupState)
        if self.world.rng.random() < self.world.crash_at_commit:
            self.world.crash(self)  # durable, but nobody was told
        else:
            self.feed(Committed(commit.through))

    def heed(self, verdict: Verdict) -> None:
        store = self.store
        known = max(store.sealed, store.settled)
        assert verdict.missing or verdict.through <= known, "who counts what was never sealed met another disk"
        store.settled = max(store.settled, verdict.through)
        drops = verdict.missing and verdict.named and self.world.straggler != "late"
        if drops:
            store.dropped.append((verdict.previous, verdict.through))
        for through in [t for t in store.snapshots if t <= verdict.through]:
            items = store.snapshots.pop(through)
            if verdict.missing:
                store.carry += [item for item in items if not drops or interval_of(item) <= verdict.previous]
        if self.world.rng.random() < self.world.crash_at_commit:
            self.world.crash(self)
        else:
            self.feed(Notified(verdict.through))


class World:
    """All machines, the links between them, and the clock."""

    def __init__(
        self, count: int, seed: int, *, root: int | None = 0, members: Sequence[int] | None = None, sparse: bool = True
    ) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1_000_000
        self.leap_after_ms = 3_000
        #: What a leap means for the data: late, drop or void; see `elf.agents.jobs.definition.Options`.
        self.straggler = "late"
        #: How often an operator says of any agent, gone or not, that it is gone for good.
        self.retirements = 0.0
        #: How often a snapshot is copied to another machine, and the copies, by holder, who answers at any time.
        self.replicas = 0.0
        self.copies: list[tuple[int, messages.Claim]] = []
        self.crash_at_commit = 0.0
        self.fan_in_max = 16
        #: How often a message about edges, sent at some time over some link, arrives once more, whatever came between.
        self.echoes = 0.0
        self.sent: deque[tuple[int, int, bytes]] = deque(maxlen=200)
        #: How often an agent says something about edges that is not so, with just the epoch that may be believed.
        self.lies = 0.0
        self.root = root
        self.members = set(range(count) if members is None else members)
        self.machines = [self.new_machine(index) for index in range(count)]
        self.links: dict[tuple[int, int], deque[bytes | None]] = {}
        self.index_of = {machine.contact.id: machine.index for machine in self.machines}
        self.produced: Counter[str] = Counter()
        self.down_until: dict[int, int] = {}
        for machine in self.machines:
            others = [i for i in range(count) if i != machine.index]
            most = max(1, count // 2) if sparse else count - 1
            machine.knows = sorted(self.rng.sample(others, min(len(others), most)))

    def new_machine(self, index: int) -> Machine:
        """Return a machine that is down."""
        return Machine(self, index)

    def start(self) -> None:
        """Start the root and some others; the rest come later, as newcomers or as survivors of a power cut do."""
        for machine in self.machines:
            if machine.index == self.root or self.rng.random() < 0.6:
                machine.start()
            else:
                self.down_until[machine.index] = self.now_ms + self.rng.randint(1, 10_000)

    # ---- links

    def send(self, source: Machine, to: Contact, message: messages.TreeMessage) -> None:
        target = self.index_of[to.id]
        if None in self.links.get((target, source.index), ()):
            return  # the link is dead and its end has not heard yet
        if self.echoes and isinstance(message, EDGE_MESSAGES):
            self.sent.append((source.index, target, messages.encode(message)))
        queue = self.links.setdefault((source.index, target), deque())
        if self.machines[target].app is None:
            self._lost(target, source.index)
        else:
            queue.append(messages.encode(message))

    def _lost(self, a: int, b: int) -> None:
        """Let `b` hear that its link to `a` is gone, before anything new from there."""
        queue = self.links.setdefault((a, b), deque())
        if None not in queue:
            queue.clear()
            queue.append(None)

    def echo(self) -> None:
        """Let an old message about edges arrive again: links never do that, but the tree must stand it."""
        source, target, data = self.rng.choice(self.sent)
        if None not in self.links.get((source, target), ()):
            self.links.setdefault((source, target), deque()).append(data)

    def lie(self) -> None:
        """Let an agent say anything about edges to any other; as the last word of a link that was just opened too."""
        liar, victim, third = (self.rng.choice(self.machines) for _ in range(3))
        if liar is victim or victim.app is None or liar.app is None:
            return
        tree = victim.app.tree
        edges = [edge.epoch for edge in (tree.parent, tree.children.get(liar.contact.id)) if edge is not None]
        epoch = self.rng.choice([tree.epoch, *edges, self.rng.randint(0, 1 << 62)])
        to, root = third.contact.address, tree.root.address if tree.root is not None else None
        message = self.rng.choice(
            [
                messages.Join(APP, epoch, self.rng.choice([root, root, to]), self.rng.randint(0, 20)),
                messages.Accept(APP, epoch, to),
                messages.Redirect(APP, epoch, to, self.rng.choice(list(messages.Reason))),
                messages.Drop(APP, epoch, to),
                messages.Unlink(APP, epoch),
                messages.Heartbeat(APP, epoch, self.rng.random() < 0.5, 0, 0, self.rng.randint(0, 20), to),
            ]
        )
        if None not in self.links.get((liar.index, victim.index), ()):
            self.links.setdefault((liar.index, victim.index), deque()).append(messages.encode(message))

    def cut(self, a: int, b: int) -> None:
        self._lost(a, b)
        self._lost(b, a)

    def deliver(self) -> bool:
        ready = [pair for pair, queue in self.links.items() if queue]
        if not ready:
            return False
        source, target = self.rng.choice(ready)
        data = self.links[source, target].popleft()
        peer = self.machines[source].contact
        if data is None:
            self.machines[target].feed(PeerLost(peer))
            return True
        message = messages.decode(data)
        assert not isinstance(message, messages.Request | messages.Reply)
        self.machines[target].feed(Received(peer, message))
        return True

    # ---- faults

    def crash(self, machine: Machine) -> None:
        if machine.app is None:
            return
        machine.crash()
        for other in self.machines:
            if other is not machine:
                self.links.pop((other.index, machine.index), None)
                self._lost(machine.index, other.index)
        self.down_until[machine.index] = self.now_ms + self.rng.randint(10, 8_000)

    def restart(self, machine: Machine) -> None:
        self.down_until.pop(machine.index, None)
        machine.start()

    # ---- running

    def produce(self, machine: Machine, through: int) -> None:
        items = []
        if self.rng.random() < 0.7:
            # Under other policies than late it matters when an event was: some come late.
            lag = 0 if self.straggler == "late" else self.rng.choice((0, 0, 0, 1, 4))
            items = [f"{machine.name}#{machine.produced}@{through - lag}"]
            machine.produced += 1
            self.produced[items[0]] += 1
        machine.seal(through, items)

    def answer_for(self) -> None:
        """Let a holder hand over a copy, if it is up and a member."""
        index, claim = self.copies.pop(self.rng.randrange(len(self.copies)))
        machine = self.machines[index]
        if machine.app is not None and machine.app.rollup is not None and index in self.members:
            machine.run(machine.app.rollup.answer_for(claim, self.now_ms))

    def retire(self, machine: Machine) -> None:
        assert self.root is not None
        root = self.machines[self.root].app
        if root is not None and root.rollup is not None and root.rollup.ledger is not None:
            root.rollup.retire(machine.name)

    def step(self) -> None:
        """Do one of the things that may happen next."""
        draw = self.rng.random()
        if self.copies and self.rng.random() < 0.02:
            self.answer_for()
        if self.retirements and self.rng.random() < self.retirements:
            self.retire(self.rng.choice(self.machines))
        if self.echoes and self.sent and self.rng.random() < self.echoes:
            self.echo()
        if self.lies and self.rng.random() < self.lies:
            self.lie()
        if draw < 0.6 and self.deliver():
            return
        machine = self.rng.choice(self.machines)
        if draw < 0.8 and machine.app is not None and (machine.work or machine.verdicts):
            machine.do_work()
            return
        if draw < 0.9:
            self.now_ms += self.rng.randint(1, 60)
            for each in self.machines:
                if each.app is not None and each.app.deadline_ms <= self.now_ms:
                    each.feed(Tick())
            for index, until in list(self.down_until.items()):
                if until <= self.now_ms:
                    self.restart(self.machines[index])
        if draw > 0.995 and machine.app is not None:
            machine.feed(ContactsChanged())

    def check_commit(self, machine: Machine, commit: Commit) -> None:
        """Watch the root: one ascending log, nothing twice, nobody both in and out."""
        assert machine.index == self.root
        log = machine.store.commits
        assert commit.previous == (log[-1].through if log else NEVER), "commits follow each other"
        assert commit.through > commit.previous
        assert not set(commit.reported) & set(commit.missing)
        before = {item for old in log for item in unpack(old.payload)}
        items = unpack(commit.payload)
        assert not before & set(items), f"counted twice: {before & set(items)}"
        assert len(items) == len(set(items))
        assert {item.split("#")[0] for item in items} <= set(commit.reported)

    def counted(self) -> Counter[str]:
        """Return how often each item is in a result."""
        assert self.root is not None
        log = self.machines[self.root].store.commits
        items = Counter(item for commit in log for item in unpack(commit.payload))
        if self.straggler == "void":
            items = Counter({item: n for item, n in items.items() if not self.commit_of(item).missing})
        return items

    def commit_of(self, item: str) -> Commit:
        """Return the commit whose label speaks of an item."""
        assert self.root is not None
        log = self.machines[self.root].store.commits
        return next(commit for commit in log if commit.previous < interval_of(item) <= commit.through)


def interval_of(item: str) -> int:
    return int(item.rsplit("@")[1])
