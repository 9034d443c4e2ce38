"""Open intervals in one table: what anybody is told is as with a tree each, and N intervals cost what N rows do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.worker import open_intervals, paos, scattered
from elf.agents.worker.paos import ascending, decode_open, with_tables
from elf.agents.worker.scattered import Scattered
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.worker import Worker
from elf.cbt import INTERVAL, BufferTree
from elf.overlay.contract import NEVER
from tests.agents.plans import events, plan_of
from tests.agents.worker.sharing.test_as_apart import BEGINNING, World, fragile, steps

PLAN = plan_of()
SCHEMA = PLAN.schema
N = 20_000


class Table(World):
    """Everything beyond a tree or two lies in tables, which are made anew all the time."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("insert", "take_in", "seal", "settle", "store", "note_gap", "change", "restart", "attach"):
            return found

        def patched(*given_: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(open_intervals, "TREES_MAX", 1)
                patch.setattr(open_intervals, "GROWN_ROWS", 2)
                patch.setattr(paos, "SCATTERED", 1)
                patch.setattr(scattered, "FRESH_ROWS", 3)
                patch.setattr(scattered, "RESTING_ROWS", 1)
                return found(*given_)

        return patched


@given(told=st.lists(steps, min_size=6, max_size=14).map(lambda steps: [*BEGINNING, *steps]), last=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_table_changes_nothing_that_anybody_is_told(told: list[tuple[Any, ...]], last: bool) -> None:
    table, trees = Table(together=True), World(together=False)
    with pytest.MonkeyPatch.context() as patch:
        fragile(patch)
        for what, *given_ in told:
            assert getattr(table, what)(*given_) == getattr(trees, what)(*given_)
            if what in ("store", "take_in", "note_gap"):
                assert table.progress() == trees.progress()
        assert table.store(last) == trees.store(last)
        assert table.seal(10**6) == trees.seal(10**6)
        assert table.store(True) == trees.store(True)


intervals = st.integers(-20, 20)
changes = st.one_of(
    st.tuples(st.just("insert"), st.lists(st.tuples(intervals, st.sampled_from("ab")), max_size=12)),
    st.tuples(st.just("take"), intervals, intervals),
    st.tuples(st.just("settle")),
    st.tuples(st.just("resting")),
)


def rows(frame: pl.DataFrame) -> dict[tuple[int, str], int]:
    found = {(at, key): n for at, key, n in frame.select(INTERVAL, "k0", "a0_n").rows()}
    assert len(found) == frame.height, "a row for each interval and key"
    return found


@given(st.lists(changes, max_size=30), st.integers(1, 20))
def test_a_table_holds_what_came_and_was_not_taken(done: list[tuple[Any, ...]], fresh: int) -> None:
    model: dict[tuple[int, str], int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scattered, "FRESH_ROWS", fresh)
        table = Scattered(SCHEMA, itertools.count(1))
        stored = (table.number, table.table)
        for what, *given_ in done:
            if what == "insert":
                frame = PLAN.reduce(events([(at * 2_000, key, 1) for at, key in given_[0]]))
                table.insert(frame)
                for at, key in given_[0]:
                    model[at, key] = model.get((at, key), 0) + 1
            elif what == "take":
                first, last = given_
                taken = table.take(first, last)
                assert ascending(taken) is taken
                assert rows(taken) == {at: n for at, n in model.items() if first <= at[0] <= last}
                model = {at: n for at, n in model.items() if not first <= at[0] <= last}
            else:
                getattr(table, what)()
            if table.number != stored[0]:
                assert table.number > stored[0]
                stored = (table.number, table.table)
            # What was stored of this number, without what is gone, is what it holds.
            kept = {at: n for at, n in rows(stored[1]).items() if not any(a < at[0] <= b for a, b in table.gone)}
            assert kept == rows(table.table)
            assert table.intervals(NEVER, -NEVER).tolist() == sorted({at for at, _ in model})
            assert {at for at in range(-21, 22) if at in table} == {at for at, _ in model}
        assert rows(table.all()) == model


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many trees are made, and how many rows are merged in tables and encoded for the disk."""
    done = {"trees": 0, "merged": 0, "encoded": 0}
    made, merged, encoded = BufferTree.__init__, type(SCHEMA).merge, open_intervals.encode

    def makes(*given_: Any) -> None:
        done["trees"] += 1
        made(*given_)

    def merges(schema: Any, frames: Any) -> pl.DataFrame:
        done["merged"] += sum(frame.height for frame in frames)
        return merged(schema, frames)

    def encodes(frame: pl.DataFrame) -> bytes:
        done["encoded"] += frame.height
        return encoded(frame)

    monkeypatch.setattr(BufferTree, "__init__", makes)
    monkeypatch.setattr(type(SCHEMA), "merge", merges)
    monkeypatch.setattr(open_intervals, "encode", encodes)
    monkeypatch.setattr(paos, "encode", encodes)
    yield done


def many(first: int, step: int = 1) -> pl.DataFrame:
    order = np.random.default_rng(1).permutation(N)
    return events([(int(first + at * step) * 2_000, "a", 1) for at in order])


def test_events_of_as_many_intervals_open_no_tree_and_are_stored_once(work: dict[str, int]) -> None:
    worker = Worker(PLAN, "w1", tree=b"job")
    workers = Workers({b"job": worker})
    for frame in (events([(0, "a", 1)]), many(100)):
        workers.insert(frame)
        workers.take_in()
    assert work["trees"] == 1 and work["merged"] <= 4 * N
    disk: dict[int, bytes] = {}

    def store() -> int:
        """Make a checkpoint; return how many rows are written, and see that it holds all."""
        work["encoded"] = 0
        state = worker.state()
        if state.tables is not None:
            held = {**disk, **state.tables.new}
            disk.clear()
            disk.update({number: held[number] for number in state.tables.numbers})
        written = work["encoded"]
        back = decode_open(with_tables(state.open_block, disk.__getitem__), worker.versions)
        assert sorted(set(back.intervals)) == list(worker.open)
        return written

    assert store() >= N
    for second in range(50):  # honest events come, and their intervals are sealed
        workers.insert(events([(second * 2_000, "a", 1), (second * 2_000 + 1, "b", 1)]))
        workers.take_in()
        worker.seal(second * 2_000)
        assert store() <= 100, "what is open far ahead is written once"
    assert work["trees"] <= 60 and work["merged"] <= 6 * N
    state = worker.state()
    whole = msgspec.structs.replace(state, open_block=with_tables(state.open_block, disk.__getitem__), tables=None)
    restored = Worker.restore(PLAN, "w1", whole)
    assert list(restored.open) == list(worker.open)
    state = restored.state()
    assert state.tables is not None and set(state.tables.new) == set(state.tables.numbers), (
        "of another life none counts"
    )


def test_an_interval_that_has_grown_gets_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_intervals, "GROWN_ROWS", 100)
    worker = Worker(PLAN, "w1")
    worker.insert(many(0))
    for at in range(30):
        worker.insert(events([(2_000 * 7, f"{at}-{n}", 1) for n in range(200)]))
    assert worker.open.treed == [7]
    (snapshot, *_) = [each for each in worker.seal(2_000 * 8) if each.through == 7]
    assert snapshot.payload is not None
    assert list(worker.open) == list(range(8, N))
