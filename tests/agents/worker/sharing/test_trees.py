"""Workers of equal jobs hold one buffer tree an interval, as long as they take the same, and no longer."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import polars as pl
import pytest

from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.worker.paos import Paos
from elf.agents.worker.sharing import readouts
from elf.agents.worker.sharing.readouts import Readouts
from elf.agents.worker.sharing.trees import SharedTree
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.worker import Worker
from elf.cbt import BufferTree
from elf.overlay.contract import Verdict
from tests.agents.plans import WINDOWED, events, plan_of

PLAN = plan_of()
#: The same map side.
LATER = plan_of(WINDOWED + " LIMIT 3", lateness_ms=6_000)
DROPPING = plan_of(options='straggler = "drop"')


def crew(*workers: Worker) -> Workers:
    return Workers({bytes([at]): worker for at, worker in enumerate(workers)})


def insert(workers: Workers, frame: pl.DataFrame) -> None:
    workers.insert(frame)
    workers.take_in()


def trees(worker: Worker) -> dict[int, SharedTree | None]:
    return {interval: worker.open.tree_of(interval) for interval in worker.open}


def counts(worker: Worker) -> dict[tuple[int, str], int]:
    """What is open, by interval and product."""
    frames = [frame for _, frame in worker.open.snapshot().parts]
    return {(at, key): n for frame in frames for at, key, n in frame.select("interval", "k0", "a0_n").rows()}


@pytest.fixture
def inserted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Heights of the frames that are inserted into any tree."""
    heights: list[int] = []
    put = BufferTree.insert

    def noted(tree: BufferTree, frame: object) -> None:
        heights.append(frame.height)  # type: ignore[attr-defined]
        put(tree, frame)  # type: ignore[arg-type]

    monkeypatch.setattr(BufferTree, "insert", noted)
    yield heights


def test_equal_jobs_hold_one_tree_an_interval(inserted: list[int]) -> None:
    one, other = Worker(PLAN, "w1"), Worker(LATER, "w1")
    together = crew(one, other)
    insert(together, events([(0, "a", 1), (2_000, "a", 1), (2_001, "b", 2)]))
    insert(together, events([(3_000, "a", 1)]))
    assert trees(one) == trees(other) and sorted(trees(one)) == [0, 1]
    assert sorted(inserted) == [1, 1, 2]
    alone = Worker(PLAN, "w1")
    alone.insert(events([(0, "a", 1), (2_000, "a", 1), (2_001, "b", 2)]))
    alone.insert(events([(3_000, "a", 1)]))
    assert one.memory_bytes == other.memory_bytes
    # Of each tree half, rounded down.
    assert 0 <= alone.memory_bytes - one.memory_bytes - other.memory_bytes <= len(trees(one))


def test_who_seals_first_lets_go_and_late_events_are_its_own(inserted: list[int]) -> None:
    one, other = Worker(PLAN, "w1"), Worker(LATER, "w1")
    together = crew(one, other)
    insert(together, events([(0, "a", 1)]))
    (shared,) = trees(other).values()
    assert shared is not None and len(shared.holders) == 2
    together.seal(2_000)
    assert trees(one) == {} and shared.holders == {other.open}
    del inserted[:]
    insert(together, events([(1, "b", 1), (2_000, "a", 1)]))
    assert trees(other)[0] is shared and trees(one)[0] not in (None, shared) and trees(one)[1] is trees(other)[1]
    assert len(inserted) == 3


def test_a_tree_is_freed_with_its_last_holder() -> None:
    one, other, third = Worker(PLAN, "w1"), Worker(LATER, "w1"), Worker(DROPPING, "w1")
    together = crew(one, other, third)
    insert(together, events([(0, "a", 1)]))
    (shared,) = trees(one).values()
    assert shared is not None
    gone = weakref.ref(shared)
    del shared
    gc.disable()  # what is freed is freed at once
    try:
        together.seal(2_000)
        assert trees(one) == trees(third) == {} and gone() is not None
        together.part_with(b"\x01")
        assert gone() is None and list(together) == [b"\x00", b"\x02"]
    finally:
        gc.enable()


