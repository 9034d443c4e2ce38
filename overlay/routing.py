"""Where to go next toward a key: pure choices over a list of contacts.

Owns the order in which contacts are tried; the table itself is the DHT's. Every choice is strictly closer to the key
than we are, so any sequence of hops ends, whatever the tables say (OVERLAY section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from overlay.ids import ID_BITS, Contact, prefix_bits

#: Answers "whom could I ask next on the way to this key?", best first; all strictly closer than this node.
View = Callable[[bytes], Sequence[Contact]]


def closer(contacts: Iterable[Contact], me: bytes, key: bytes) -> list[Contact]:
    """Return the contacts strictly closer to a key than we are, nearest first: greedy order, fewest hops."""
    return [contact for _, contact in _closer(contacts, me, key)]


def bounded(contacts: Iterable[Contact], me: bytes, key: bytes, bits: int = 4) -> list[Contact]:
    """Return the closer contacts in the order a JOIN tries them: nearest first among gains of at most `bits` bits.

    Greedy order makes the root the parent of nearly everyone (fan-in 138 at 1,280 agents); a bounded gain spreads the
    edges over the levels (fan-in 20, one more hop). OVERLAY section 5.
    """
    reach = prefix_bits(me, key) + bits
    near: list[Contact] = []
    far: list[Contact] = []
    for away, contact in _closer(contacts, me, key):
        (near if ID_BITS - away.bit_length() <= reach else far).append(contact)
    return near + far[::-1]


def _closer(contacts: Iterable[Contact], me: bytes, key: bytes) -> list[tuple[int, Contact]]:
    target = int.from_bytes(key)
    own = int.from_bytes(me) ^ target
    found = [(away, contact) for contact in contacts if (away := contact.number ^ target) < own]
    found.sort(key=itemgetter(0))
    return found
