"""The edges of one node in one tree: who is at their ends, until when they count, and what children were told.

Owns heartbeats and leases; who may have an edge is `elf.overlay.tree.machine`'s. Pure. OVERLAY section 4.

A silent peer is the link's to notice (`PeerLost`), so an edge needs few heartbeats of its own: rare ones, by which both
ends agree that it exists, and one at once when something from above changes: the root's term or last commit, by which
the roll-up finds verdicts that passed it by, and the grandparent, whom a child asks first when its parent is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import ChildDown, Effect, ParentDown, Send
from elf.overlay.ids import Contact
from elf.overlay.messages import Accept, Drop, Heartbeat, Unlink, contact_of
from elf.overlay.tree.policy import Seat, has_room

#: Heartbeats of a link for one of an edge, and heartbeats of an edge for its lease. Links notice what fails; an edge
#: on which its two ends disagree, which only a fault in our own code or memory brings about, may last this much longer.
EDGE_BEATS, LEASE_BEATS = 10, 3


@dataclass(frozen=True, slots=True)
class News:
    """What a child hears from above: the root's term and last commit, both 0 while unknown, and its grandparent."""

    term: int = 0
    committed: int = 0
    grandparent: Contact | None = None


@dataclass(slots=True)
class Edge:
    """An edge to a peer; at `lease_ms` it counts as lost unless the peer says something before.

    `load`: children of the peer, as far as we know. `told`: the news that a child has heard.
    """

    peer: Contact
    epoch: int
    lease_ms: int
    load: int = 0
    told: News = News()


