"""When events that wait are taken in: before it matters what workers made of them, and no sooner."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import polars as pl
import pytest

from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters
from elf.agents.worker.sharing.parse import Parsing
from elf.agents.worker.sharing.waiting_events import ROWS_MAX
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict
from tests.agents.plans import events, opened, plan_of

PLAN = plan_of()
TREE = PLAN.definition.app_id


def fed(worker: Worker | None = None) -> Workers:
    """Return one worker that has sealed interval 0, and two events of the next one, which wait."""
    workers = Workers()
    workers[TREE] = Worker(PLAN, "w1") if worker is None else worker
    workers.seal(2_000)
    workers.insert(events([(2_000, "a", 1)]))
    workers.insert(events([(2_500, "b", 2)]))
    return workers


def rows(workers: Workers) -> int:
    return sum(frame.height for _, frame in workers[TREE].open.snapshot().parts)


def changed(workers: Workers) -> None:
    published = Version(number=1, definition=PLAN.definition)
    pause = Version(number=2, definition=PLAN.definition, what="pause", since=2)
    workers.adopt(TREE, Versions([Compiled(published, PLAN), Compiled(pause, PLAN)]), 1)


def joined(workers: Workers) -> None:
    workers[b"other"] = Worker(PLAN, "w1", tree=b"other")
    assert not workers[b"other"].open.ends


@pytest.mark.parametrize(
    "act",
    [
        lambda workers: workers.states({TREE: ()}, last=False),
        lambda workers: workers.note_gap(None, 0),
        lambda workers: workers.note_lines(Counters(read=1, rejected=1), (None, 0)),
        lambda workers: workers.has_changed(),
        lambda workers: workers.part_with(b"other"),
        lambda workers: workers.settle(TREE, Verdict(-1, 0, missing=True), ()),
        lambda workers: workers.settle(TREE, Verdict(-1, 1, missing=True, named=True), ()),
        lambda workers: workers.insert(events([(3_000, "c", 1)] * ROWS_MAX)),
        lambda workers: workers.insert(events([(3_000, "c", 1)]), Parsing({"cents": SqlType.BIGINT})),
        changed,
        joined,
    ],
)
def test_they_are_taken_in_before_it_matters(act: Callable[[Workers], object]) -> None:
    workers, apart = fed(), Worker(PLAN, "w1")
    assert not rows(workers)
    assert not workers.is_half_done
    act(workers)
    apart.seal(2_000)
    apart.insert(events([(2_000, "a", 1), (2_500, "b", 2)]))
    assert rows(workers) >= 2 == sum(frame.height for _, frame in apart.open.snapshot().parts)


@pytest.mark.parametrize(
    "act",
    [
        lambda workers: workers.seal(3_999),
        lambda workers: workers.seal(None),
        lambda workers: workers.note_lines(Counters(read=2, parsed=2), None),
        lambda workers: workers.settle(TREE, Verdict(-1, 0, missing=False), ()),
        lambda workers: workers.insert(events([])),
    ],
)
def test_and_no_sooner(act: Callable[[Workers], object]) -> None:
    workers = fed()
    act(workers)
    assert not rows(workers)


def test_what_is_sealed_has_them() -> None:
    (snapshot,) = fed().seal(4_000)[TREE]
    assert snapshot.payload is not None and len(opened(snapshot.payload, PLAN)[1]) == 2


def test_a_version_counts_what_came_before_it_rests() -> None:
    """Also of a job that is stopped, which nobody seals any more: time alone changes what it counts."""
    published = Version(number=1, definition=PLAN.definition)
    stop = Version(number=2, definition=PLAN.definition, what="stop", since=5, ends_ms=9)
    workers = fed(Worker(Versions([Compiled(published, PLAN), Compiled(stop, PLAN)]), "w1"))
    workers.seal(3_999)
    assert not rows(workers), "a job that is stopped makes nobody map more often"
    workers.seal(10**9)
    assert workers[TREE].counts_nothing and workers[TREE].progress.sealed == 4


def test_what_is_gone_shows_in_the_first_events_not_in_the_earliest() -> None:
    worker = Worker(PLAN, "w1", new=True, succeeds=True)
    worker.progress = worker.progress.__class__(counted=1)
    worker.begin(None)
    workers = Workers({TREE: worker})
    workers.insert(events([(20_000, "a", 1)]))
    workers.insert(events([(5_000, "a", 1)]))
    assert worker.progress.gaps == ((2, 10),)


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt])
def test_whoever_fails_in_the_middle_says_so(monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]) -> None:
    workers = fed()

    def fails(*_: object) -> pl.DataFrame:
        raise failure

    monkeypatch.setattr(Plan, "mapped", fails)
    with pytest.raises(failure):
        workers.has_changed()
    assert workers.is_half_done


@pytest.mark.parametrize("together", [True, False])
def test_late_events_are_those_that_the_job_wants_however_they_come(together: bool) -> None:
    """In each part of a job, whichever of them has their keys."""
    query = "SELECT product, count(*) AS n FROM clicks WHERE cents > 1 GROUP BY product, window(ts, '2 seconds')"
    whole = plan_of(query, options="trees = 2")
    other = msgspec.structs.replace(whole, definition=msgspec.structs.replace(whole.definition, part=1))
    workers = Workers({bytes([at]): Worker(plan, "w1") for at, plan in enumerate([whole, other, plan_of(query)])})
    workers.seal(4_000)
    for row in [(0, "a", 1), (1_000, "a", 2), (2_000, "b", 1), (3_000, "b", 3), (4_000, "c", 2), (0, "d", 0)]:
        workers.insert(events([row]))
        if not together:
            workers.take_in()
    workers.take_in()
    assert [worker.progress.late for worker in workers.values()] == [2, 2, 2]
