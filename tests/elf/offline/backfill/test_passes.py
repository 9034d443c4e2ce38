"""Passes follow the bytes of the archive and the cores, and their results come in the order of time."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.jobs.plan import Plan
from elf.offline.backfill.passes import (
    AT_ONCE_BYTES,
    FEW_EVENTS,
    SLOTTED_AT_ONCE_BYTES,
    TASK_BYTES_MAX,
    TASK_BYTES_MIN,
    Pass,
    cut_passes,
    in_order,
)
from tests.agents.plans import plan_of
from tests.elf.offline.backfill.asked import archived


def plan_with(state: str) -> Plan:
    return plan_of(f"SELECT product, {state} AS x FROM clicks GROUP BY product, window(ts, '10 seconds')")


SUM = plan_with("sum(cents)")


def bounds(passes: list[Pass]) -> list[tuple[int, int]]:
    return [(each.begin, each.end) for each in passes]


@pytest.mark.parametrize(
    ("state", "most"), [("sum(cents)", AT_ONCE_BYTES), ("approx_count_distinct(cents)", SLOTTED_AT_ONCE_BYTES)]
)
def test_all_that_is_computed_at_once_is_bounded(state: str, most: int) -> None:
    plan = plan_with(state)
    hours = [archived("a", 10_000 * hour, 10_000 * hour + 9_999, most // 8) for hour in range(16)]
    for cores in (2, 4):
        passes, lanes = cut_passes(hours, [(0, 16)], plan, cores)
        assert lanes == cores
        wide = 8 // cores
        assert bounds(passes) == [(begin, begin + wide) for begin in range(0, 16, wide)]
    passes, lanes = cut_passes(hours, [(3, 5)], plan, 1000)
    assert (bounds(passes), lanes) == ([(3, 5)], most // TASK_BYTES_MIN)
    assert not any(each.in_one_task for each in passes), "there is too little for each core"
    assert bounds(cut_passes([], [(3, 5)], plan, 2)[0]) == [(3, 5)]


def test_all_cores_have_a_pass_of_what_is_worth_it() -> None:
    whole = archived("a", 0, 99_999, 8 * TASK_BYTES_MIN)
    assert bounds(cut_passes([whole], [(0, 10)], SUM, 2)[0]) == [(0, 5), (5, 10)], "also within one file"
    assert bounds(cut_passes([whole], [(0, 2), (8, 10)], SUM, 2)[0]) == [(0, 2), (8, 10)]
    small = archived("a", 0, 99_999, TASK_BYTES_MIN)
    assert bounds(cut_passes([small], [(0, 10)], SUM, 2)[0]) == [(0, 10)]
    (alone,), _ = cut_passes([archived("a", 0, 9_999, 9 * TASK_BYTES_MAX)], [(0, 1)], SUM, 2)
    assert not alone.in_one_task, "one interval has all"


def test_intervals_of_many_events_are_grouped_by_all_cores_together() -> None:
    for events, in_one_task in [(FEW_EVENTS, True), (FEW_EVENTS + 1, False)]:
        whole = archived("a", 0, 99_999, 8 * TASK_BYTES_MIN, rows=10 * events)
        assert {each.in_one_task for each in cut_passes([whole], [(0, 10)], SUM, 2)[0]} == {in_one_task}
    large = archived("a", 0, 99_999, 2 * AT_ONCE_BYTES, rows=10 * FEW_EVENTS + 10)
    assert bounds(cut_passes([large], [(0, 10)], SUM, 4)[0]) == [(0, 5), (5, 10)], "no more at once than that"


def test_events_of_a_file_in_several_passes_are_counted_once() -> None:
    files = [archived("a", 0, 99_999, 8 * TASK_BYTES_MIN), archived("b", 50_000, 99_999, 1)]
    passes, _ = cut_passes(files, [(0, 10)], SUM, 2)
    assert [(len(each.files), each.events, each.in_one_task) for each in passes] == [(1, 1, True), (2, 1, True)]


spans = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 4 * TASK_BYTES_MAX))


@given(st.lists(spans, max_size=8), st.integers(0, 30), st.integers(1, 30), st.integers(1, 70))
def test_passes_cover_a_run_without_gaps(drawn: list[tuple[int, int, int]], first: int, count: int, cores: int) -> None:
    files = [archived("a", 10_000 * begin, 10_000 * (begin + more) + 5, size) for begin, more, size in drawn]
    passes, lanes = cut_passes(files, [(first, first + count)], SUM, cores)
    assert 1 <= lanes <= cores
    ends = [each.end for each in passes]
    assert [each.begin for each in passes] == [first, *ends[:-1]]
    assert ends[-1] == first + count
    assert all(each.begin < each.end for each in passes)
    for each in passes:
        held = [file for file in files if file.entry.first_ms < 10_000 * each.end]
        assert each.files == [file for file in held if file.entry.last_ms >= 10_000 * each.begin]


def nothing() -> None:
    """What is computed ends soon by itself."""


def test_results_come_in_order_of_so_many_at_a_time() -> None:
    running = most = 0
    lock = threading.Lock()

    def compute(wanted: Pass) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02 if wanted.begin % 2 else 0.001)
        with lock:
            running -= 1
        return wanted.begin

    passes = [Pass(at, at + 1, [], 0, True) for at in range(9)]
    assert [(each.begin, result) for each, result in in_order(compute, passes, 2, nothing)] == [
        (at, at) for at in range(9)
    ]
    assert most <= 2


def test_after_a_failure_no_other_is_begun() -> None:
    begun: list[int] = []

    def compute(wanted: Pass) -> int:
        begun.append(wanted.begin)
        if wanted.begin == 1:
            raise OSError("the disk is full")
        return wanted.begin

    passes = [Pass(at, at + 1, [], 0, True) for at in range(9)]
    with contextlib.closing(in_order(compute, passes, 1, nothing)) as results, pytest.raises(OSError, match="full"):
        list(results)
    assert len(begun) <= 4


@pytest.mark.parametrize("fails", [True, False], ids=["one fails", "it is closed"])
def test_what_is_computed_at_an_early_end_is_abandoned_before_it_is_waited_for(fails: bool) -> None:
    abandoned, waited = threading.Event(), list[bool]()

    def compute(wanted: Pass) -> int:
        if wanted.begin == 0 and fails:
            raise OSError("the file is damaged")
        if wanted.begin:
            waited.append(abandoned.wait(10))
        return wanted.begin

    passes = [Pass(at, at + 1, [], 0, True) for at in range(3)]
    outcome = pytest.raises(OSError, match="damaged") if fails else contextlib.nullcontext()
    with outcome, contextlib.closing(in_order(compute, passes, 2, abandoned.set)) as results:
        next(results)
    assert waited
    assert all(waited)
