"""Where to go next toward a key: pure choices over a list of contacts.

Owns the order in which contacts are tried; the table itself is the DHT's. Every choice is strictly closer to the key
than we are, so any sequence of hops ends, whatever the tables say (OVERLAY section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from elf.overlay.ids import ID_BITS, Contact, prefix_bits

#: Bits of prefix that a JOIN gains at most per hop. Fewer make deeper trees, more make fuller nodes, which push joiners
#: down: at 1,280 nodes 3 bits took 3.8 hops and 1.07 JOINs a member, 4 bits 3.6 and 1.14, 6 bits 3.5 and 1.20.
GAIN_BITS = 4
#: So many of the contacts nearest to a key count as equally near to it.
NEAREST_TIED = 2

#: Answers "whom could I ask next on the way to this key?", best first; all strictly closer than this node.
View = Callable[[bytes], Sequence[Contact]]


def closer(contacts: Iterable[Contact], me: bytes, key: bytes) -> list[Contact]:
    """Return the contacts strictly closer to a key than we are, nearest first: greedy order, fewest hops."""
    return [contact for _, contact in _closer(contacts, me, key)]


def bounded(contacts: Iterable[Contact], me: bytes, key: bytes, bits: int = GAIN_BITS) -> list[Contact]:
    """Return the closer contacts in the order a JOIN tries them: nearest first among gains of at most `bits` bits.

    Greedy order makes the root the parent of nearly everyone (fan-in 138 at 1,280 agents); a bounded gain spreads the
    edges over the levels. OVERLAY section 5. Differs from it: the nearest `NEAREST_TIED` contacts count as no nearer
    than the last of them. Near the key agents are few and levels empty; without this all ways lead over the one or two
    agents that happen to lie on the last levels, and the tree is a hop deeper.
    """
    reach = prefix_bits(me, key) + bits
    found = _closer(contacts, me, key)
    ceiling = _level(found[:NEAREST_TIED][-1][0]) if found else 0
    near: list[Contact] = []
    far: list[Contact] = []
    for away, contact in found:
        (near if min(_level(away), ceiling) <= reach else far).append(contact)
    return near + far[::-1]


def _level(away: int) -> int:
    """Return how many leading bits something at this distance shares with the key."""
    return ID_BITS - away.bit_length()


def _closer(contacts: Iterable[Contact], me: bytes, key: bytes) -> list[tuple[int, Contact]]:
    target = int.from_bytes(key)
    own = int.from_bytes(me) ^ target
    found = [(away, contact) for contact in contacts if (away := contact.number ^ target) < own]
    found.sort(key=itemgetter(0))
    return found