class Edges:
    """The edge to the parent and those to the children."""

    __slots__ = (
        "_news", "_phase_ms", "_untold", "app", "beat_ms", "children", "fan_in_max", "grandparent", "heartbeat_ms",
        "lease_ms", "parent",
    )  # fmt: skip

    def __init__(self, app: bytes, me: Contact, settings: OverlaySettings) -> None:
        self.app = app
        self.parent: Edge | None = None
        self.grandparent: Contact | None = None
        self.children: dict[bytes, Edge] = {}
        self.fan_in_max = settings.fan_in_max
        self.heartbeat_ms = EDGE_BEATS * settings.heartbeat_ms
        self.lease_ms = LEASE_BEATS * self.heartbeat_ms
        #: When edges speak next. At the same time in all trees of a node, so that what goes to one peer goes in one
        #: frame; at another time on every node.
        self.beat_ms = 0
        self._phase_ms = int.from_bytes(me.id[:4]) % self.heartbeat_ms
        self._news = News()
        self._untold = False

    # ---- coming and going

    def set_parent(self, peer: Contact, accept: Accept, now_ms: int) -> None:
        """Hang under a peer; from now on it is what children hear of as their grandparent."""
        # Full, until it says how many children it has.
        self.parent = Edge(peer, accept.epoch, now_ms + self.lease_ms, self.fan_in_max)
        self.grandparent = contact_of(accept.grandparent) if accept.grandparent is not None else None
        self._news = News(self._news.term, self._news.committed, peer)
        self._untold = True

    def lose_parent(self) -> Contact | None:
        """Have no parent any more; returns the grandparent, if known."""
        above = self.grandparent
        self.parent = None
        self.grandparent = None
        return above

    def become_root(self) -> None:
        """Have nobody above us."""
        self.lose_parent()
        self._news = News(self._news.term, self._news.committed, None)
        self._untold = True

    def add_child(self, peer: Contact, epoch: int, load: int, now_ms: int) -> None:
        """Take in a child, or replace its older edge."""
        self.children[peer.id] = Edge(peer, epoch, now_ms + self.lease_ms, load, News(grandparent=self.above))
        self._untold = True

    def dissolve(self) -> list[Effect]:
        """Give up all edges; children are handed to our parent.

        The parent hears first, so that it has a free place and sends nobody back to us.
        """
        effects: list[Effect] = []
        parent = self.parent
        if parent is not None:
            effects += [Send(parent.peer, Unlink(self.app, parent.epoch)), ParentDown()]
        for edge in self.children.values():
            bye = (
                Drop(self.app, edge.epoch, parent.peer.address) if parent is not None else Unlink(self.app, edge.epoch)
            )
            effects += [Send(edge.peer, bye), ChildDown(edge.peer)]
        self.children.clear()
        self.become_root()  # nobody is above us any more
        return effects

    @property
    def above(self) -> Contact | None:
        """Our last parent, of whom children know as their grandparent; None at the root."""
        return self._news.grandparent

    def is_parent(self, peer: Contact, epoch: int) -> bool:
        """Whether our parent's edge is this one."""
        return self.parent is not None and self.parent.peer == peer and self.parent.epoch == epoch

    def is_child(self, peer: Contact, epoch: int) -> bool:
        """Whether a child's edge is this one."""
        edge = self.children.get(peer.id)
        return edge is not None and edge.epoch == epoch

    def seats(self) -> Iterator[Seat]:
        """Yield the children as `elf.overlay.tree.policy` sees them."""
        return (Seat(edge.peer, edge.load) for edge in self.children.values())

    # ---- heartbeats

    def on_heartbeat(self, sender: Contact, beat: Heartbeat, now_ms: int) -> list[Effect]:
        """Renew a lease; a heartbeat on an edge we do not have is answered with Unlink."""
        edge = self.parent if beat.down else self.children.get(sender.id)
        if edge is None or edge.peer != sender or edge.epoch != beat.epoch:
            return [Send(sender, Unlink(self.app, beat.epoch))]
        edge.lease_ms = now_ms + self.lease_ms
        edge.load = beat.load
        if beat.down:
            self.grandparent = contact_of(beat.grandparent) if beat.grandparent is not None else None
        return []

    def expire_children(self, now_ms: int) -> list[Effect]:
        """Drop children whose lease has run out."""
        effects: list[Effect] = []
        for edge in [edge for edge in self.children.values() if edge.lease_ms <= now_ms]:
            del self.children[edge.peer.id]
            effects += [Send(edge.peer, Unlink(self.app, edge.epoch)), ChildDown(edge.peer)]
        return effects

    def beat(self, term: int, committed: int, now_ms: int) -> list[Effect]:
        """Say something on every edge if it is time to."""
        if now_ms < self.beat_ms:
            return []
        begins = self.beat_ms == 0
        self.beat_ms = now_ms + self.heartbeat_ms - (now_ms - self._phase_ms) % self.heartbeat_ms
        if begins:
            return []  # a new edge has just been agreed on
        self._learn(term, committed)
        self._untold = False
        effects = [self._down(edge) for edge in self.children.values()]
        if self.parent is not None:
            up = Heartbeat(self.app, self.parent.epoch, False, 0, committed, len(self.children))
            effects.append(Send(self.parent.peer, up))
        return effects

    def tell(self, term: int, committed: int) -> list[Effect]:
        """Tell children at once what they have not heard yet. O(1) when there is nothing new."""
        if not self._learn(term, committed) and not self._untold:
            return []
        self._untold = False
        return [self._down(edge) for edge in self.children.values() if edge.told != self._news]

    def has_heard(self, child: Contact, term: int, committed: int) -> None:
        """Take note that a message of the roll-up told a child of a term and commit: no heartbeat need repeat it."""
        edge = self.children.get(child.id)
        if edge is not None:
            edge.told = News(term, committed, edge.told.grandparent)

    def _learn(self, term: int, committed: int) -> bool:
        before = self._news
        self._news = News(term, committed if term else 0, before.grandparent)
        return self._news != before

    def _down(self, edge: Edge) -> Effect:
        edge.told = news = self._news
        grandparent = news.grandparent.address if news.grandparent is not None else None
        room = self.parent is not None and has_room(self.parent.load, self.fan_in_max)
        beat = Heartbeat(self.app, edge.epoch, True, news.term, news.committed, len(self.children), grandparent, room)
        return Send(edge.peer, beat)
