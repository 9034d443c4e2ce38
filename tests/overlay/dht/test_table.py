"""The routing table against brute force, and every table defect of the stock library (OVERLAY section 1)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kademlia.node import Node

from elf.overlay.dht.table import LOST_MAX, Peer, Table
from elf.overlay.ids import Contact, distance, prefix_bits


def fake(number: int, port: int = 1) -> Contact:
    """A contact with a chosen id, which no real agent could have."""
    return Contact(number.to_bytes(20), f"10.0.{port >> 8}.{port & 255}", 4250)


def key(number: int) -> bytes:
    return number.to_bytes(20)


def random_table(rng: random.Random, count: int = 300, k: int = 20) -> Table:
    table = Table(fake(rng.getrandbits(160)), k)
    for index in range(count):
        table.saw(fake(rng.getrandbits(160), index + 1), index)
    return table


@given(st.integers(0, 2**32).map(random.Random), st.integers(0, 120), st.integers(1, 30))
def test_nearest_is_exact(rng: random.Random, count: int, wanted: int) -> None:
    table = random_table(rng, count, k=4)
    target = rng.randbytes(20)
    truth = sorted(table.contacts(), key=lambda contact: distance(contact.id, target))
    assert table.nearest(target, wanted) == truth[:wanted]
    assert table.nearest(target) == truth[:4]


def test_nearest_finds_the_only_contact_from_every_side() -> None:
    table = Table(fake(0), 2)
    table.saw(fake(5), 0)
    assert [c.id for c in table.nearest(key(2**159 + 7))] == [key(5)]


def test_a_known_id_is_found() -> None:
    table = Table(fake(1))
    table.saw(fake(77), 0)
    assert [peer.long_id for peer in table.find_neighbors(Node(key(77)))] == [77]


def test_the_asker_is_left_out() -> None:
    table = Table(fake(1))
    table.saw(fake(77, 7), 0)
    table.saw(fake(78, 8), 0)
    assert table.nearest(key(77), exclude=fake(77, 7)) == [fake(78, 8)]


def test_an_address_change_is_followed() -> None:
    table = Table(fake(1))
    assert table.saw(fake(9, 1), 0)
    assert table.saw(fake(9, 2), 1)
    assert table.contacts() == [fake(9, 2)]
    [peer] = table.peers()
    assert (peer.ip, peer.port) == (fake(9, 2).host, fake(9, 2).port)


def test_traffic_refreshes_the_order() -> None:
    table = Table(fake(1))
    for number in (8, 9, 10):
        table.saw(fake(number, number), number)
    assert not table.saw(fake(8, 8), 20)
    assert [int.from_bytes(c.id) for c in table.contacts()] == [9, 10, 8]
    assert table.due(30, near_ms=15, far_ms=15, pace_ms=15) == [fake(9, 9), fake(10, 10)]


def test_one_strike_evicts_nobody_two_do() -> None:
    table = Table(fake(1))
    table.saw(fake(9), 0)
    assert not table.strike(fake(9))
    table.saw(fake(9), 1)
    assert not table.strike(fake(9)), "a sign of life wipes the slate clean"
    assert fake(9) in table
    assert table.strike(fake(9))
    assert fake(9) not in table
    assert list(table.lost.values()) == [fake(9)]
    table.saw(fake(9), 2)
    assert not table.lost


def test_strikes_for_an_old_address_do_not_count() -> None:
    table = Table(fake(1))
    table.saw(fake(9, 1), 0)
    table.saw(fake(9, 2), 1)
    assert not table.strike(fake(9, 1))
    assert not table.strike(fake(9, 1))
    assert fake(9, 2) in table


def test_the_memory_of_lost_contacts_is_bounded() -> None:
    table = Table(fake(0), 1)
    for number in range(1, LOST_MAX + 50):
        table.saw(fake(number), 0)
        table.strike(fake(number))
        table.strike(fake(number))
    assert len(table.lost) <= LOST_MAX


def test_who_stays_on_a_full_level_does_not_depend_on_who_came_first() -> None:
    far = [fake(2**159 + index, index) for index in range(40)]
    kept = []
    for order in (far, far[::-1]):
        table = Table(fake(0), 5)
        for contact in order:
            table.saw(contact, 0)
        assert len(table) == 5
        kept.append(set(table.contacts()))
    assert kept[0] == kept[1] != set(far[:5])
    other = Table(fake(1), 5)
    for contact in far:
        other.saw(contact, 0)
    assert set(other.contacts()) != kept[0], "others keep others, or a few agents would carry all trees"


def test_a_place_that_falls_free_goes_to_one_who_waits() -> None:
    table = Table(fake(0), 2)
    far = [fake(2**159 + index, index) for index in range(4)]
    for contact in far:
        table.saw(contact, 0)
    first, second = table.contacts()
    table.strike(first)
    assert table.strike(first)
    assert second in table
    assert len(table) == 2
    assert first not in table


def test_our_own_id_is_never_a_contact() -> None:
    table = Table(fake(1))
    assert not table.saw(fake(1, 99), 0)
    assert len(table) == 0


@pytest.mark.parametrize("own", [0, 2**159 - 1, 2**159, 2**160 - 1, 2**158])
def test_ids_at_the_bounds_of_levels_are_kept_and_found(own: int) -> None:
    table = Table(fake(own), 2)
    numbers = sorted({2**e + d for e in range(1, 160) for d in (-1, 0, 1)} - {own})
    for number in numbers:
        table.saw(fake(number), 0)
    for index, level in enumerate(table.buckets):
        assert len(level) <= 2
        for peer in level.get_nodes():
            assert prefix_bits(table.own.id, peer.id) == index
            assert level.has_in_range(peer)
            assert table.nearest(peer.id, 1) == [peer.contact]
            assert not table.is_new_node(peer)


def test_a_suspect_stays_a_contact_is_asked_at_once_and_given_up_at_the_next_strike() -> None:
    table = Table(fake(0b1000))
    for number in (1, 2):
        table.saw(fake(number, number), 0)
    table.doubt(fake(1, 1))
    table.doubt(fake(1, 1))
    table.strike(fake(2, 2))
    assert table.contacts() == [fake(1, 1), fake(2, 2)], "doubts alone must end no route"
    assert table.due(1, near_ms=1000, far_ms=1000, pace_ms=1) == [fake(1, 1), fake(2, 2)]
    assert table.strike(fake(1, 1))
    table.saw(fake(2, 2), 1)
    assert not table.strike(fake(2, 2)), "it was heard since"


def test_near_contacts_are_due_sooner_and_rounds_are_even() -> None:
    table = Table(fake(0), 20)
    near = [fake(2**100 + index, index) for index in range(10)]
    far = [fake(2**159 + index, 100 + index) for index in range(20)]
    for contact in near + far:
        table.saw(contact, 0)
    assert table.due(39, near_ms=40, far_ms=160, pace_ms=2) == []
    assert table.due(40, near_ms=40, far_ms=160, pace_ms=80) == near
    assert table.due(159, near_ms=40, far_ms=160, pace_ms=2) == near[:1], "one, since 10 x 2/40 + 20 x 2/160 < 1"
    assert set(table.due(160, near_ms=40, far_ms=160, pace_ms=40)) < {*near, *far}
    assert set(table.due(160, near_ms=40, far_ms=160, pace_ms=160)) == {*near, *far}
    for contact in far:
        table.doubt(contact)
    assert table.due(1, near_ms=40, far_ms=160, pace_ms=1) == far, "suspects are asked at once, all of them"


def test_a_link_in_use_saves_the_ping_and_clears_nobody() -> None:
    table = Table(fake(0), 20)
    for number in (1, 2):
        table.saw(fake(number, number), 0)
    table.doubt(fake(2, 2))
    for number in (1, 2, 3):
        table.vouch(fake(number, number), 50)
    assert table.due(60, near_ms=20, far_ms=20, pace_ms=20) == [fake(2, 2)]
    assert table.doubts(fake(2, 2)) and not table.doubts(fake(1, 1)) and not table.doubts(fake(3, 3))
    assert table.due(70, near_ms=20, far_ms=20, pace_ms=20) == [fake(2, 2), fake(1, 1)]


@given(st.integers(0, 2**32).map(random.Random))
def test_targets_cover_the_levels_up_to_the_closest_contact(rng: random.Random) -> None:
    table = random_table(rng, 40, 4)
    levels = [prefix_bits(table.own.id, target) for target in table.targets(rng, only_empty=False)]
    nearest = table.nearest(table.own.id, 1)[0]
    assert levels == list(range(prefix_bits(table.own.id, nearest.id) + 1))
    filled = {prefix_bits(table.own.id, contact.id) for contact in table.contacts()}
    empty = [prefix_bits(table.own.id, target) for target in table.targets(rng, only_empty=True)]
    assert empty == [level for level in levels if level not in filled]


@given(st.integers(0, 2**32).map(random.Random), st.integers(0, 5))
def test_farther_contacts_see_more_than_our_side(rng: random.Random, level: int) -> None:
    table = random_table(rng, 40, 4)
    target = (int.from_bytes(table.own.id) ^ 1 << 159 - level).to_bytes(20)
    chosen = table.farther(target, rng, 3)
    assert len(set(chosen)) == 3
    if level:
        assert all(prefix_bits(table.own.id, contact.id) < level for contact in chosen)
    assert Table(fake(1)).farther(target, rng, 3) == []


@given(st.integers(0, 2**32).map(random.Random), st.integers(0, 80))
def test_of_those_heard_of_as_many_are_wanted_as_there_is_room_for(rng: random.Random, known: int) -> None:
    table = random_table(rng, known, 4)
    fresh = [fake(rng.getrandbits(160), 1000 + index) for index in range(60)]
    heard = [*fresh, *fresh[:10], *table.contacts(), table.own]
    before = table.contacts()
    wanted = table.wanted(heard)
    assert len(set(wanted)) == len(wanted) and set(wanted) <= set(fresh)
    for contact in wanted:
        assert table.saw(contact, 0)
    assert set(table.contacts()) == {*before, *wanted}, "nobody had to leave"
    assert table.wanted(heard) == [], "what is left has no room"
    assert Table(fake(1), 4).wanted([fake(1)]) == []


def test_an_empty_table_has_no_targets() -> None:
    table = Table(fake(1))
    assert table.targets(random.Random(1), only_empty=False) == []
    assert table.nearest(key(5)) == []
    table.saw(fake(2), 0)
    table.flush()
    assert len(table) == 0


def test_the_closest_possible_neighbour_has_a_level() -> None:
    table = Table(fake(2))
    table.saw(fake(3), 0)
    assert [prefix_bits(key(2), t) for t in table.targets(random.Random(1), only_empty=False)] == list(range(160))


def test_a_peer_is_a_node_of_the_library() -> None:
    peer = Peer(fake(7, 7), bytes(20), 0)
    assert tuple(peer) == (key(7), "10.0.0.7", 4250)
