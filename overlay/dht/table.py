"""The routing table: which contacts are kept, which are looked after next, which one is given up.

Owns every decision over contacts but which is next on the way to a key (`elf.overlay.routing`); sends nothing and reads
no clock. One level per length of the prefix shared with our own id, k contacts on each. OVERLAY sections 1 (what is
wrong with the library's table), 1.2 and 3.

Invariants: a level holds only contacts of its prefix length, at most k, least recently seen first; a contact leaves
after `STRIKES_MAX` calls in a row without an answer, never after one lost datagram.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from kademlia.node import Node
from kademlia.routing import KBucket, RoutingTable

from elf.overlay.ids import ID_BITS, ID_BYTES, Contact, prefix_bits

STRIKES_MAX = 2
#: Nearest contacts that are checked more often than the rest: as many as answer for a key near us (HINT_COPIES).
NEAR_MIN = 8
#: Rounds of pings may be so much larger than even ones: what fell due at once, as when the pace changes, is worked off
#: before it is due again.
CATCH_UP = 1.25
#: Contacts remembered after they were given up: enough to find the others again when a split network heals.
LOST_MAX = 64


class Peer(Node):  # type: ignore[misc]  # kademlia has no types
    """A contact in the table, with what we know of its health.

    `lot` decides who stays on a full level, the lower the better: as good as random, other for every owner of a table.
    """

    def __init__(self, contact: Contact, owner: bytes, seen_ms: int) -> None:
        super().__init__(contact.id, contact.host, contact.port)
        self.contact = contact
        self.lot = hashlib.blake2b(contact.id, digest_size=8, key=owner).digest()
        self.seen_ms = seen_ms
        self.strikes = 0
        self.number = contact.number


class Level(KBucket):  # type: ignore[misc]
    """All contacts that share a prefix of one length with us, and the replacements waiting for a place."""

    nodes: OrderedDict[bytes, Peer]
    replacement_nodes: OrderedDict[bytes, Peer]

    def add_node(self, node: Peer) -> bool:
        """Take a contact in; on a full level only in place of one with a higher lot. Tell whether it was taken.

        Differs from the library, which keeps whoever came first: then everybody knows the same oldest agents, and
        these carry the trees of all the others.
        """
        if len(self) >= self.ksize and node.id not in self.nodes:
            last = max(self.nodes.values(), key=lambda peer: peer.lot)
            if node.lot < last.lot:
                del self.nodes[last.id]
                self.replacement_nodes.pop(node.id, None)
                self.nodes[node.id] = node
                super().add_node(last)
                return True
        return bool(super().add_node(node))

    def touch_last_updated(self) -> None:
        """Do nothing: refresh follows empty levels, not the library's process-wide clock."""


