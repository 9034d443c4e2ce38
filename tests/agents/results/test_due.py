"""What a follower of several parts is sent: each window once all have closed it, each change, and nothing too early."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.master.announcement import Rest
from elf.agents.master.results import Span
from elf.agents.results.due import WAITING_MAX, Due
from tests.agents.results.shares import told


def test_a_window_is_due_once_the_last_part_has_closed_it() -> None:
    due = Due([0, 0], 0)
    due.tell(0, told(0, 1, 4, [Span(0, 2), Span(2, 4)]))
    assert due.take() == []
    due.tell(1, told(1, 1, 2, [Span(0, 2)]))
    assert due.take() == [Span(0, 2)]
    due.tell(1, told(1, 2, 4, [Span(2, 4)]))
    assert due.take() == [Span(2, 4)] and due.take() == [] and due.editions == [1, 2]


def test_a_change_of_one_part_is_due_at_once() -> None:
    due = Due([3, 3], 8)
    due.tell(0, told(0, 3, 8))
    due.tell(1, told(1, 4, 8, [Span(2, 4)]))
    assert due.take() == [Span(2, 4)]


def test_an_open_window_is_due_when_all_have_come_as_far_and_again_when_it_closes() -> None:
    due = Due([0, 0], 4)
    due.tell(0, told(0, 1, 5, [Span(4, 8)]))
    due.tell(1, told(1, 1, 4))
    assert due.take() == []
    due.tell(1, told(1, 2, 5, [Span(4, 8)]))
    assert due.take() == [Span(4, 8)]
    due.tell(0, told(0, 2, 8, [Span(4, 8)]))
    assert due.take() == []
    due.tell(1, told(1, 3, 8, [Span(4, 8)]))
    assert due.take() == [Span(4, 8)]


def test_the_result_so_far_is_due_when_the_last_part_moves() -> None:
    due = Due([0, 0], 0)
    due.tell(0, told(0, 1, 10, [None]))
    due.tell(0, told(0, 2, 20, [None]))
    due.tell(1, told(1, 1, 10, [None]))
    assert due.take() == [None]
    due.tell(1, told(1, 2, 20, [None]))
    assert due.take() == [None] and due.take() == []


def test_what_is_not_sent_is_told_of_once_and_what_waits_is_bounded() -> None:
    due = Due([0, 0], 0)
    due.tell(0, told(0, 1, 900, also_closed=(Span(2, 9), 3), also_revised=(Span(0, 4), 2)))
    due.tell(1, told(1, 1, 900, also_closed=(Span(0, 6), 4)))
    assert due.take_rests() == {"also_closed": Rest(Span(0, 9), 4), "also_revised": Rest(Span(0, 4), 2)}
    assert due.take_rests() == {}
    due.tell(0, told(0, 2, 9_000, [Span(1_000 + n, 1_001 + n) for n in range(WAITING_MAX + 2)]))
    due.tell(1, told(1, 2, 9_000))
    assert due.take() == [Span(1_000 + n, 1_001 + n) for n in range(2, WAITING_MAX + 2)]
    assert due.take_rests() == {"also_closed": Rest(Span(1_000, 1_002), 1)}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=60))
def test_each_window_is_due_exactly_once_and_never_before_all_have_closed_it(steps: list[tuple[int, int]]) -> None:
    due, throughs, seen = Due([0, 0, 0], 0), [0, 0, 0], list[Span | None]()
    for edition, (part, more) in enumerate(steps, 1):
        before = throughs[part]
        throughs[part] += more
        due.tell(
            part,
            told(part, edition, throughs[part], [Span(end - 1, end) for end in range(before + 1, throughs[part] + 1)]),
        )
        seen += due.take()
    least = min(throughs) if {part for part, _ in steps} == {0, 1, 2} else 0
    assert seen == [Span(end - 1, end) for end in range(1, least + 1)]
