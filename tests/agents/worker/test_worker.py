"""A worker seals each event exactly once, whatever the order of events, verdicts and restarts."""

import collections

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.completeness.lacks import RUNS_MAX
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.worker.payload import Notes, unpack
from elf.agents.worker.state import Progress, Snapshot
from elf.agents.worker.worker import Worker
from elf.cbt import INTERVAL, BufferTree
from elf.overlay.contract import NEVER, Verdict
from tests.agents.plans import COLUMNS, WINDOWED, events, opened, plan_of

PLAN = plan_of()


def rows_of(snapshots: list[Snapshot]) -> collections.Counter[tuple[int, str]]:
    total: collections.Counter[tuple[int, str]] = collections.Counter()
    for snapshot in snapshots:
        if snapshot.payload is not None:
            for row in opened(snapshot.payload, PLAN)[1].to_dicts():
                total[row[INTERVAL], row["k0"]] += row["a0_n"]
    return total


def test_an_interval_is_sealed_once_the_watermark_has_passed_its_end_by_the_lateness() -> None:
    #   0s      2s      4s      6s        lateness 1 s
    #   a a     |b      |               watermark 4.9 s closes [0, 2) only
    worker = Worker(plan_of(lateness_ms=1000), "w1")
    worker.insert(events([(0, "a", 1), (1999, "a", 1), (2000, "b", 1)]))
    sealed = worker.seal(4_900)
    assert [s.through for s in sealed] == [0]
    assert rows_of(sealed) == {(0, "a"): 2}
    assert worker.seal(4_999) == []
    assert [s.through for s in worker.seal(5_000)] == [1]


def test_an_idle_worker_seals_the_empty_run_as_one_snapshot() -> None:
    worker = Worker(PLAN, "w1")
    worker.insert(events([(1_000, "a", 1)]))
    assert [(s.through, s.payload is None) for s in worker.seal(2_000_000)] == [(0, False), (999, True)]


def test_a_late_event_rides_in_the_next_snapshot_and_is_counted() -> None:
    worker = Worker(PLAN, "w1")
    worker.insert(events([(1_000, "a", 1)]))
    worker.seal(2_000)
    worker.insert(events([(500, "a", 1), (2_500, "a", 1)]))
    (snapshot,) = worker.seal(4_000)
    assert snapshot.payload is not None
    notes, frame = opened(snapshot.payload, PLAN)
    assert notes.late == 1
    assert sorted(frame[INTERVAL]) == [0, 1]


def test_a_snapshot_that_missed_its_commit_is_carried_and_says_so() -> None:
    worker = Worker(PLAN, "w1")
    worker.insert(events([(1_000, "a", 1)]))
    first = worker.seal(2_000)
    worker.settle(Verdict(previous=NEVER, through=3, missing=True), first)
    assert worker.seal(8_000) == [], "intervals up to 3 are committed: nothing may be sealed under their names"
    (carried,) = worker.seal(10_000)
    assert carried.through == 4
    assert rows_of([carried]) == {(0, "a"): 1}
    assert opened(carried.payload or b"", PLAN)[0] == Notes(settles={"w1": ((NEVER, 3),)})


def test_whoever_is_counted_without_says_when_its_own_time_has_come() -> None:
    worker = Worker(PLAN, "w1")
    worker.insert(events([(1_000, "a", 1), (2_500, "b", 1)]))
    for interval in range(2):  # each settled by others whose clocks are ahead, before ours has closed it
        worker.settle(Verdict(interval - 1, interval, missing=True), [])
        assert worker.overtaken is None
        assert worker.seal(2_000 * (interval + 1) + 100) == []
        assert worker.overtaken == interval
        worker.overtaken = None
        assert worker.seal(2_000 * (interval + 1) + 200) == [] and worker.overtaken is None, "said once"
    (snapshot,) = worker.seal(6_000)
    assert snapshot.through == 2 and rows_of([snapshot]) == {(0, "a"): 1, (1, "b"): 1}
    assert worker.seal(8_000) and worker.overtaken is None, "it is in step again"


