"""Of a job that was changed only the intervals of the version that counts now are backfilled."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobError
from elf.agents.jobs.versions import Versions
from elf.agents.master.backfill import Reach, check_load, describe, reach_of
from elf.agents.master.commands import Load
from elf.agents.master.state import MasterState
from elf.cbt import encode
from elf.overlay.contract import NEVER, RollupState, RosterEntry
from tests.agents.master.backfilled import BEGUN, FEWER, SUMMED, Job, history
from tests.agents.plans import events

CHANGED = history(("publish", SUMMED, NEVER, NEVER, 0), ("update", FEWER, 50, 50, 2))


def test_windows_of_a_former_version_are_not_backfilled_and_stay_as_they_are(tmp_path: pathlib.Path) -> None:
    with Job(tmp_path, CHANGED) as job:
        job.commit(48, [(BEGUN - 1, "a"), (48, "a")])
        assert reach_of(CHANGED, job.master.state) == Reach(0, BEGUN)
        job.load(30, BEGUN - 1, [(33, "b"), (BEGUN - 1, "a")])
        former = job.ask(30, 48)
        assert former["status"] == "final" and former["rows"] == {"a": 2, "b": 1}
        job.commit(49, [(49, "a")])
        assert reach_of(CHANGED, job.master.state) == Reach(50, 50), "the next interval is the new version's"
        assert describe(CHANGED, job.master.state, "i", str)["version"] == 2
        job.commit(52, [(51, "a"), (52, "c")], since={"w1": {2: 50}, "w2": {2: 50}})
        assert reach_of(CHANGED, job.master.state) == Reach(50, 50)
        said = "the job was changed, and the windows of its version 2 begin with interval 50; those of former versions"
        for first, last in ((30, 33), (48, 51)):
            with pytest.raises(JobError, match=f"intervals {first} to {last} cannot be backfilled: {said}"):
                check_load(CHANGED, job.master.state, Load(first, last, b""))
        job.master.load(Load(30, 33, encode(FEWER.reduce(events([(60_000, "x", 1)])))), job.next_place())
        assert job.ask(30, 48) == former
        job.restart()
        assert job.ask(30, 48) == former
        assert job.ask(50, 52)["status"] == "final" and job.ask(50, 52)["rows"] == {"a": 1, "c": 1}


def test_what_an_agent_lacks_that_heard_of_a_version_late_is_backfilled(tmp_path: pathlib.Path) -> None:
    with Job(tmp_path, CHANGED) as job:
        job.commit(49, [(45, "a")], begun=None)
        job.commit(55, [(51, "a"), (54, "c")], None, {"w1": {2: 50}, "w2": {2: 53}})
        assert job.ask(50, 55)["missing"] == ["w2"]
        assert reach_of(CHANGED, job.master.state) == Reach(50, 53)
        job.load(50, 52, [(50, "b"), (51, "a"), (51, "a")])
        mended = job.ask(50, 55)
        assert (mended["rows"], mended["status"], mended["backfilled"]) == ({"a": 2, "b": 1, "c": 1}, "final", 3)
        back = job.ask(45, 55)
        assert back["missing"] == ["w1", "w2"] and back["rows"] == mended["rows"], "of 45 it has nothing"


def test_an_agent_that_comes_late_to_a_changed_job_is_backfilled_from_its_version_on(tmp_path: pathlib.Path) -> None:
    with Job(tmp_path, CHANGED) as job:
        job.commit(49, [(45, "a")], begun=None)
        job.commit(56, [(56, "c")], begun=55, since={"w1": {2: 53}, "w2": {2: 55}})
        assert reach_of(CHANGED, job.master.state) == Reach(50, 55)
        job.load(50, 54, [(50, "b")])
        assert (job.ask(50, 56)["status"], job.ask(50, 56)["rows"]) == ("final", {"b": 1, "c": 1})


def test_pauses_are_not_backfilled(tmp_path: pathlib.Path) -> None:
    versions = history(
        ("publish", SUMMED, NEVER, NEVER, 0), ("pause", SUMMED, 20, NEVER, 0), ("resume", SUMMED, 25, NEVER, 0)
    )
    with Job(tmp_path, versions) as job:
        job.commit(BEGUN, [], since={"w1": {3: 25}, "w2": {3: 25}})
        for first, last in ((18, 20), (21, 22), (24, 30)):
            with pytest.raises(JobError, match=f"intervals {first} to {last} .*: the job was paused in some of them"):
                check_load(versions, job.master.state, Load(first, last, b""))
        job.load(10, 19, [(19, "a")])
        job.load(25, BEGUN - 1, [(25, "b")])
        assert job.ask(19, 25)["void"] and job.ask(19, 25)["rows"] == {"a": 1, "b": 1}
        assert job.ask(25, BEGUN)["status"] == "final"
        assert job.ask(19, 25)["missing"] == [], "of a pause nobody lacks anything"


def test_what_was_loaded_into_a_former_versions_windows_makes_no_later_one_whole(tmp_path: pathlib.Path) -> None:
    with Job(tmp_path, CHANGED) as job:
        job.commit(49, [], begun=None)
        job.commit(55, [(51, "a")], None, {"w1": {2: 50}, "w2": {2: 50}})
        job.master.windows.state = replace(job.master.state, backfilled=((30, 49),))
        answer = job.ask(45, 55)
        assert (answer["missing"], answer["status"]) == (["w1", "w2"], "final_incomplete")
        assert "backfilled" not in answer


@st.composite
def changes(draw: st.DrawFn) -> Versions:
    """A history of a job whose versions begin in ascending intervals."""
    plans = [draw(st.sampled_from((SUMMED, FEWER)))]
    rows = [("publish", plans[0], draw(st.sampled_from((NEVER, 3))), NEVER, 0)]
    for number in range(2, draw(st.integers(2, 5)) + 1):
        paused, (_, plan, since, begins, states) = rows[-1][0] == "pause", rows[-1]
        what = "resume" if paused else draw(st.sampled_from(("update", "reset", "pause")))
        since = max(since, 3) + draw(st.integers(0, 5))
        if what == "update":
            plan = draw(st.sampled_from((SUMMED, FEWER)))
        if what in ("update", "reset"):
            begins, states = since, number
        rows.append((what, plan, since, begins, states))
    return history(*rows)


ahead = st.integers(0, 6)
agents = st.sampled_from(("w1", "w2", "gone"))


@given(
    changes(),
    st.integers(0, 30),
    st.integers(-1, 10),
    st.dictionaries(agents, st.integers(0, 30)),
    st.dictionaries(st.integers(1, 5), st.dictionaries(agents, ahead)),
)
def test_the_reach_ends_with_the_last_interval_that_some_agent_lacks(
    versions: Versions, committed: int, expired: int, partial: dict[str, int], late: dict[int, dict[str, int]]
) -> None:
    counted = {each.version.number: each for each in versions.all}
    since = {
        number: {agent: counted[number].version.since + by for agent, by in told.items()}
        for number, told in late.items()
        if number in counted and counted[number].version.is_told
    }
    roster = {agent: RosterEntry(NEVER) for agent in ("w1", "w2")}
    rollup = RollupState(committed=committed, roster=roster)
    state = MasterState(rollup=rollup, expired=expired, partial_before=partial, since=since)
    reach = reach_of(versions, state)
    now = versions.at(committed + 1).version
    assert reach is not None and reach.first == max(0, expired + 1, now.begins)

    def lacks(interval: int) -> bool:
        begun = any(interval < at for agent, at in partial.items() if agent in roster)
        return begun or any(
            counted[number].version.since <= interval < at and number >= versions.at(interval).version.pao_kind
            for number, told in since.items()
            for agent, at in told.items()
            if agent in roster
        )

    last = max((at for at in range(reach.first, committed + 1) if lacks(at)), default=reach.first - 1)
    assert reach.until == last + 1