def test_who_takes_what_others_do_not_goes_on_in_a_copy() -> None:
    one, other, third = (Worker(DROPPING, "w1") for _ in range(3))
    together = crew(one, other, third)
    insert(together, events([(0, "a", 1), (2_000, "a", 1)]))
    snapshots = [worker.seal(2_000) for worker in (one, other, third)]
    for worker, sealed in zip((one, other), snapshots, strict=False):
        worker.settle(Verdict(-1, 0, missing=True, named=True), sealed)
    insert(together, events([(1, "b", 5), (2_001, "b", 7)]))
    assert trees(one).keys() == trees(other).keys() == {1} and sorted(trees(third)) == [0, 1]
    assert trees(one)[1] is trees(third)[1], "the interval that nobody has dropped"
    third.insert(events([(2_002, "c", 9)]))
    assert trees(one)[1] is trees(other)[1] is not trees(third)[1]
    assert counts(one) == counts(other) == {(1, "a"): 1, (1, "b"): 1}
    assert counts(third) == {(0, "b"): 1, (1, "a"): 1, (1, "b"): 1, (1, "c"): 1}


def test_what_one_has_to_bring_again_is_in_no_other_job() -> None:
    one, other = Worker(PLAN, "w1"), Worker(PLAN, "w1")
    together = crew(one, other)
    insert(together, events([(0, "a", 1)]))
    missed, _ = one.seal(2_000), other.seal(2_000)
    insert(together, events([(1, "b", 1)]))
    assert trees(one)[0] is trees(other)[0], "what is late for both"
    one.settle(Verdict(-1, 0, missing=True, named=True), missed)
    assert trees(one)[0] is not trees(other)[0]
    assert counts(one) == {(0, "a"): 1, (0, "b"): 1} and counts(other) == {(0, "b"): 1}


def test_a_job_that_is_changed_goes_its_own_way_from_the_boundary_on() -> None:
    one, other = Worker(PLAN, "w1"), Worker(LATER, "w1")
    new = plan_of(WINDOWED.replace("FROM clicks", "FROM clicks WHERE cents > 1"))
    changed = Version(number=2, definition=new.definition, what="update", since=1, begins=1, pao_kind=2)
    one.adopt(Versions([Compiled(Version(number=1, definition=PLAN.definition), PLAN), Compiled(changed, new)]), None)
    together = crew(one, other)
    insert(together, events([(0, "a", 1)]))
    assert trees(one)[0] is trees(other)[0]
    insert(together, events([(2_000, "a", 1), (2_001, "a", 2)]))
    assert trees(one)[1] is not trees(other)[1] and trees(one)[0] is trees(other)[0]
    insert(together, events([(1_999, "b", 1), (2_002, "a", 2)]))
    assert trees(one)[0] is not trees(other)[0], "a frame of two versions is mapped for itself"
    assert counts(one) == {(0, "a"): 1, (0, "b"): 1, (1, "a"): 2}
    assert counts(other) == {(0, "a"): 1, (0, "b"): 1, (1, "a"): 3}


def test_what_holders_hold_is_read_out_and_encoded_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    snapshot = SharedTree.snapshot

    def counted(tree: SharedTree) -> object:
        nonlocal read
        read += 1
        return snapshot(tree)

    monkeypatch.setattr(SharedTree, "snapshot", counted)
    together = crew(*(Worker(PLAN, "w1") for _ in range(5)))
    insert(together, events([(0, "a", 1), (2_000, "b", 1)]))
    states = together.states({tree: () for tree in together}, last=False)
    assert read == 2 and len({id(each.open_block) for each in states}) == 1
    together.seal(2_000)
    assert read == 3
    insert(together, events([(2_001, "c", 1)]))
    after = together.states({tree: () for tree in together}, last=False)
    assert read == 4 and after[0].open_block != states[0].open_block


def test_copies_are_bounded_and_forget_what_nobody_holds() -> None:
    workers = [Worker(PLAN, "w1") for _ in range(3)]
    insert(crew(*workers), events([(0, "a", 1), (2_000, "b", 1)]))

    def found(kept: Readouts) -> list[list[tuple[object, ...]]]:
        return [[row for _, frame in worker.open.snapshot(kept).parts for row in frame.rows()] for worker in workers]

    none, kept = Readouts(0), Readouts()
    assert found(none) == found(kept) and none.bytes == 0 < kept.bytes
    kept = Readouts()
    first = workers[0].open.take([(0, 0)], kept)
    assert workers[1].open.take([(0, 0)], kept) is first and isinstance(first, Paos)
    assert kept.bytes > 0
    workers[2].open.take([(0, 0)], kept)
    assert kept.bytes == 0 and readouts.READOUTS_BYTES_MAX > 0