def test_a_verdict_that_says_again_what_was_heeded_settles_nothing_of_it_twice() -> None:
    #: A root that has not heard yet that a verdict was heeded says it again, as one with the next, after a restart.
    worker = Worker(PLAN, "w1")
    worker.insert(events([(1_000, "a", 1), (3_000, "b", 1)]))
    first, second = worker.seal(4_000)
    worker.settle(Verdict(previous=NEVER, through=0, missing=True), [first])
    (third,) = worker.seal(6_000)
    assert opened(third.payload or b"", PLAN)[0].settles == {"w1": ((NEVER, 0),)}
    worker = Worker.restore(PLAN, "w1", worker.state())
    worker.settle(Verdict(previous=NEVER, through=1, missing=True), [second])
    (fourth,) = worker.seal(8_000)
    assert opened(fourth.payload or b"", PLAN)[0].settles == {"w1": ((0, 1),)}, "the third has the rest"
    assert rows_of([third]) == {(0, "a"): 1} and rows_of([fourth]) == {(1, "b"): 1}


def test_what_labels_have_to_say_goes_with_the_first_interval_that_is_sealed() -> None:
    worker = Worker(PLAN, "w1")
    worker.insert(events([(1_000, "a", 1)]))
    worker.seal(2_000)
    worker.note_gap(5_000, 9_000)
    worker.insert(events([(11_000, "a", 1)]))
    sealed = worker.seal(14_000)
    assert [each.through for each in sealed] == [1, 5, 6]
    assert [opened(each.payload, PLAN)[0].gaps for each in sealed if each.payload] == [((2, 4),), ()]
    worker.insert(events([(500, "late", 1), (19_000, "a", 1)]))
    assert [each.through for each in worker.seal(22_000)] == [7, 9, 10], "late rows, too"
    assert [each.through for each in worker.seal(30_000)] == [14], "and else nothing"


def test_what_a_crash_has_lost_is_told_by_a_snapshot_that_no_other_can_be_taken_for() -> None:
    plan = plan_of(options='semantics = "at-most-once"')
    worker = Worker(plan, "w1")
    worker.insert(events([(1_000, "a", 1)]))
    worker.seal(2_000)
    worker.insert(events([(3_000, "a", 1)]))
    worker = Worker.restore(plan, "w1", worker.state())
    worker.resume(5_000)
    told = worker.seal(6_000)
    assert [opened(each.payload or b"", plan)[0].lost for each in told] == [{"w1": ((-1, 1),)}] * len(told)
    worker.settle(Verdict(NEVER, told[-1].through, missing=False), ())
    assert worker.progress.lost, "before it fell it may have sealed that interval, too, and the root may have that"
    (again,) = worker.seal(8_000)
    worker.settle(Verdict(told[-1].through, again.through, missing=False), ())
    assert not worker.progress.lost


def test_a_worker_attached_mid_stream_says_so_until_a_commit_has_it() -> None:
    worker = Worker(PLAN, "w1")
    worker.begin(partial_before=7)
    worker.insert(events([(14_000, "a", 1)]))
    (snapshot,) = worker.seal(16_000)
    assert opened(snapshot.payload or b"", PLAN)[0].partial_before == {"w1": 7}
    # How far the job was when we began: ours may have come too late for that, and a former worker's been in it.
    worker.settle(Verdict(previous=NEVER, through=9, missing=False), ())
    (snapshot,) = worker.seal(22_000)
    assert opened(snapshot.payload or b"", PLAN)[0].partial_before == {"w1": 7}
    worker.settle(Verdict(previous=9, through=10, missing=False), ())
    (snapshot,) = worker.seal(24_000)
    assert snapshot.payload is None


def test_a_successor_owes_nothing_of_what_it_leaves_out() -> None:
    for through, owed in ((4, ()), (5, ()), (7, ((5, 7),))):
        worker = Worker(PLAN, "w2", Progress(counted=5), new=True)
        worker.begin(None)
        worker.settle(Verdict(NEVER, through, True, named=False), ())
        assert worker.progress.owed == owed


