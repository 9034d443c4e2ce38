"""Values and lines that are not what a job takes them for reach its labels: each once, of the interval it is of."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.lacks import RUNS_MAX
from elf.agents.completeness.tallies import Tallies, added, totals
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters, Mistyped
from elf.agents.worker.payload import Notes
from elf.agents.worker.sharing.parse import Parsing
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.state import Snapshot, WorkerState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import NEVER, Verdict
from tests.agents.plans import COLUMNS, events, opened, plan_of

#: Its intervals are 2 s.
PLAN = plan_of()
FILTERED = plan_of(
    "SELECT product, count(*) AS n FROM clicks WHERE cents > 3 GROUP BY product, window(ts, '4 seconds', '2 seconds')"
)
COUNTING = plan_of("SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '4 seconds', '2 seconds')")
PARSING = Parsing(COLUMNS)


def unfit(*times: int, column: str = "cents") -> Mistyped:
    return {column: np.array(times, np.int64)}


def worker_of(plan: Plan, job: bytes = b"j" * 20) -> Worker:
    worker = Worker(plan, "w1", tree=job, new=True)
    worker.begin(None)
    return worker


def told(snapshots: list[Snapshot], plan: Plan = PLAN) -> Notes:
    payloads = [each.payload for each in snapshots if each.payload is not None]
    return sum((opened(payload, plan)[0] for payload in payloads), Notes())


def test_only_jobs_that_read_a_column_lack_its_values() -> None:
    plans = {b"a" * 20: PLAN, b"b" * 20: FILTERED, b"c" * 20: COUNTING}
    workers = Workers({tree: worker_of(plan, tree) for tree, plan in plans.items()})
    workers.note_mistyped(unfit(0, 500, 2_500), PARSING)
    workers.note_mistyped(unfit(100, column="product"), PARSING)
    sealed = workers.seal(2_000)
    counted = {tree: told(snapshots, plans[tree]).mistyped for tree, snapshots in sealed.items()}
    product = {"product": ((0, 0, 1),)}
    both = {"cents": ((0, 0, 2),)} | product
    assert counted == {b"a" * 20: both, b"b" * 20: both, b"c" * 20: product}, "also where a filter leaves no row"
    later = workers.seal(4_000)
    assert told(later[b"a" * 20]).mistyped == {"cents": ((1, 1, 1),)}, "with its own interval"
    assert not told(later[b"c" * 20], COUNTING).mistyped


def test_what_does_not_fit_for_other_jobs_fits_for_one_with_another_type() -> None:
    query = "SELECT sum(cents) AS s FROM clicks GROUP BY window(ts, '4 seconds')"
    text = f'name = "d"\ncreator = "shop"\nquery = "{query}"'
    double = compile_job(load_definition(text, filename="job.toml"), COLUMNS | {"cents": SqlType.DOUBLE})
    workers = Workers({b"a" * 20: worker_of(PLAN), b"d" * 20: worker_of(double, b"d" * 20)})
    ways = workers.parsings({})
    assert [way.is_for(PLAN) for way in ways] == [True, False]
    workers.note_mistyped(unfit(0), ways[0])
    assert workers[b"a" * 20].progress.mistyped and not workers[b"d" * 20].progress.mistyped
    workers.note_mistyped(unfit(1), ways[1])
    assert totals(workers[b"d" * 20].progress.mistyped) == (("cents", 1),)


def test_values_of_intervals_that_were_sealed_come_with_the_next_snapshot() -> None:
    worker = worker_of(PLAN)
    worker.seal(6_000)
    worker.note_mistyped(unfit(100, 6_100))
    assert told(worker.seal(8_000)).mistyped == {"cents": ((0, 0, 1), (3, 3, 1))}
    assert worker.progress.mistyped == {}


def test_what_a_former_agent_was_counted_with_or_the_job_drops_is_not_told_of() -> None:
    worker = worker_of(PLAN)
    worker.progress = msgspec.structs.replace(worker.progress, counted=0, dropped=((1, 2),))
    worker.note_mistyped(unfit(0, 2_000, 4_000, 6_000))
    assert worker.progress.mistyped == {"cents": ((1, 1, 1), (3, 3, 1))}, "(1, 2] is interval 2"


def test_of_very_many_intervals_the_oldest_are_told_of_together() -> None:
    worker = worker_of(PLAN)
    worker.note_mistyped(unfit(*range(0, 2_000 * (RUNS_MAX + 10), 2_000)))
    (runs,) = worker.progress.mistyped.values()
    assert len(runs) == RUNS_MAX and runs[0] == (0, 10, 11) and sum(count for _, _, count in runs) == RUNS_MAX + 10


@pytest.mark.parametrize(
    ("rejected", "lines", "is_many"), [(1, 100, False), (1, 99, True), (3, 299, True), (0, 9, False)]
)
def test_more_than_one_in_a_hundred_lines_is_more_than_a_few(rejected: int, lines: int, is_many: bool) -> None:
    workers = Workers({b"a" * 20: worker_of(PLAN)})
    workers.note_lines(Counters(read=lines - rejected, parsed=lines - rejected), None)
    workers.note_lines(Counters(read=rejected, rejected=rejected), None)
    notes = told(workers.seal(2_000)[b"a" * 20])
    assert (notes.rejected, notes.lines, notes.misread) == (rejected, lines if rejected else 0, is_many)
    workers.note_lines(Counters(read=1_000, parsed=1_000), None)
    workers.note_lines(Counters(read=1, rejected=1), None)
    notes = told(workers.seal(4_000)[b"a" * 20])
    assert (notes.rejected, notes.lines, notes.misread) == (1, 1_001, False), "of the lines since the last snapshot"


def test_a_worker_that_comes_later_counts_lines_from_then_on() -> None:
    workers = Workers()
    workers.note_lines(Counters(read=1_000, parsed=1_000), None)
    worker = worker_of(PLAN)
    worker.resume(0, workers.read)
    workers[worker.tree] = worker
    workers.note_lines(Counters(read=5, parsed=4, rejected=1), None)
    notes = told(workers.seal(2_000)[worker.tree])
    assert (notes.rejected, notes.lines, notes.misread) == (1, 5, True)


def test_too_many_rejected_lines_stay_too_many_when_they_were_missed() -> None:
    workers = Workers({b"a" * 20: (worker := worker_of(PLAN))})
    workers.note_lines(Counters(read=10, parsed=8, rejected=2), None)
    missed = workers.seal(2_000)[b"a" * 20]
    worker.settle(Verdict(NEVER, 0, missing=True), missed)
    workers.note_lines(Counters(read=10_000, parsed=9_999, rejected=1), None)
    notes = told(workers.seal(4_000)[b"a" * 20])
    assert (notes.rejected, notes.lines, notes.misread) == (3, 10_010, True)


steps = st.lists(
    st.sampled_from(["read", "read", "seal", "crash"]) | st.sampled_from(["missed", "counted"]), max_size=14
)


@given(steps, st.data())
def test_each_value_is_counted_once_whatever_happens(todo: list[str], data: st.DataObject) -> None:
    """Read, seal, crash and go on from the checkpoint, be missed: in all that is counted, each value is there once."""
    worker, at_ms, through = worker_of(PLAN), 0, -1
    truth: Tallies = {}
    counted: Tallies = {}
    waiting: list[Snapshot] = []
    for step in [*todo, "seal", "counted"]:
        if step == "read":
            times = data.draw(st.lists(st.integers(max(0, at_ms - 5_000), at_ms + 6_000), min_size=1, max_size=3))
            worker.note_mistyped(unfit(*times))
            worker.insert(events([(time, "a", None) for time in times]))
            for time in times:
                truth = added(truth, {"cents": ((time // 2_000, time // 2_000, 1),)})
        elif step == "seal":
            at_ms += 2_000
            waiting += worker.seal(at_ms)
        elif step == "crash":
            state = msgspec.msgpack.encode(worker.state(waiting))
            worker = Worker.restore(PLAN, "w1", msgspec.msgpack.decode(state, type=WorkerState))
        elif waiting:
            verdict = Verdict(through, waiting[-1].through, missing=step == "missed")
            if not verdict.missing:
                counted = added(counted, told(waiting).mistyped)
            worker.settle(verdict, waiting if verdict.missing else ())
            through, waiting = verdict.through, []
    assert added(counted, worker.progress.mistyped) == truth
