"""The order in which contacts are tried: strictly closer, small gains first, the nearest few as equals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.ids import Contact, distance, prefix_bits
from elf.overlay.routing import GAIN_BITS, NEAREST_TIED, bounded, closer

KEY = bytes(20)
ME = Contact.at("10.1.0.1", 4250)
contacts = st.lists(st.integers(1, 4000).map(lambda port: Contact.at("10.0.0.1", port)), unique=True, max_size=60)


def at(prefix: int, number: int = 0) -> Contact:
    """Make a contact that shares so many bits with the key."""
    return Contact((1 << (159 - prefix) | number).to_bytes(20), "10.0.0.1", 1 + number)


@given(contacts, st.integers(0, 8))
def test_both_orders_hold_exactly_the_closer_contacts(known: list[Contact], bits: int) -> None:
    nearest_first = closer(known, ME.id, KEY)
    own = distance(ME.id, KEY)
    assert nearest_first == sorted(nearest_first, key=lambda contact: distance(contact.id, KEY))
    assert set(nearest_first) == {contact for contact in known if distance(contact.id, KEY) < own}
    order = bounded(known, ME.id, KEY, bits)
    assert sorted(order, key=lambda contact: distance(contact.id, KEY)) == nearest_first
    if len(order) > NEAREST_TIED:
        # All but the nearest few: what gains no more than allowed comes first, then the rest, smallest gain first.
        reach = prefix_bits(ME.id, KEY) + bits
        levels = [prefix_bits(contact.id, KEY) for contact in order if contact not in nearest_first[:NEAREST_TIED]]
        within = [level for level in levels if level <= reach]
        assert levels == [*within, *sorted(level for level in levels if level > reach)]


def test_gains_are_bounded_where_agents_are_many() -> None:
    me = Contact((1 << 159).to_bytes(20), "10.0.0.1", 9)
    known = [at(level, number) for level in range(1, 9) for number in range(NEAREST_TIED)]
    assert prefix_bits(bounded(known, me.id, KEY)[0].id, KEY) == GAIN_BITS


def test_the_nearest_few_count_as_equals_however_much_nearer_one_is() -> None:
    me = Contact((1 << 159).to_bytes(20), "10.0.0.1", 9)
    nearest, others = at(12), [at(2, 1), at(3, 2), at(1, 3)]
    assert bounded([nearest, *others], me.id, KEY)[0] == nearest