def test_lines_that_a_lost_predecessor_had_read_and_that_are_gone_are_a_gap() -> None:
    for first_ms, gaps in ((3_999, ()), (4_000, ((1, 2),)), (9_000, ((1, 4),))):
        worker = Worker(plan_of(lateness_ms=1_000), "w2", Progress(counted=1), new=True)
        worker.begin(None)
        worker.insert(events([(first_ms, "a", 1), (20_000, "a", 1)]))
        worker.insert(events([(30_000, "a", 1)]))
        assert worker.progress.gaps == gaps
    worker = Worker(PLAN, "w1", new=True)
    worker.begin(None, gone_ms=9_000)
    worker.insert(events([(9_000, "a", 1)]))
    assert worker.progress.gaps == ()


def test_lines_that_are_known_to_be_gone_are_a_gap_though_a_late_one_looks_as_if_they_were_there() -> None:
    worker = Worker(plan_of(lateness_ms=1_000), "w2", Progress(counted=1), new=True)
    worker.begin(None, gone_ms=9_000)
    worker.insert(events([(1_000, "a", 1), (20_000, "a", 1)]))
    assert worker.progress.gaps == ((1, 4),)


def test_lines_that_are_known_to_be_gone_are_a_gap_though_their_agent_was_never_counted() -> None:
    worker = Worker(plan_of(lateness_ms=1_000), "w2", new=True, succeeds=True)
    worker.begin(None, gone_ms=9_000)
    worker.insert(events([(1_000, "a", 1), (20_000, "a", 1)]))
    assert worker.progress.gaps == ((0, 4),)


def test_what_a_lost_predecessor_was_counted_with_is_left_out() -> None:
    worker = Worker(PLAN, "w2", Progress(counted=1), new=True)
    worker.begin(None)
    worker.insert(events([(1_000, "a", 1), (3_000, "a", 1), (4_000, "a", 1)]))
    assert rows_of(worker.seal(6_000)) == {(2, "a"): 1}


DROPPING = plan_of(options='straggler = "drop"')


def test_a_job_that_drops_stragglers_drops_the_run_and_nothing_else() -> None:
    """Intervals of 2 s: 0 was counted, 1 to 3 were leapt, a late event of 0 had come meanwhile."""
    worker = Worker(DROPPING, "w1")
    worker.insert(events([(0, "a", 1)]))
    worker.seal(2_000)
    worker.settle(Verdict(previous=NEVER, through=0, missing=False), ())
    worker.insert(events([(500, "late", 1), (2_500, "b", 1)]))
    sealed = worker.seal(4_000)
    worker.insert(events([(4_500, "c", 1), (8_500, "d", 1)]))
    worker.settle(Verdict(previous=0, through=3, missing=True), sealed)
    worker = Worker.restore(DROPPING, "w1", worker.state())
    worker.insert(events([(2_600, "b", 1), (7_999, "c", 1), (600, "late", 1), (8_000, "d", 1)]))
    (snapshot,) = worker.seal(10_000)
    assert rows_of([snapshot]) == {(0, "late"): 2, (4, "d"): 2}
    notes, _ = opened(snapshot.payload or b"", PLAN)
    assert notes.late == 2
    assert notes.settles == {}, "nothing came of what the labels name"


def test_data_from_before_an_agent_was_expected_is_not_dropped() -> None:
    worker = Worker(DROPPING, "w1")
    worker.insert(events([(0, "a", 1)]))
    worker.settle(Verdict(previous=NEVER, through=3, missing=True, named=False), worker.seal(2_000))
    worker.insert(events([(2_500, "b", 1)]))
    assert rows_of(worker.seal(10_000)) == {(0, "a"): 1, (1, "b"): 1}


def test_a_worker_remembers_a_bounded_number_of_dropped_runs() -> None:
    worker = Worker(DROPPING, "w1")
    for number in range(2 * RUNS_MAX):
        worker.settle(Verdict(previous=3 * number, through=3 * number + 1, missing=True), ())
        worker.settle(Verdict(previous=3 * number + 1, through=3 * number + 2, missing=True), ())
    assert len(worker.progress.dropped) == RUNS_MAX
    assert worker.progress.dropped[-1] == (6 * RUNS_MAX - 3, 6 * RUNS_MAX - 1)


