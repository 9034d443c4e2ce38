"""What is loaded from the archive takes the place of what agents brought of it, once, however often it is loaded."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobError
from elf.agents.jobs.plan import Plan
from elf.agents.master.backfill import Reach, check_load, reach_of
from elf.agents.master.commands import Load
from elf.agents.store.panes import Kind
from elf.agents.worker.payload import Notes
from elf.cbt import PaoDecodeError, encode
from tests.agents.master.backfilled import BEGUN, MAXIMAL, SUMMED, Job, Rows
from tests.agents.plans import CUMULATIVE, plan_of


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Iterator[Job]:
    with Job(tmp_path) as made:
        yield made


@pytest.fixture
def short(tmp_path: pathlib.Path) -> Iterator[Job]:
    """It retains 30 intervals."""
    with Job(tmp_path, plan_of(options='retain = "60s"')) as made:
        yield made


def test_windows_of_before_the_job_are_final_once_they_are_backfilled(job: Job) -> None:
    job.commit(BEGUN, [(BEGUN - 1, "a"), (BEGUN, "a")])
    before = job.ask(30, BEGUN)
    assert (before["status"], before["missing"]) == ("final_incomplete", ["w1", "w2"])
    assert "backfilled" not in before
    job.load(30, BEGUN - 1, [(30, "b"), (35, "a"), (BEGUN - 1, "a"), (BEGUN - 1, "c")])
    after = job.ask(30, BEGUN)
    assert after["rows"] == {"a": 3, "b": 1, "c": 1}
    assert (after["status"], after["missing"], after["reported"], after["backfilled"]) == ("final", [], 2, 10)
    earlier = job.ask(29, BEGUN)
    assert (earlier["status"], earlier["missing"]) == ("final_incomplete", ["w1", "w2"]), "29 is in no archive"
    assert "backfilled" not in job.ask(BEGUN, BEGUN)


def test_values_that_agents_could_not_read_are_not_in_their_archives_either(job: Job) -> None:
    job.commit(10, [(10, "a")])
    job.note(11, Notes(mistyped={"cents": ((11, 11, 2),)}, rejected=3, lines=9, misread=True))
    job.commit(BEGUN, [(BEGUN, "a")])
    for _ in range(2):
        job.load(5, 15, [(11, "b")])
        said = job.ask(11, 11)
        assert (said["mistyped"], said["causes"]) == ({"cents": 2}, ["lines", "types"])
        assert (said["rejected"], said["rejected_of"], said["status"]) == (3, 9, "final_incomplete")
        assert "causes" not in job.ask(5, 9) and "causes" not in job.ask(12, 15)


def test_values_that_archives_have_as_texts_only_are_in_the_label(job: Job) -> None:
    job.note(10, Notes(mistyped={"cents": ((8, 8, 1),)}))
    job.commit(BEGUN, [(BEGUN, "a")])
    found = {"cents": ((8, 8, 3), (11, 11, 2), (13, 13, 1)), "size": ((13, 13, 4),)}
    for _ in range(2):
        job.load(5, 15, [(11, "b")], mistyped=found)
        assert job.ask(8, 8)["mistyped"] == {"cents": 3}, "an agent has told of one of them"
        assert job.ask(11, 11)["mistyped"] == {"cents": 2}
        assert (said := job.ask(11, 13))["mistyped"] == {"cents": 3, "size": 4}
        assert (said["status"], said["causes"]) == ("final_incomplete", ["types"])
        assert job.ask(12, 12)["status"] == job.ask(14, 15)["status"] == "final"


def test_an_agent_without_its_archive_is_missing(job: Job) -> None:
    job.commit(BEGUN, [])
    job.load(30, 34, [(30, "a")], missing=("w2",))
    job.load(35, BEGUN - 1, [])
    assert job.ask(30, 36)["missing"] == ["w2"]
    assert job.ask(35, 36)["status"] == "final"
    job.load(30, 34, [(30, "a")])
    assert job.ask(30, 36)["status"] == "revised"


def test_loading_again_changes_nothing_and_other_rows_are_a_revision(job: Job) -> None:
    job.commit(BEGUN, [(BEGUN, "a")])
    rows = [(30, "a"), (30, "b"), (33, "a")]
    job.load(30, 38, rows)
    state, once = job.store.masters(), job.ask(30, 38)
    blocks = [(at, job.store.block(job.master.app, *at)) for at in places(job)]
    job.load(30, 38, rows)
    assert job.ask(30, 38) == once
    assert [(at, job.store.block(job.master.app, *at)) for at in places(job)] == blocks
    assert state != job.store.masters(), "only how far the group's log is applied"
    job.load(32, 34, [(33, "a"), (33, "a")])
    assert job.ask(30, 38) | {"rows": 0} == once | {"rows": 0, "revision": 1, "status": "revised"}
    assert job.ask(30, 38)["rows"] == {"a": 3, "b": 1}


def test_rows_that_agents_bring_of_a_backfilled_interval_are_left_out_and_said(job: Job) -> None:
    job.commit(BEGUN, [])
    job.load(30, BEGUN - 1, [(33, "a")])
    job.commit(BEGUN + 1, [(33, "a"), (33, "b"), (BEGUN + 1, "c")])
    late = job.ask(30, BEGUN + 1)
    assert late["rows"] == {"a": 1, "c": 1}
    assert (late["status"], late["shed"]) == ("final_incomplete", 2)
    job.restart()
    job.load(33, 33, [(33, "a"), (33, "a"), (33, "b")])
    mended = job.ask(30, BEGUN + 1)
    assert (mended["rows"], mended["status"]) == ({"a": 2, "b": 1, "c": 1}, "revised")


def test_only_what_agents_lack_is_backfilled(job: Job) -> None:
    state = job.master.state
    assert reach_of(job.plan, state) is None
    with pytest.raises(JobError, match="not committed an interval yet"):
        check_load(job.plan, state, Load(1, 2, b""))
    job.commit(BEGUN + 5, [(BEGUN + 5, "a")])
    assert reach_of(job.plan, job.master.state) == Reach(0, BEGUN)
    for first, last in ((-1, 2), (30, BEGUN), (4, 3)):
        with pytest.raises(JobError, match=f"only those from 0 up to {BEGUN - 1}"):
            check_load(job.plan, job.master.state, Load(first, last, b""))
        job.master.load(Load(first, last, encode(job.frame([]))), job.next_place())
    assert job.master.state.backfilled == (), "and every copy of the master says so"


def test_what_is_not_committed_or_not_retained_is_not_backfilled(short: Job) -> None:
    short.commit(BEGUN - 4, [(BEGUN - 4, "a")])
    assert reach_of(short.plan, short.master.state) == Reach(BEGUN - 4 - 30, BEGUN - 3)


def test_a_job_whose_agents_have_read_everything_has_nothing_to_backfill(job: Job) -> None:
    job.commit(BEGUN, [(3, "a")], begun=None)
    assert reach_of(job.plan, job.master.state) == Reach(0, 0)


def test_jobs_without_windows_are_not_backfilled(job: Job) -> None:
    job.commit(BEGUN, [])
    with pytest.raises(JobError, match="no window"):
        check_load(plan_of(CUMULATIVE), job.master.state, Load(1, 2, b""))


def test_bytes_that_are_not_the_jobs_change_nothing(job: Job) -> None:
    job.commit(BEGUN, [(BEGUN, "a")])
    for block in (b"junk", encode(job.frame([(3, "a")])), encode(plan_of(CUMULATIVE).schema.empty())):
        with pytest.raises(PaoDecodeError):
            job.master.load(Load(30, 31, block), job.next_place())
    assert job.master.state.backfilled == ()


def test_what_is_no_longer_retained_goes_as_all_does(short: Job) -> None:
    short.commit(BEGUN, [(BEGUN, "a")])
    short.load(20, 35, [(interval, "a") for interval in range(20, 36)])
    short.commit(BEGUN + 15, [(BEGUN + 15, "a")])
    assert short.master.state.backfilled == ((20, 35),)
    assert short.master.state.expired == 24
    short.restart()
    assert short.ask(25, 35)["rows"] == {"a": 11}


runs_of = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda bounds: (min(bounds), max(bounds)))


@st.composite
def actions(draw: st.DrawFn) -> list[tuple[str, int, int, Rows]]:
    made = []
    for _ in range(draw(st.integers(1, 8))):
        first, last = draw(runs_of)
        products = st.tuples(st.integers(first, last), st.sampled_from("abc"))
        made.append((draw(st.sampled_from(("load", "commit", "restart"))), first, last, draw(st.lists(products))))
    return made


@pytest.mark.parametrize("plan", [SUMMED, MAXIMAL], ids=["summed", "maximal"])
@settings(max_examples=15)
@given(actions(), st.lists(runs_of, min_size=1, max_size=4))
def test_any_loads_and_commits_add_up(
    plan: Plan, steps: list[tuple[str, int, int, Rows]], asked: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, Job(pathlib.Path(folder), plan) as job:
        job.commit(60, [(interval, "a") for interval in range(50, 61)], begun=61)
        for what, first, last, rows in steps:
            if what == "load":
                job.load(first, last, rows)
            elif what == "commit":
                through = job.master.state.rollup.committed + 1 + last - first
                job.commit(through, [*rows, (through, "b")], begun=61)
            else:
                job.restart()
            for span in asked:
                answer = job.ask(*span)
                assert answer["rows"] == job.expected(*span)
                counted = sum(1 for interval in range(span[0], span[1] + 1) if interval in job.backfilled)
                assert answer.get("backfilled", 0) == counted


def places(job: Job) -> list[tuple[Kind, int]]:
    return [(kind, key) for kind in (Kind.LABEL, Kind.PANE) for key in job.store.intervals(job.master.app, kind)]
