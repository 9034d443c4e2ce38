"""Who is a member: the nearest agents that live, an odd number with a vote, in steps that are safe."""

from __future__ import annotations

from collections.abc import Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.errors import OverlayError
from elf.overlay.group.messages import Seat
from elf.overlay.group.seating import SIZE, new_voters, next_seats
from elf.overlay.ids import Contact, distance

KEY = bytes(range(20))
AGENTS = sorted(
    (Seat(f"a{index}", Contact.at("10.0.0.1", 1000 + index).address, False) for index in range(9)),
    key=lambda seat: distance(seat.contact.id, KEY),
)


def settle(
    me: str, seats: tuple[Seat, ...], near: list[Seat], silent: Set[str], gone: Set[str] = frozenset()
) -> tuple[Seat, ...]:
    """Take steps until none is left; everybody who lives has everything after a step."""
    for _ in range(40):
        has = {seat.agent for seat in seats if seat.agent not in silent}
        after = next_seats(me, KEY, seats, near, has, silent, gone)
        if after is None:
            return seats
        assert new_voters(me, seats, after) <= has, "whoever gets a vote has everything"
        assert any(seat.agent == me and seat.votes for seat in after), "the leader never removes itself"
        seats = after
    raise AssertionError("the steps never end")


def alone(seat: Seat) -> tuple[Seat, ...]:
    return (Seat(seat.agent, seat.address, True),)


@pytest.mark.parametrize(
    ("agents", "voters", "listeners"), [(1, 1, 0), (2, 1, 1), (3, 3, 0), (4, 3, 1), (5, 5, 0), (9, 5, 0)]
)
def test_a_group_grows_to_an_odd_number_of_votes(agents: int, voters: int, listeners: int) -> None:
    near = AGENTS[:agents]
    seats = settle(near[0].agent, alone(near[0]), near[:SIZE], set())
    assert (sum(seat.votes for seat in seats), sum(not seat.votes for seat in seats)) == (voters, listeners)


@given(st.integers(1, 9), st.sets(st.integers(0, 8), max_size=2), st.data())
def test_members_that_are_lost_are_replaced(agents: int, fallen: set[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, min(agents, SIZE) - 1))
    near = AGENTS[:agents]
    me = near[first]
    seats = settle(me.agent, alone(me), near[:SIZE], set())
    silent = {AGENTS[index].agent for index in fallen if index < agents} - {me.agent}
    living = [seat for seat in near if seat.agent not in silent]
    after = settle(me.agent, seats, living[:SIZE], silent)
    alive = [seat for seat in after if seat.agent not in silent]
    assert len(alive) == min(SIZE, len(living))
    if len(living) >= SIZE:
        assert {seat.agent for seat in after} == {seat.agent for seat in living[:SIZE]} or len(after) == SIZE
        assert all(seat.votes for seat in after)
    given_up = settle(me.agent, after, living[:SIZE], silent, silent)
    assert silent.isdisjoint(seat.agent for seat in given_up)


def test_an_agent_that_came_back_without_its_disk_takes_a_place_of_its_own() -> None:
    seats = settle("a0", alone(_named("a0")), _with("a0"), set())
    lost = next(seat for seat in seats if seat.agent != "a0")
    reborn = Seat("reborn", lost.address, False)
    near = [reborn if seat.agent == lost.agent else seat for seat in _with("a0")]
    after = settle("a0", seats, near, set())
    assert lost.agent not in {seat.agent for seat in after}
    assert Seat("reborn", lost.address, True) in after


def _named(agent: str) -> Seat:
    return next(seat for seat in AGENTS if seat.agent == agent)


def _with(agent: str) -> list[Seat]:
    return [_named(agent), *(seat for seat in AGENTS if seat.agent != agent)][:SIZE]


def test_a_step_changes_one_vote_but_from_a_single_one() -> None:
    voters = [Seat(seat.agent, seat.address, True) for seat in AGENTS]
    assert new_voters(voters[0].agent, voters[:1], voters[:5]) == {seat.agent for seat in voters[1:5]}
    assert new_voters(voters[0].agent, voters[:3], voters[:4]) == {voters[3].agent}
    for seats, wanted in ((voters[:3], voters[:5]), (voters[1:2], voters[:3]), (voters[:3], [])):
        with pytest.raises(OverlayError, match="one vote at a time"):
            new_voters(voters[0].agent, seats, wanted)