step = st.one_of(
    st.tuples(st.just("events"), st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from("ab")), max_size=5)),
    st.tuples(st.just("seal"), st.integers(0, 30_000)),
    st.tuples(st.just("verdict"), st.booleans()),
    st.tuples(st.just("restart"), st.none()),
)


@settings(max_examples=200)
@given(st.lists(step, max_size=30), st.sampled_from([PLAN, DROPPING]))
def test_every_event_ends_in_exactly_one_commit_or_is_dropped_by_name(
    steps: list[tuple[str, object]], plan: Plan
) -> None:
    worker, produced, committed = Worker(plan, "w1"), collections.Counter(), collections.Counter()
    named: list[range] = []
    durable: list[Snapshot] = []
    settled = NEVER

    def verdict(missing: bool) -> None:
        nonlocal settled, durable
        through = max([s.through for s in durable], default=settled + 1 if settled != NEVER else 0)
        if through <= settled:
            return
        # No master counts what was never sealed.
        sealed = worker.progress.sealed
        missing = missing or sealed is None or through > sealed
        mine = [s for s in durable if s.through <= through]
        if not missing:
            committed.update(rows_of(mine))
        elif plan is DROPPING:
            named.append(range(settled + 1, through + 1))
        worker.settle(Verdict(previous=settled, through=through, missing=missing), mine)
        durable = [s for s in durable if s.through > through]
        settled = through

    for kind, value in steps:
        if kind == "events":
            assert isinstance(value, list)
            produced.update((ts // 2_000, product) for ts, product in value)
            worker.insert(events([(ts, product, 1) for ts, product in value]))
        elif kind == "seal":
            assert isinstance(value, int)
            durable += worker.seal(value)
        elif kind == "verdict":
            verdict(bool(value) and bool(durable))
        else:
            worker = Worker.restore(plan, "w1", worker.state())
    durable += worker.seal(10**9)
    verdict(False)
    assert not committed - produced
    assert all(any(interval in run for run in named) for interval, _ in produced - committed)


def test_memory_is_reported() -> None:
    worker = Worker(PLAN, "w1")
    assert worker.memory_bytes == 0
    worker.insert(events([(0, "a", 1)]))
    assert worker.memory_bytes > 0
    assert isinstance(worker.state().open_block, bytes)


def test_memory_may_be_asked_for_while_another_thread_opens_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(PLAN, "w1")
    worker.insert(events([(0, "a", 1), (2_000, "a", 1)]))

    def opened_meanwhile(_: BufferTree) -> int:
        worker.insert(events([(4_000, "a", 1)]))
        return 7

    monkeypatch.setattr(BufferTree, "memory_bytes", property(opened_meanwhile))
    assert worker.memory_bytes == 14


def versions_of(*since: int) -> Versions:
    """The job as it was published, then stopped and resumed in turn from these intervals on."""
    made = [Version(number=1, definition=PLAN.definition)]
    for number, first in enumerate(since, 2):
        kind = {"what": "resume"} if number % 2 else {"what": "stop", "ends_ms": 9}
        made.append(Version(number=number, definition=PLAN.definition, since=first, **kind))  # type: ignore[arg-type]
    return Versions([Compiled(version, PLAN) for version in made])


def test_a_stopped_job_costs_nothing_and_keeps_what_came_late_until_it_is_resumed() -> None:
    #   publish |  stop   | resume     intervals of 2 s
    #   0  1  2 | 3  4  5 | 6  7
    worker = Worker(PLAN, "w1")
    worker.insert(events([(2_000 * interval, "a", 1) for interval in range(8)]))
    worker.adopt(versions_of(3), 8)
    assert rows_of(worker.seal(8_000)) == {(0, "a"): 1, (1, "a"): 1, (2, "a"): 1}
    worker.insert(events([(0, "late", 1), (8_000, "b", 1)]))
    assert worker.seal(100_000) == [] and not worker.counts_nothing
    worker = Worker.restore(versions_of(3), "w1", worker.state())
    assert worker.seal(10**12) == [] and worker.counts_nothing and worker.plans == []
    worker.adopt(versions_of(3, 6), 50)
    worker.insert(events([(12_000, "c", 1), (10_000, "b", 1)]))
    sealed = worker.seal(10**12)
    assert rows_of(sealed) == {(0, "late"): 1, (6, "c"): 1}
    notes = opened(sealed[0].payload or b"", PLAN)[0]
    assert (sealed[0].through, notes.since) == (3, {"w1": {3: 50}}), "events up to interval 49 were left out"


def renumbered(length: str) -> Versions:
    """The job with intervals of 2 s, and from the sixth on, at 12 s, of another length."""
    query = WINDOWED.replace("'4 seconds', '2 seconds'", length)
    since, shift = PLAN.numbering.followed_by(plan_of(query).interval_ms, 6)
    assert since == 6
    plan = compile_job(replace(plan_of(query).definition, shift=shift, version=2), COLUMNS)
    version = Version(number=2, definition=plan.definition, what="update", since=6, begins=6, pao_kind=2)
    return Versions([*Versions.of(PLAN).all, Compiled(version, plan)])


def test_who_hears_too_late_of_longer_intervals_says_so_of_all_that_it_has_sealed() -> None:
    """They are not over by the new count: what comes in them yet is late, and no label may call them complete."""
    worker = Worker(PLAN, "w1", new=True)
    worker.begin(None)
    worker.insert(events([(1_000 * at, "a", 1) for at in (1, 13, 23)]))
    assert [each.through for each in worker.seal(24_000)] == [0, 6, 11]
    worker.adopt(renumbered("'6 seconds'"), 6 + 2)
    worker.insert(events([(25_000, "b", 1), (45_000, "c", 1)]))
    assert worker.seal(47_000) == [], "interval 11 ends at 48 s now"
    (sealed,) = worker.seal(54_000)
    notes, paos = unpack(sealed.payload or b"", worker.versions)
    assert sealed.through == 12 and paos.by_kind()[2].select(INTERVAL, "k0").rows() == [(8, "b"), (11, "c")]
    assert notes.since == {"w1": {2: 12}} and notes.late == 2


def test_who_hears_too_late_of_shorter_intervals_has_all_events_from_later_ones_on() -> None:
    worker = Worker(PLAN, "w1", new=True)
    worker.begin(8)  # from 16 s on, which begins the tenth interval by the new count
    worker.insert(events([(19_000, "a", 1)]))
    assert [each.through for each in worker.seal(20_000)] == [9]
    worker.adopt(renumbered("'1 second'"), 14)
    assert (worker.progress.since, worker.progress.partial_before) == ({2: 14}, 14)
    early = Worker(PLAN, "w1", new=True)
    early.begin(3)
    early.adopt(renumbered("'1 second'"), 5)
    assert (early.progress.since, early.progress.partial_before) == ({2: 6}, 3), "who hears in time lacks nothing more"


@given(
    told=st.lists(st.tuples(st.integers(0, 15), st.sampled_from("ab")), max_size=30),
    since=st.lists(st.integers(1, 16), max_size=4).map(sorted),
    steps=st.lists(st.tuples(st.integers(0, 18), st.booleans()), max_size=8),
)
def test_every_event_of_an_interval_that_is_counted_is_sealed_once(
    told: list[tuple[int, str]], since: list[int], steps: list[tuple[int, bool]]
) -> None:
    """However often the job is stopped, the watermark looked at, and the agent restarted."""
    worker, due = Worker(versions_of(*since), "w1"), collections.Counter[tuple[int, str]]()
    for interval, product in told:
        if not versions_of(*since).at(interval).version.is_stopped:
            due[interval, product] += 1
    worker.insert(events([(2_000 * interval, product, 1) for interval, product in told]))
    sealed = []
    for interval, restarts in sorted(steps):
        sealed += worker.seal(2_000 * interval)
        if restarts:
            worker = Worker.restore(worker.versions, "w1", worker.state())
    last = 20
    if len(since) % 2:
        # What is counted has come before the stop, or waits for the end of it.
        assert all(snapshot.through < since[-1] for snapshot in sealed)
        worker.adopt(versions_of(*since, last), None)
    sealed += worker.seal(2_000 * (last + 9))
    assert rows_of(sealed) == due
    throughs = [snapshot.through for snapshot in sealed]
    assert throughs == sorted(set(throughs))
