"""The shape of one tree over up to a million agents, without any network: only the choices are real.

Whom a node asks is `elf.overlay.routing.bounded` and `elf.overlay.tree.policy.first_choice`; who is taken in, sent on
or given away is `elf.overlay.tree.policy.place`: the very functions of the tree machine. Simulated is what surrounds
them: routing tables, the order of joining, and a network that loses and delays nothing. Pure. OVERLAY section 5.

Tables are implicit: a level of a node's table is a pseudo-random k-subset of the agents that belong there, a pure
function of node and level, so all trees see the same tables and none is ever stored. A settled table looks like this:
as many contacts on a level as there are agents or places (OVERLAY section 3, "level fill").
"""

from __future__ import annotations

import bisect
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from elf.overlay.ids import ID_BITS, ID_BYTES, Contact, prefix_bits
from elf.overlay.routing import GAIN_BITS, bounded, closer
from elf.overlay.tree.policy import Seat, SendOn, first_choice, place, rank

K = 20
FAN_IN_MAX = 16


class Tables:
    """The agents and what each has in its routing table: k contacts on every level, or as many as there are."""

    def __init__(self, contacts: Iterable[Contact], k: int = K) -> None:
        self.k = k
        #: Ascending by id.
        self.contacts = sorted(contacts, key=lambda contact: contact.id)
        self._numbers = [int.from_bytes(contact.id) for contact in self.contacts]
        self._draw = random.Random()

    @classmethod
    def of_random_ids(cls, count: int, seed: int, k: int = K) -> Tables:
        """Draw so many agents; SHA-1 of an address is as good as random."""
        rng = random.Random(seed)
        return cls((Contact(rng.randbytes(ID_BYTES), "", 0) for _ in range(count)), k)

    def root(self, key: bytes) -> Contact:
        """Return the agent closest to a key. O(agents)."""
        return min(self.contacts, key=lambda contact: rank(contact, key, None))

    def level(self, me: Contact, level: int) -> Sequence[Contact]:
        """Return the contacts of a node that share exactly `level` bits of prefix with it; at most k. O(k)."""
        own = int.from_bytes(me.id)
        free = ID_BITS - 1 - level
        first, last = self._range((own >> free) ^ 1, free)
        if last - first <= self.k:
            return self.contacts[first:last]
        self._draw.seed(own << 8 | level)
        return [self.contacts[at] for at in self._draw.sample(range(first, last), self.k)]

    def all_levels(self, me: Contact, lowest: int = 0) -> Iterator[Contact]:
        """Yield a node's contacts that share at least `lowest` bits with it, farthest level first."""
        own = int.from_bytes(me.id)
        for level in range(lowest, ID_BITS):
            first, last = self._range(own >> (ID_BITS - level), ID_BITS - level)
            if last - first <= 1:
                return  # nobody but itself shares so many bits
            yield from self.level(me, level)

    def view(self, me: Contact, key: bytes) -> list[Contact]:
        """Return whom a node would ask on the way to a key, best first, as `routing.bounded` orders them.

        Only of the level that leads toward the key, as long as there are more on it than a node has places and one of
        them is within the gain: on that level are all contacts that gain any prefix, and those that gain none come
        after them. `test_topology` holds this against whole tables.
        """
        shared = prefix_bits(me.id, key)
        found = closer(self.level(me, shared), me.id, key) if shared < ID_BITS else []
        if len(found) > FAN_IN_MAX and prefix_bits(found[-1].id, key) <= shared + GAIN_BITS:
            return bounded(found, me.id, key)
        return bounded(self.all_levels(me, shared), me.id, key)

    def _range(self, prefix: int, free: int) -> tuple[int, int]:
        """Return the half-open range of the agents whose ids without their last `free` bits are `prefix`."""
        low = prefix << free
        first = bisect.bisect_left(self._numbers, low)
        return first, bisect.bisect_left(self._numbers, low + (1 << free), first)


@dataclass(slots=True)
class Growth:
    """A tree as it stands: everyone's parent, by id, and everyone's children."""

    root: Contact
    parents: dict[bytes, Contact] = field(default_factory=dict)
    children: dict[bytes, dict[bytes, Seat]] = field(default_factory=dict)
    joins: int = 0


