"""Tree machines alone in virtual time: no sockets, no roll-up, one event queue, links of a fixed delay.

For sizes that the harness, which checks far more, cannot reach. Contacts are those of settled routing tables, as in
`tests.overlay.tree.topology`.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import Effect, Lookup, Send
from elf.overlay.ids import Contact, distance
from elf.overlay.messages import Accept, Drop, Heartbeat, Join, Redirect, TreeMessage, Unlink
from elf.overlay.routing import bounded
from elf.overlay.sim.machines import numbered_contact
from elf.overlay.tree.machine import Role, Tree
from tests.overlay.tree.invariants import check
from tests.overlay.tree.topology import Tables

DELAY_US = 500
LOOKUP_US = 5_000
START_US = 1_000_000_000


@dataclass
class Figures:
    """The shape of a tree and what it cost."""

    depth: int
    hops_mean: float
    fan_in: int
    joins: int
    joins_per_member: float
    interior: int
    settled_ms: float
    messages: Counter[str] = field(default_factory=Counter)


class Forest:
    """All machines of one tree."""

    def __init__(
        self,
        count: int,
        seed: int,
        *,
        recorded: bool = False,
        fan_in_max: int = 16,
        check: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.key = self.rng.randbytes(20)
        self.now_us = START_US
        self.check = check
        self.nodes = [numbered_contact(index, 4_000 + seed % 1_000) for index in range(count)]
        self.settings = OverlaySettings(fan_in_max=fan_in_max)
        self.trees: dict[bytes, Tree] = {}
        self.messages: Counter[str] = Counter()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._due: dict[bytes, int] = {}
        self._settled_us = START_US
        self._ranked = sorted(self.nodes, key=lambda contact: distance(contact.id, self.key))
        #: The recorded root was the closest when the job was published; others may have come since.
        self.root = self.rng.choice(self._ranked[:3]) if recorded else None
        tables = Tables(self.nodes)
        for me in self.nodes:
            view = tuple(bounded(tables.all_levels(me), me.id, self.key))
            self.trees[me.id] = Tree(self.key, me, lambda _, view=view: view, self.settings, self.rng, None)

    # ---- running

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (time_us, self._serial, action))

    def join_all(self, within_ms: int = 0) -> None:
        """Let everyone join, in random order, at random times within so long."""
        order = list(self.nodes)
        self.rng.shuffle(order)
        for me in order:
            self.at(self.now_us + self.rng.randint(0, within_ms * 1_000), lambda me=me: self.enter(me))

    def enter(self, me: Contact) -> None:
        self.feed(me, lambda tree: tree.join(True, self.root, self.now_ms))

    @property
    def now_ms(self) -> int:
        return self.now_us // 1_000

    def run(self, until_us: int) -> None:
        """Go on until that time."""
        while self._queue and self._queue[0][0] <= until_us:
            self.now_us, _, action = heapq.heappop(self._queue)
            action()
        self.now_us = until_us

    def run_for(self, duration_ms: int) -> None:
        self.run(self.now_us + duration_ms * 1_000)

    def feed(self, me: Contact, give: Callable[[Tree], list[Effect]]) -> None:
        tree = self.trees.get(me.id)
        if tree is None:
            return
        before = tree.parent
        effects = give(tree) + tree.edges.tell(0, 0)
        if tree.parent is not before:
            self._settled_us = self.now_us
        if self.check:
            check(tree)
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    self.messages[type(message).__name__] += 1
                    self.at(self.now_us + DELAY_US, lambda to=to, m=message: self.receive(to, me, m))
                case Lookup():
                    self.at(self.now_us + LOOKUP_US, lambda: self.answer(me))
        due_us = max(tree.deadline_ms * 1_000, self.now_us + 1)
        if self._due.get(me.id, 0) <= self.now_us or due_us < self._due[me.id]:
            self._due[me.id] = due_us
            self.at(due_us, lambda: self.tick(me, due_us))

    def tick(self, me: Contact, due_us: int) -> None:
        if self._due.get(me.id) == due_us:
            del self._due[me.id]
            self.feed(me, lambda tree: tree.on_tick(self.now_ms, 0, 0))

    def answer(self, me: Contact) -> None:
        alive = [contact for contact in self._ranked if contact.id in self.trees]
        self.feed(me, lambda tree: tree.on_looked_up(tuple(alive[:3]), self.now_ms))

    def receive(self, me: Contact, sender: Contact, message: TreeMessage) -> None:
        if me.id not in self.trees:
            self.feed(sender, lambda tree: tree.on_peer_lost(me, self.now_ms))
            return
        handlers = {
            Join: Tree.on_join, Accept: Tree.on_accept, Redirect: Tree.on_redirect, Drop: Tree.on_drop,
            Heartbeat: Tree.on_heartbeat, Unlink: Tree.on_unlink,
        }  # fmt: skip
        self.feed(me, lambda tree: handlers[type(message)](tree, sender, message, self.now_ms))

    def crash(self, victim: Contact) -> None:
        """Take a node away; whoever has an edge with it hears so."""
        del self.trees[victim.id]
        for other in list(self.trees.values()):
            edged = victim.id in other.children or other.search.asked == victim
            if edged or (other.parent is not None and other.parent.peer == victim):
                me = other.me
                self.at(
                    self.now_us + DELAY_US, lambda me=me: self.feed(me, lambda t: t.on_peer_lost(victim, self.now_ms))
                )

    # ---- the verdict

    def orphans(self) -> list[Contact]:
        return [tree.me for tree in self.trees.values() if tree.role not in (Role.MEMBER, Role.ROOT)]

    def figures(self) -> Figures:
        """Return the figures; fails unless all hang under the one true root by edges that both ends have."""
        alive = [contact for contact in self._ranked if contact.id in self.trees]
        root = self.root or alive[0]
        depth = {root.id: 0}
        for contact in alive:
            way = []
            at = self.trees[contact.id]
            while at.me.id not in depth:
                way.append(at)
                assert at.parent is not None, f"{at.me} is {at.role} and not under the root"
                above = self.trees[at.parent.peer.id]
                assert above.edges.is_child(at.me, at.parent.epoch), "the parent does not know its child"
                assert len(way) <= len(alive), "a cycle"
                at = above
            base = depth[at.me.id]
            for step, tree in enumerate(reversed(way), 1):
                depth[tree.me.id] = base + step
        for tree in self.trees.values():
            check(tree)
            assert (tree.role is Role.ROOT) == (tree.me == root)
        edges = sum(len(tree.children) for tree in self.trees.values())
        assert edges == len(alive) - 1
        return Figures(
            depth=max(depth.values()),
            hops_mean=sum(depth.values()) / max(1, len(alive) - 1),
            fan_in=max(len(tree.children) for tree in self.trees.values()),
            joins=self.messages["Join"],
            joins_per_member=self.messages["Join"] / len(alive),
            interior=sum(bool(tree.children) for tree in self.trees.values()),
            settled_ms=(self._settled_us - START_US) / 1_000,
            messages=self.messages,
        )
