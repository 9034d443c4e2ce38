"""Which running totals are made, kept and used: never more work than the panes were, and never a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.master.panes import totals
from elf.agents.master.panes.totals import AMENDED_MAX, PANES_MIN, PANES_TO_TOTAL, STEPS_MAX, Totals


@given(st.sets(st.integers(0, 50)), st.integers(-5, 55), st.integers(0, 60))
def test_a_window_lies_between_its_marks_but_for_its_edges(marks: set[int], first: int, length: int) -> None:
    last = first + length
    cover = Totals(dict.fromkeys(marks, 1)).cover(first, last)
    inside = sorted(mark for mark in marks if first - 1 <= mark <= last)
    assert cover == ((inside[0], inside[-1]) if len(inside) > 1 else None)


@given(st.lists(st.integers(0, 20), max_size=80), st.integers(1, 40))
def test_small_panes_wait_for_others(rows: list[int], height: int) -> None:
    for _, keys in Totals({0: height}).steps(0, enumerate(rows, 1)):
        assert len(keys) >= PANES_MIN
    assert [keys for _, keys in Totals({}).steps(None, [(1, 1_000), (2, 600)])] == [[1]]
    assert [keys for _, keys in Totals({}).steps(None, [(1, 1_000), (2, 1_000)])] == [[1], [2]]


@given(st.lists(st.integers(0, 20), max_size=80), st.integers(1, 40))
def test_a_mark_is_due_when_the_panes_after_the_last_one_weigh_half_as_much(rows: list[int], height: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals, "PANES_MIN", 1)
        steps = Totals({0: height}).steps(0, enumerate(rows, 1))
    assert len(steps) <= STEPS_MAX
    before = 0
    for number, (mark, keys) in enumerate(steps):
        assert mark == before and keys == list(range(before + 1, keys[-1] + 1)), "one after the other, nothing left out"
        before = keys[-1]
        count = sum(rows[key - 1] for key in keys)
        assert count * PANES_TO_TOTAL >= height
        assert number or (count - rows[before - 1]) * PANES_TO_TOTAL < height, "no later than that"
        height = max(height, count)
    if len(steps) < STEPS_MAX:
        assert sum(rows[before:]) * PANES_TO_TOTAL < height or not any(rows[before:])


def test_without_marks_the_first_pane_with_rows_begins() -> None:
    assert Totals({}).steps(None, [(3, 0), (4, 1_000), (5, 9)]) == [(None, [3, 4])]
    assert Totals({}).steps(None, []) == []


@given(st.sets(st.integers(0, 40)), st.integers(-2, 42))
def test_late_rows_are_added_to_all_marks_after_them_or_these_go(marks: set[int], interval: int) -> None:
    amended, dropped = Totals(dict.fromkeys(marks, 1)).late(interval)
    after = {mark for mark in marks if mark >= interval}
    assert not amended or not dropped
    if marks and interval > min(marks):
        assert {*amended, *dropped} == after and len(amended) <= AMENDED_MAX
    else:
        assert not amended and not dropped, "before all marks, or in all: no difference shows it"


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_the_newest_mark_is_the_last_that_is_not_gone(marks: set[int], gone: set[int]) -> None:
    assert Totals(dict.fromkeys(marks, 1)).newest(gone) == max(marks - gone, default=None)
