"""Where to go next toward a key: pure choices over a list of contacts.

Owns the order in which contacts are tried; the table itself is the DHT's. Every choice is strictly closer to the key
than we are, so any sequence of hops ends, whatever the tables say (OVERLAY section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from overlay.ids import Contact, distance, prefix_bits

#: Answers "whom could I ask next on the way to this key?", best first; all strictly closer than this node.
View = Callable[[bytes], Sequence[Contact]]


def closer(contacts: Iterable[Contact], me: bytes, key: bytes) -> list[Contact]:
    """Return the contacts strictly closer to a key than we are, nearest first: greedy order, fewest hops."""
    own = distance(me, key)
    found = [(distance(contact.id, key), contact) for contact in contacts]
    return [contact for far, contact in sorted(found, key=lambda pair: pair[0]) if far < own]


def bounded(contacts: Iterable[Contact], me: bytes, key: bytes, bits: int = 4) -> list[Contact]:
    """Return the closer contacts in the order a JOIN tries them: nearest first among gains of at most `bits` bits.

    Greedy order makes the root the parent of nearly everyone (fan-in 138 at 1,280 agents); a bounded gain spreads the
    edges over the levels (fan-in 20, one more hop). OVERLAY section 5.
    """
    reach = prefix_bits(me, key) + bits
    near: list[Contact] = []
    far: list[Contact] = []
    for contact in closer(contacts, me, key):
        (near if prefix_bits(contact.id, key) <= reach else far).append(contact)
    return near + far[::-1]