def grow(tables: Tables, key: bytes, joining: Sequence[Contact], rng: random.Random, fan_in_max: int) -> Growth:
    """Let agents join a tree one after another, each with all that its JOIN sets off, and return the tree.

    What a parent believes of its children's loads is what they said when they joined, and one more for each joiner it
    sent them since: no heartbeat comes between. O(joining * (k + fan_in_max)).
    """
    tree = Growth(tables.root(key))
    parents, children = tree.parents, tree.children
    #: Who asks whom; first come, first served.
    asking: deque[tuple[Contact, Contact]] = deque()
    searching: set[bytes] = set()

    def seek(me: Contact) -> None:
        if me.id != tree.root.id and me.id not in parents and me.id not in searching:
            searching.add(me.id)
            asking.append((me, first_choice(tables.view(me, key), me, key, fan_in_max, rng)))

    for newcomer in joining:
        seek(newcomer)
        while asking:
            joiner, asked = asking.popleft()
            tree.joins += 1
            seats = children.setdefault(asked.id, {})
            choice = place(joiner, seats.values(), fan_in_max, key, None)
            if isinstance(choice, SendOn):
                seat = seats[choice.to.id]
                seats[choice.to.id] = Seat(seat.peer, seat.load + 1)
                asking.append((joiner, choice.to))
                continue
            load = len(children.get(joiner.id, ()))
            if choice.instead_of is not None:
                orphan = choice.instead_of
                del seats[orphan.id], parents[orphan.id]
                searching.add(orphan.id)
                asking.append((orphan, joiner))
                load += 1
            seats[joiner.id] = Seat(joiner, load)
            parents[joiner.id] = asked
            searching.discard(joiner.id)
            seek(asked)
    return tree


@dataclass(frozen=True, slots=True)
class Figures:
    """The shape of a tree and what it cost to build; hops are a member's, depth is any node's.

    `interior` and `forwarders` are shares of the nodes in the tree.
    """

    agents: int
    members: int
    hops_mean: float
    hops_p99: int
    hops_max: int
    depth: int
    fan_in_max: int
    joins_per_member: float
    interior: float
    forwarders: float


def measure(
    count: int,
    seed: int,
    *,
    k: int = K,
    fan_in_max: int = FAN_IN_MAX,
    members: float = 1.0,
    tables: Tables | None = None,
) -> Figures:
    """Draw agents and a key, let a share of the agents join in random order, and return the tree's figures.

    Args:
        count: agents.
        seed: of ids, key, order and choices.
        k: contacts on a level of a routing table.
        fan_in_max: children a node takes.
        members: share of the agents that join; the others only forward.
        tables: agents drawn before, to be used again with another key.

    Raises:
        AssertionError: the tree is none, or an edge is not in the order of ranks, or a node has too many children.
    """
    tables = tables or Tables.of_random_ids(count, seed, k)
    rng = random.Random(seed + 1)
    key = rng.randbytes(ID_BYTES)
    joining = rng.sample(tables.contacts, round(count * members))
    tree = grow(tables, key, joining, rng, fan_in_max)
    hops = check(tree, key, fan_in_max)
    own = sorted(hops[contact.id] for contact in joining)
    return Figures(
        agents=count,
        members=len(joining),
        hops_mean=sum(own) / len(own),
        hops_p99=own[-1 - len(own) // 100],
        hops_max=own[-1],
        depth=max(hops.values()),
        fan_in_max=max(map(len, tree.children.values()), default=0),
        joins_per_member=tree.joins / len(joining),
        interior=sum(map(bool, tree.children.values())) / len(hops),
        forwarders=1 - len({contact.id for contact in joining} | {tree.root.id}) / len(hops),
    )


def check(tree: Growth, key: bytes, fan_in_max: int) -> dict[bytes, int]:
    """Assert that all hang under the root by edges in the order of ranks, within the cap; return everyone's hops."""
    for id, seats in tree.children.items():
        assert len(seats) <= fan_in_max, "I8: more children than allowed"
        own = rank(Contact(id, "", 0), key, None)
        for child, seat in seats.items():
            assert tree.parents[child].id == id, "the child has another parent"
            assert own < rank(seat.peer, key, None), "I7: child not after its parent"
    assert len(tree.parents) == sum(map(len, tree.children.values()))
    hops = {tree.root.id: 0}
    for id in tree.parents:
        way = []
        while id not in hops:
            way.append(id)
            id = tree.parents[id].id
        for step, below in enumerate(reversed(way), hops[id] + 1):
            hops[below] = step
    return hops
