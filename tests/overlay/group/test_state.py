"""When a member may forget its own log for a copy: never what it has acknowledged to a later leader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.group.messages import Entry, Kind, Place
from elf.overlay.group.state import GroupState

places = st.builds(Place, st.integers(1, 4), st.integers(1, 9))


def held(term: int, applied: Place, *more: Place) -> GroupState:
    return GroupState(term=term, applied=applied, entries=tuple(Entry(place, Kind.COMMAND, b"") for place in more))


def test_a_member_that_is_behind_takes_the_copy_of_its_leader() -> None:
    assert held(5, Place(2, 66), Place(2, 67), Place(2, 69)).yields_to(5, Place(3, 68))
    assert GroupState().yields_to(1, Place(1, 1)), "so does one that has nothing"


def test_a_leader_that_was_deposed_meanwhile_has_no_copy_to_give() -> None:
    """Its member acknowledged entries of the next leader, which may be decided by that."""
    assert not held(6, Place(5, 8), Place(6, 9)).yields_to(5, Place(5, 20))
    assert not GroupState(term=6).yields_to(5, Place(5, 20)), "not even if a crash in a fetch has left nothing else"


def test_what_came_while_the_copy_was_on_its_way_is_not_forgotten_for_it() -> None:
    assert not held(5, Place(5, 8), Place(5, 9)).yields_to(5, Place(5, 8))
    assert held(5, Place(5, 8), Place(5, 9)).yields_to(5, Place(5, 9))


@given(st.integers(1, 4), places, st.integers(1, 4), places)
def test_nothing_durable_is_later_than_what_takes_its_place(own: int, last: Place, term: int, applied: Place) -> None:
    if held(own, last).yields_to(term, applied):
        assert own <= term and last <= applied
