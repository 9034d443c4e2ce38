from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.ids import Contact, distance, prefix_bits
from elf.overlay.messages import Heartbeat, Reason
from elf.overlay.routing import GAIN_BITS, NEAREST_TIED, bounded, closer
from elf.overlay.tree.policy import (
    CLIMB_AFTER_MS,
    Seat,
    SendOn,
    Standing,
    TakeIn,
    climbs,
    first_choice,
    has_room,
    place,
    rank,
    refusal,
    with_root,
)

KEY = bytes(20)
#: Ascending distance to KEY.
PEERS = sorted((Contact.at("10.0.0.1", port) for port in range(1, 41)), key=lambda c: distance(c.id, KEY))

peers = st.sampled_from(PEERS)
roots = st.none() | peers


@given(peers, peers, roots)
def test_ranks_are_a_strict_order_that_begins_at_the_root(one: Contact, other: Contact, root: Contact | None) -> None:
    assert (rank(one, KEY, root) == rank(other, KEY, root)) == (one == other)
    if root is not None and other != root:
        assert rank(root, KEY, root) < rank(other, KEY, root)


def test_a_node_with_room_takes_anybody_in() -> None:
    assert place(PEERS[9], [], 2, KEY, None) == TakeIn(None)
    assert place(PEERS[1], [Seat(PEERS[5], 0)], 2, KEY, None) == TakeIn(None)


def test_a_full_node_sends_a_joiner_to_its_least_loaded_child_that_ranks_before_it() -> None:
    seats = [Seat(PEERS[2], 5), Seat(PEERS[4], 1), Seat(PEERS[3], 1), Seat(PEERS[9], 0)]
    assert place(PEERS[6], seats, 4, KEY, None) == SendOn(PEERS[3])


def test_a_joiner_that_ranks_before_all_children_takes_the_place_of_the_last() -> None:
    seats = [Seat(PEERS[7], 0), Seat(PEERS[9], 0), Seat(PEERS[4], 0)]
    assert place(PEERS[2], seats, 3, KEY, None) == TakeIn(PEERS[9])


def test_a_joiner_that_ranks_before_most_children_takes_the_place_of_the_last_instead_of_forming_a_chain() -> None:
    seats = [Seat(PEERS[number], 0) for number in (2, 5, 6, 8)]
    assert place(PEERS[3], seats, 4, KEY, None) == TakeIn(PEERS[8])
    assert place(PEERS[7], seats, 4, KEY, None) == SendOn(PEERS[2])


def test_a_node_with_half_of_its_places_taken_has_no_room_for_grandchildren() -> None:
    assert [has_room(load, 16) for load in (0, 7, 8, 16)] == [True, True, False, False]
    assert not has_room(1, 2), "two places are too few to fill one with whom a child has already"


def test_of_the_children_of_a_node_one_at_a_time_goes_up_to_a_grandparent_with_room() -> None:
    rng = random.Random(1)

    def going(load: int, *, room: bool = True, down: bool = True, since_ms: int = CLIMB_AFTER_MS) -> float:
        beat = Heartbeat(KEY, 1, down, 0, 0, load, PEERS[0].address, room)
        return sum(climbs(beat, since_ms, rng) for _ in range(1_000)) / 1_000 * load

    assert going(1) == 1, "a chain folds up"
    assert 0.7 < going(10) < 1.3
    assert going(1, room=False) == going(1, down=False) == going(1, since_ms=CLIMB_AFTER_MS - 1) == 0


@given(peers, st.lists(st.tuples(peers, st.integers(0, 20)), min_size=2, max_size=8, unique_by=lambda s: s[0]), roots)
def test_push_down_keeps_parents_before_children(
    joiner: Contact, children: list[tuple[Contact, int]], root: Contact | None
) -> None:
    seats = [Seat(peer, load) for peer, load in children if peer != joiner]
    choice = place(joiner, seats, len(seats), KEY, root)
    own = rank(joiner, KEY, root)
    if isinstance(choice, SendOn):
        assert rank(choice.to, KEY, root) < own
    elif seats:
        assert choice.instead_of is not None
        last = rank(choice.instead_of, KEY, root)
        assert own < last
        assert all(rank(seat.peer, KEY, root) <= last for seat in seats)
        assert sum(rank(seat.peer, KEY, root) < own for seat in seats) * 2 < len(seats)


@given(peers, peers, roots, roots, st.booleans(), st.lists(peers, unique=True))
def test_a_refused_joiner_is_only_pointed_to_what_ranks_before_it(
    me: Contact, joiner: Contact, root: Contact | None, theirs: Contact | None, rooted: bool, known: list[Contact]
) -> None:
    standing = Standing(me, KEY, root, rooted and root == me)
    refused = refusal(joiner, theirs, standing, lambda key: closer(known, me.id, key))
    if refused is None:
        assert rank(me, KEY, root) < rank(joiner, KEY, root)
        assert theirs == root
        assert root != me or rooted
        return
    reason, to = refused
    assert reason is not Reason.FULL
    assert to not in (me, joiner)
    if reason is Reason.ROOT_IS:
        assert to in (None, root)
    elif to is not None:
        assert rank(to, KEY, root) < rank(joiner, KEY, root)


@given(st.sets(peers, min_size=2), st.integers(0, 1 << 32))
def test_the_first_choice_is_on_the_first_candidates_level_or_among_the_nearest(known: set[Contact], seed: int) -> None:
    me = max(known, key=lambda contact: distance(contact.id, KEY))
    candidates = bounded(sorted(known, key=lambda c: c.id), me.id, KEY)
    assert first_choice(candidates, me, KEY, 2 * len(candidates), random.Random(seed)) == candidates[0]
    chosen = first_choice(candidates, me, KEY, 0, random.Random(seed))
    assert chosen in candidates
    level = prefix_bits(candidates[0].id, KEY)
    beyond = level > prefix_bits(me.id, KEY) + GAIN_BITS
    assert prefix_bits(chosen.id, KEY) == level or (beyond and chosen in candidates[:NEAREST_TIED])


def test_a_recorded_root_is_asked_first_by_its_neighbours_and_last_by_everybody_else() -> None:
    near_first = sorted(PEERS, key=lambda peer: distance(peer.id, KEY))
    root, second, me = near_first[0], near_first[1], near_first[2]
    assert with_root([second], me, KEY, root) in ([root, second], [second, root])
    assert with_root([], me, KEY, root) == [root]
    stranger = near_first[-1]
    known = [peer for peer in near_first[1:-1] if prefix_bits(peer.id, KEY) > prefix_bits(stranger.id, KEY) + 1]
    assert with_root(known, stranger, KEY, root) == [*known, root]
    assert with_root([root, second], me, KEY, root) == [root, second]
    assert with_root([second], me, KEY, None) == [second]
    assert with_root([second], root, KEY, root) == [second]


def test_agents_that_know_the_same_contacts_do_not_all_choose_the_same_one() -> None:
    level = [peer for peer in PEERS if prefix_bits(peer.id, KEY) == 1]
    chosen = {
        first_choice(level, max(PEERS, key=lambda peer: distance(peer.id, KEY)), KEY, 4, random.Random(seed))
        for seed in range(60)
    }
    assert len(level) >= 5
    assert len(chosen) >= 5
