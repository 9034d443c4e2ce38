"""The workers of a job's parts: together they hold what one worker would, each key in one part, mapped once."""

from __future__ import annotations

import collections

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.intake.poison import insert_whatever
from agents.jobs.plan import Plan
from agents.jobs.versions import Compiled, Version, Versions
from agents.parts.kin import Kin, takers
from agents.worker import Worker
from cbt import BufferTree
from overlay.contract import Verdict
from tests.agents.plans import WINDOWED, events, opened, plan_of

TREES = 3
WIDE = WINDOWED.replace("sum(cents) AS cents", "sum(cents) AS cents, approx_count_distinct(cents) AS different")
WHOLE = plan_of(WIDE)


def part_plans(query: str = WIDE, options: str = "") -> list[Plan]:
    whole = plan_of(query, options=f"trees = {TREES}\n{options}")
    definitions = [msgspec.structs.replace(whole.definition, part=part) for part in range(TREES)]
    return [msgspec.structs.replace(whole, definition=definition) for definition in definitions]


PLANS = part_plans()
frames = st.lists(
    st.lists(
        st.tuples(st.integers(0, 30_000), st.none() | st.sampled_from("abcdefgh"), st.none() | st.integers(0, 50)),
        max_size=20,
    ),
    max_size=5,
)


def rows_of(worker: Worker) -> collections.Counter[tuple[object, ...]]:
    found: collections.Counter[tuple[object, ...]] = collections.Counter()
    for snapshot in worker.seal(10**9):
        if snapshot.payload is not None:
            found.update(opened(snapshot.payload, worker.plan)[1].rows())
    return found


@given(frames)
@settings(max_examples=60)
def test_parts_hold_together_what_one_worker_holds(told: list[list[tuple[int, str | None, int | None]]]) -> None:
    one, parts = Worker(WHOLE, "w1"), [Worker(plan, "w1") for plan in PLANS]
    (kin,) = takers(parts)
    for frame in told:
        one.insert(events(frame))
        kin.insert(events(frame))
    held = [rows_of(part) for part in parts]
    keys = [{row[1] for row in rows} for rows in held]
    assert sum(held, collections.Counter()) == rows_of(one)
    assert all(not keys[left] & keys[right] for left in range(TREES) for right in range(left))


def test_events_are_mapped_once_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = 0
    reduce = Plan.reduce

    def counted(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
        nonlocal mapped
        mapped += 1
        return reduce(plan, frame)

    monkeypatch.setattr(Plan, "reduce", counted)
    lone = Worker(WHOLE, "w1", tree=b"lone")
    for taker in takers([*(Worker(plan, "w1") for plan in PLANS), lone]):
        taker.insert(events([(0, "a", 1), (1, "b", 2)]))
    assert mapped == 2


def test_only_parts_of_one_job_go_together() -> None:
    other = part_plans(WIDE.replace("'2 seconds'", "'4 seconds'"))
    found = takers([Worker(plan, "w1") for plan in (*PLANS, *other)])
    assert len(found) == 2 and all(isinstance(each, Kin) for each in found)


def test_each_part_drops_what_its_own_verdicts_drop() -> None:
    parts = [Worker(plan, "w1") for plan in part_plans(options='straggler = "drop"')]
    (kin,) = takers(parts)
    kin.insert(events([(0, name, 1) for name in "abcdefgh"]))
    (snapshot,) = parts[1].seal(2_000)
    parts[1].settle(Verdict(-1, 0, missing=True, named=True), [snapshot])
    kin.insert(events([(1_000, name, 1) for name in "abcdefgh"] + [(2_000, name, 1) for name in "abcdefgh"]))
    intervals = [sorted({row[0] for row in rows_of(part)}) for part in parts]
    assert intervals == [[0, 1], [1], [0, 1]]


def test_an_event_that_cannot_be_mapped_is_left_out_of_all_parts_and_they_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reduce = Plan.reduce

    def fails(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
        if (frame["cents"] == 13).any():
            raise ValueError("13")
        return reduce(plan, frame)

    monkeypatch.setattr(Plan, "reduce", fails)
    parts = [Worker(plan, "w1") for plan in PLANS]
    (kin,) = takers(parts)
    insert_whatever(kin, events([(0, "a", 1), (4_000, "a", 13), (5_000, "b", 2)]))
    assert all(part.progress.gaps == ((2, 2),) for part in parts)
    assert sum(row[3] for part in parts for row in rows_of(part) if row[2] is None) == 2


def test_a_part_that_cannot_take_events_says_so_and_the_others_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Worker(plan, "w1") for plan in PLANS]
    (kin,) = takers(parts)
    first = kin.plan.schema.merge([])
    assert first.height == 0
    insert = BufferTree.insert

    def fails(tree: BufferTree, frame: pl.DataFrame) -> None:
        if "c" in frame["k0"].to_list():
            raise OverflowError("too much")
        insert(tree, frame)

    monkeypatch.setattr(BufferTree, "insert", fails)
    insert_whatever(kin, events([(0, name, 1) for name in "abcdefgh"]))
    failed = [part for part in parts if part.progress.gaps]
    assert len(failed) == 1 and failed[0].progress.gaps == ((0, 0),)
    assert {row[1] for part in parts if part is not failed[0] for row in rows_of(part)} < set("abdefgh")


def test_parts_that_rest_do_not_count_and_ask_for_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is stopped from an interval of its own on, and resumed."""
    parts = [Worker(plan, "w1") for plan in PLANS]
    for at, (part, plan) in enumerate(zip(parts, PLANS, strict=True)):
        published = Version(number=1, definition=plan.definition)
        stop = Version(number=2, definition=plan.definition, what="stop", since=2 + at, ends_ms=9)
        part.adopt(Versions([Compiled(published, plan), Compiled(stop, plan)]), 0)
    (kin,) = takers(parts)
    kin.insert(events([(2_000 * interval, name, 1) for interval in range(6) for name in "abcdefgh"]))
    held = [rows_of(part) for part in parts]
    assert [sorted({row[0] for row in rows}) for rows in held] == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert all(part.columns == {} and part.counts_nothing for part in parts), "10**9 ms later nothing is retained"
    monkeypatch.setattr(Plan, "reduce", lambda plan, frame: pytest.fail("nobody wants it"))
    kin.insert(events([(10**9, "a", 1)]).drop("cents"))