class Table(RoutingTable):  # type: ignore[misc]
    """The contacts of one agent.

    Differs from kademlia's table: levels never split, so that the contacts (hence the trees) depend on the members
    and not on past traffic; every search looks at all contacts, so the answer is exact; adding one sends nothing.
    """

    buckets: list[Level]

    def __init__(self, own: Contact, k: int = 20) -> None:
        self.own = own
        self._number = own.number
        self.lost: OrderedDict[bytes, Contact] = OrderedDict()
        self._peers: list[Peer] | None = None
        super().__init__(None, k, Node(own.id, own.host, own.port))

    def flush(self) -> None:
        """Forget every contact."""
        self.buckets = []
        self._peers = None

    def peers(self) -> Sequence[Peer]:
        """Return all contacts with their health, farthest level first; a list that is ours, made when one changes."""
        if self._peers is None:
            self._peers = [peer for level in self.buckets for peer in level.nodes.values()]
        return self._peers

    def contacts(self) -> list[Contact]:
        """Return all contacts, farthest level first."""
        return [peer.contact for peer in self.peers()]

    def __len__(self) -> int:
        return sum(len(level) for level in self.buckets)

    def __contains__(self, contact: Contact) -> bool:
        return self._peer(contact.id) is not None

    def remove_contact(self, node: Node) -> None:
        """Give up a contact; one that waited for its place takes it."""
        super().remove_contact(node)
        self._peers = None

    def get_bucket_for(self, node: Node) -> int:
        """Return the index of the level of `node`, which must not have our own id."""
        return prefix_bits(self.own.id, node.id)

    def is_new_node(self, node: Node) -> bool:
        """Tell whether `node` is not among the contacts."""
        return self._peer(node.id) is None

    def saw(self, contact: Contact, now_ms: int) -> bool:
        """Take note that `contact` is alive at this address; return whether the set of contacts changed."""
        if contact.id == self.own.id:
            return False
        self.lost.pop(contact.id, None)
        peer = self._peer(contact.id)
        if peer is None:
            self._peers = None
            return bool(self._level(contact.id).add_node(Peer(contact, self.own.id, now_ms)))
        moved = peer.contact != contact
        if moved:
            peer.contact = contact
            peer.ip = contact.host
            peer.port = contact.port
        peer.seen_ms = now_ms
        peer.strikes = 0
        self._level(contact.id).nodes.move_to_end(contact.id)
        return moved

    def strike(self, contact: Contact) -> bool:
        """Take note that a call to `contact` got no answer; return whether it was given up for it."""
        peer = self._peer(contact.id)
        if peer is None or peer.contact != contact:
            return False
        peer.strikes += 1
        if peer.strikes < STRIKES_MAX:
            return False
        self.remove_contact(peer)
        self.lost[contact.id] = contact
        while len(self.lost) > LOST_MAX:
            self.lost.popitem(last=False)
        return True

    def doubt(self, contact: Contact) -> None:
        """Take note of a reason to think that `contact` is gone: unless it is heard again, the next strike is the last.

        Until then lookups do not wait for it (`Lookup.on_stall`) and `due` names it first.
        """
        peer = self._peer(contact.id)
        if peer is not None and peer.contact == contact:
            peer.strikes = max(peer.strikes, STRIKES_MAX - 1)

    def find_neighbors(self, node: Node, k: int | None = None, exclude: Node | None = None) -> list[Peer]:
        """Return exactly the k contacts nearest to `node`, one with its very id included. O(contacts)."""
        count = k or self.ksize
        target = int(node.long_id)
        # One more than wanted, for the one left out. Ids differ, so no two peers are ever compared.
        found = sorted([(peer.number ^ target, peer) for peer in self.peers()])[: count + 1]
        return [peer for _, peer in found if exclude is None or not peer.same_home_as(exclude)][:count]

    def nearest(self, key: bytes, count: int | None = None, *, exclude: Contact | None = None) -> list[Contact]:
        """Return the `count` contacts nearest to `key` (default k), nearest first. O(contacts)."""
        away = None if exclude is None else Node(exclude.id, exclude.host, exclude.port)
        return [peer.contact for peer in self.find_neighbors(Node(key), count, away)]

    def doubts(self, contact: Contact) -> bool:
        """Tell whether there is a reason to think that `contact` is gone."""
        peer = self._peer(contact.id)
        return peer is not None and peer.strikes > 0

    def vouch(self, contact: Contact, now_ms: int) -> None:
        """Take note that a link with `contact` is in use: no ping is needed. One under suspicion has to answer."""
        peer = self._peer(contact.id)
        if peer is not None and peer.contact == contact and not peer.strikes:
            peer.seen_ms = now_ms

    def due(self, now_ms: int, *, near_ms: int, far_ms: int, pace_ms: int) -> list[Contact]:
        """Return the contacts to ping now by a caller that asks every `pace_ms`. O(contacts log contacts).

        All that are under suspicion, then those unheard for over `near_ms` (the nearest levels with `NEAR_MIN` contacts
        between them) or `far_ms` (the rest), most overdue first; of these only as many as keep the rounds about even.
        """
        suspects: list[Peer] = []
        overdue: list[tuple[float, int, Peer]] = []
        share, near = 0.0, 0
        for level in reversed(self.buckets):
            limit_ms = near_ms if near < NEAR_MIN else far_ms
            near += len(level)
            share += len(level) * pace_ms / limit_ms
            for peer in level.nodes.values():
                if peer.strikes:
                    suspects.append(peer)
                elif now_ms - peer.seen_ms >= limit_ms:
                    overdue.append(((peer.seen_ms - now_ms) / limit_ms, len(overdue), peer))
        overdue.sort()
        return [p.contact for p in suspects] + [p.contact for _, _, p in overdue[: math.ceil(CATCH_UP * share)]]

    def targets(self, rng: random.Random, *, only_empty: bool) -> list[bytes]:
        """Return one random key on every level up to the closest contact's, or on the empty ones of them.

        Greedy routing ends at the true root if and only if no level that has agents is empty here (OVERLAY 3).
        """
        filled = [index for index, level in enumerate(self.buckets) if len(level)]
        deepest = filled[-1] if filled else -1
        levels = (level for level in range(deepest + 1) if not (only_empty and level in filled))
        return [self._random_key(level, rng) for level in levels]

    def wanted(self, heard: Iterable[Contact]) -> list[Contact]:
        """Return those of the agents we heard of that would find room on their level, no more than there is room for.

        A lookup meets only those that it asks. Full levels make shallower trees: whom a node can choose as a parent
        is a matter of whom it knows. O(heard).
        """
        room = [self.ksize - len(level) for level in self.buckets]
        found: dict[bytes, Contact] = {}
        for contact in heard:
            level = prefix_bits(self.own.id, contact.id)
            room += [self.ksize] * (level + 1 - len(room))
            if contact.id not in found and level < ID_BITS and self._peer(contact.id) is None and room[level] > 0:
                found[contact.id] = contact
                room[level] -= 1
        return list(found.values())

    def farther(self, key: bytes, rng: random.Random, count: int) -> list[Contact]:
        """Return up to `count` random contacts on levels farther than that of `key`, or of all when there are none.

        When many agents join at once, two halves of a subtree can fill up without one contact between them. Whoever
        is nearest to `key` is then on our own side and knows as little as we do; those farther away see both halves.
        """
        level = prefix_bits(self.own.id, key)
        beyond = [contact for contact in self.contacts() if prefix_bits(self.own.id, contact.id) < level]
        beyond = beyond or self.contacts()
        return rng.sample(beyond, min(count, len(beyond)))

    def _random_key(self, level: int, rng: random.Random) -> bytes:
        free = ID_BITS - 1 - level
        number = (self._number >> free ^ 1) << free | rng.getrandbits(free) if free else self._number ^ 1
        return number.to_bytes(ID_BYTES)

    def _level(self, key: bytes) -> Level:
        index = prefix_bits(self.own.id, key)
        while len(self.buckets) <= index:
            free = ID_BITS - 1 - len(self.buckets)
            lower = (self._number >> free ^ 1) << free
            self.buckets.append(Level(lower, lower + (1 << free) - 1, self.ksize))
        return self.buckets[index]

    def _peer(self, key: bytes) -> Peer | None:
        index = prefix_bits(self.own.id, key)
        return self.buckets[index].nodes.get(key) if index < len(self.buckets) else None


def by_distance(contacts: Iterable[Contact], key: bytes) -> list[Contact]:
    """Return the contacts ordered by distance to `key`, nearest first."""
    target = int.from_bytes(key)
    return sorted(contacts, key=lambda contact: contact.number ^ target)
