"""The next version of a job: what may be asked for, and what every copy makes of it that was decided."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobConflictError, JobError, JobSpecError
from elf.agents.jobs.versions import ENDS_MS_MAX, VERSIONS_MAX, Version, Versions, compile_versions
from elf.agents.language.own_functions import OwnFunction
from elf.agents.master import version_decision
from elf.agents.master.stops import stopped_error, told_time, why_ended
from elf.agents.master.version_decision import AHEAD, AHEAD_PARTED, describe_history, next_version, with_version
from elf.agents.wire.changes import KEEP_MS_MAX, Amend, Kind
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import NEVER
from tests.agents.plans import WINDOWED, plan_of

DEFINITION = replace(plan_of().definition, columns={"product": "STRING", "cents": "BIGINT"})
APP = DEFINITION.app_id
JOB = JobRecord(definition=DEFINITION, master_host="127.0.0.1", master_port=9, published_ms=7, instance="i", stamp_ms=7)
FILTERED = replace(DEFINITION, query=WINDOWED.replace("FROM clicks", "FROM clicks WHERE cents > 1"))
NOW_MS = 2_000 * 1_000 + 1
#: Intervals of 3, 2, 1 and 7 s.
WINDOWS = ("'3 seconds'", "'4 seconds', '2 seconds'", "'1 second'", "'7 seconds'")


def compiled(job: JobRecord) -> Versions:
    return compile_versions(job.history)


def changed(job: JobRecord, request: Amend, now_ms: int = NOW_MS, committed: int = 900) -> JobRecord:
    """The job as it is after a request."""
    after = with_version(job, next_version(job, compiled(job), request, now_ms), committed)
    assert after is not None
    return after


def test_a_version_counts_from_the_second_boundary_ahead() -> None:
    job = changed(JOB, Amend(APP, "update", "t", FILTERED))
    first, second = job.history
    assert (first.number, first.since, first.pao_kind) == (1, NEVER, 0)
    assert (second.number, second.since, second.begins, second.pao_kind) == (2, 1_000 + AHEAD, 1_000 + AHEAD, 2)
    assert job.definition == second.definition == replace(FILTERED, version=2)
    assert job.stamp_ms > JOB.stamp_ms and JobRecord.decode(job.encode()) == job


def test_windows_go_on_where_paos_are_the_same_and_begin_anew_with_a_reset() -> None:
    ranked = replace(DEFINITION, query=WINDOWED.replace("ORDER BY", "HAVING n > 1 ORDER BY"))
    job = changed(JOB, Amend(APP, "update", "t", ranked))
    assert (job.history[-1].begins, job.history[-1].pao_kind) == (NEVER, 0)
    job = changed(job, Amend(APP, "reset", "t"), NOW_MS + 60_000)
    assert (job.history[-1].begins, job.history[-1].pao_kind) == (1_030 + AHEAD, 3)
    job = changed(job, Amend(APP, "pause", "t"), NOW_MS + 120_000)
    assert (job.history[-1].begins, job.history[-1].pao_kind, job.history[-1].is_told) == (1_030 + AHEAD, 3, False)
    assert changed(job, Amend(APP, "resume", "t"), NOW_MS + 180_000).history[-1].is_told


def test_a_version_that_was_overtaken_has_no_effect() -> None:
    both = [next_version(JOB, compiled(JOB), Amend(APP, kind, "t"), NOW_MS) for kind in ("reset", "pause")]  # type: ignore[arg-type]
    job = with_version(JOB, both[0], 900)
    assert job is not None and with_version(job, both[1], 900) is None
    assert (
        with_version(job.tombstone(NOW_MS), next_version(job, compiled(job), Amend(APP, "reset", "t"), NOW_MS), 1)
        is None
    )


@given(committed=st.integers(990, 1_010), later_ms=st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=4))
def test_nothing_that_is_committed_changes_and_boundaries_never_go_back(committed: int, later_ms: list[int]) -> None:
    job, since = JOB, NEVER
    for number, at_ms in enumerate(later_ms):
        job = changed(job, Amend(APP, "reset", "t"), NOW_MS + at_ms, committed + number)
        assert job.history[-1].since > committed + number and job.history[-1].since >= since
        since = job.history[-1].since


def test_a_rollback_brings_an_earlier_definition_back() -> None:
    job = changed(changed(JOB, Amend(APP, "update", "t", FILTERED)), Amend(APP, "reset", "t"))
    back = changed(job, Amend(APP, "rollback", "t", number=1)).history[-1]
    assert (back.number, back.what, back.definition) == (4, "rollback", replace(DEFINITION, version=4))
    assert changed(job, Amend(APP, "rollback", "t")).definition.query == FILTERED.query
    with pytest.raises(JobError, match="remembers no version 9; there are 1, 2"):
        changed(job, Amend(APP, "rollback", "t", number=9))
    with pytest.raises(JobError, match="was never changed: there is nothing to go back to"):
        changed(JOB, Amend(APP, "rollback", "t"))


@pytest.mark.parametrize(
    ("kinds", "kind", "why"),
    [
        ((), "resume", "is not paused"),
        (("pause",), "pause", "is paused; resume it first"),
        (("pause",), "reset", "is paused"),
        (("stop",), "reset", "is stopped; resume it first"),
        (("pause", "stop"), "pause", "is stopped; resume it first"),
        (("pause", "stop", "resume"), "resume", "is not paused, nor stopped"),
    ],
)
def test_what_does_not_go_now_is_said(kinds: tuple[Kind, ...], kind: Kind, why: str) -> None:
    job = JOB
    for each in kinds:
        job = changed(job, Amend(APP, each, "t"))
    with pytest.raises(JobConflictError, match=why):
        changed(job, Amend(APP, kind, "t"))


def test_a_version_names_what_asked_for_it() -> None:
    assert changed(JOB, Amend(APP, "reset", "once")).history[-1].token == "once"


def test_what_was_expected_has_to_be_so() -> None:
    assert changed(JOB, Amend(APP, "reset", "t", expected=1)).definition.version == 2
    with pytest.raises(JobConflictError, match="has version 1 now, not 3"):
        changed(JOB, Amend(APP, "reset", "t", expected=3))


@given(
    kinds=st.lists(st.sampled_from(["stop", "resume", "pause", "update", "reset", "rollback"]), max_size=12),
    keep_ms=st.integers(2, KEEP_MS_MAX),
)
@settings(max_examples=40)
def test_a_stop_changes_no_windows_and_can_be_undone_until_it_ends(kinds: list[Any], keep_ms: int) -> None:
    job, now_ms = JOB, NOW_MS
    for kind in kinds:
        now_ms += 60_000
        request = Amend(APP, kind, "t", FILTERED if kind == "update" else None, keep_ms=keep_ms)
        try:
            after = changed(job, request, now_ms)
        except JobError:
            continue
        was, new = job.history[-1], after.history[-1]
        assert JobRecord.decode(after.encode()) == after
        assert after.rests == (kind == "stop") == new.is_stopped and not after.tombstone(now_ms).rests
        assert after.ends_ms == (now_ms + keep_ms if kind == "stop" else None)
        if kind in ("stop", "resume"):
            assert (new.pao_kind, new.begins, new.definition.query) == (was.pao_kind, was.begins, was.definition.query)
            assert new.since > was.since and new.is_told == (kind == "resume")
        if kind == "stop":
            resumed = changed(after, Amend(APP, "resume", "t"), now_ms + 1)
            assert resumed.definition.query == job.definition.query and not resumed.rests
            ended = after.tombstone(now_ms + keep_ms)
            assert ended.ends_ms == after.ends_ms and after.tombstone(now_ms).ends_ms is None
            with pytest.raises(JobConflictError, match="is ending for good"):
                next_version(ended, compiled(after), Amend(APP, "resume", "t"), now_ms)
        job = after


@pytest.mark.parametrize("kind", ["update", "rollback", "reset", "pause", "resume", "stop"])
def test_only_the_first_part_of_a_job_is_changed_and_the_others_have_an_interval_more_to_follow(kind: Kind) -> None:
    definition = replace(DEFINITION, options=replace(DEFINITION.options, trees=4))
    job = changed(replace(JOB, definition=definition), Amend(APP, "pause" if kind == "resume" else "reset", "t"))
    assert job.history[-1].since == 1_000 + AHEAD_PARTED > 1_000 + AHEAD
    assert changed(job, Amend(APP, kind, "t", replace(FILTERED, options=definition.options))).history[-1].what == kind
    part = replace(job, definition=replace(job.definition, part=3), versions=())
    with pytest.raises(JobError, match="shop/job#3 is a part of a job, and goes on as the first one does"):
        next_version(part, compiled(part), Amend(part.definition.app_id, kind, "t"), NOW_MS)


def test_a_job_of_one_side_of_a_split_cannot_rest() -> None:
    job = replace(JOB, definition=replace(DEFINITION, options=replace(DEFINITION.options, availability="partial")))
    with pytest.raises(JobError, match="so it can only be stopped for good"):
        next_version(job, Versions.of(plan_of()), Amend(APP, "stop", "t"), NOW_MS)


@pytest.mark.parametrize("wrong", [{"what": "stop"}, {"what": "pause", "ends_ms": 5}, {"what": "stop", "ends_ms": -1}])
def test_what_is_no_stop_is_refused(wrong: dict[str, Any]) -> None:
    sound = msgspec.to_builtins(changed(JOB, Amend(APP, "pause", "t")).history[-1])
    msgspec.convert(sound, Version)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**sound, **wrong}, Version)


@pytest.mark.parametrize(("option", "value"), [("availability", "partial"), ("application", "best")])
def test_some_jobs_cannot_be_changed(option: str, value: object) -> None:
    job = replace(JOB, definition=replace(DEFINITION, options=replace(DEFINITION.options, **{option: value})))
    with pytest.raises(JobError, match="can"):
        next_version(job, Versions.of(plan_of()), Amend(APP, "reset", "t"), NOW_MS)
    other = replace(DEFINITION, name="other")
    with pytest.raises(JobError, match="a definition of the same job"):
        changed(JOB, Amend(APP, "update", "t", other))
    with pytest.raises(JobSpecError):
        changed(JOB, Amend(APP, "update", "t", replace(DEFINITION, query="SELECT nonsense FROM clicks")))


def test_the_oldest_versions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JOB
    for _ in range(VERSIONS_MAX + 3):
        job = changed(job, Amend(APP, "reset", "t"))
    assert [version.number for version in job.versions] == list(range(5, VERSIONS_MAX + 5))
    monkeypatch.setattr(version_decision, "VERSIONS_BYTES_MAX", 2_000)
    job = changed(job, Amend(APP, "reset", "t"))
    assert 1 <= len(job.versions) < 10 and job.versions[-1].number == VERSIONS_MAX + 5


def test_the_history_says_which_events_each_version_counts() -> None:
    job = changed(JOB, Amend(APP, "update", "t", FILTERED))
    first, second = describe_history(job, compiled(job))
    boundary_ms = (1_000 + AHEAD) * 2_000
    assert (first["version"], first["what"], first["since_ms"], first["until_ms"]) == (1, "publish", None, boundary_ms)
    assert (second["since_ms"], second["begins_ms"], second["until_ms"]) == (boundary_ms, boundary_ms, None)


def test_the_history_has_the_functions_of_each_version_with_their_sources() -> None:
    function = OwnFunction(name="f", args=("STRING",), returns="STRING", strict=True, source="def f(x): ...", key="k")
    job = replace(JOB, definition=replace(JOB.definition, functions=(function,)))
    job = changed(job, Amend(APP, "update", "t", FILTERED))
    first, second = describe_history(job, compiled(job))
    assert (msgspec.convert(first["functions"], list[OwnFunction]), list(second["functions"])) == ([function], [])


def test_the_history_says_where_a_job_on_a_source_that_was_being_read_begins() -> None:
    job = changed(changed(JOB, Amend(APP, "pause", "t")), Amend(APP, "resume", "t"), NOW_MS + 60_000)
    first, paused, resumed = describe_history(job, compiled(job), 1_000 + AHEAD + 1)
    begins_ms = (1_000 + AHEAD + 1) * 2_000
    assert (first["since_ms"], first["begins_ms"], first["until_ms"]) == (begins_ms, begins_ms, begins_ms)
    assert (paused["since_ms"], paused["begins_ms"], paused["until_ms"]) == (begins_ms, begins_ms, resumed["since_ms"])
    assert resumed["since_ms"] > begins_ms == resumed["begins_ms"]


@given(
    committed=st.integers(990, 1_060),
    windows=st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=5),
)
def test_intervals_of_another_length_take_over_where_both_begin(committed: int, windows: list[str]) -> None:
    job, now_ms = JOB, NOW_MS
    for window in windows:
        before, old = job.history[-1], compiled(job).newest.plan.numbering
        query = WINDOWED.replace("'4 seconds', '2 seconds'", window)
        job = changed(job, Amend(APP, "update", "t", replace(DEFINITION, query=query)), now_ms, committed)
        version, numbering = job.history[-1], compiled(job).newest.plan.numbering
        at_ms = numbering.start_ms(version.since)
        assert at_ms == old.start_ms(version.since) and at_ms % numbering.length_ms == at_ms % old.length_ms == 0
        assert version.since > committed and version.since >= before.since
        # No later than needed: it is the first such time.
        needed = max(old.number(now_ms) + AHEAD, before.since, committed + 1)
        assert at_ms - math.lcm(numbering.length_ms, old.length_ms) < old.start_ms(needed)
        if numbering.length_ms != old.length_ms:
            assert version.pao_kind == version.number and version.begins == version.since, "windows begin anew"
        now_ms, committed = now_ms + 1_700, max(committed, version.since - 1)
    assert JobRecord.decode(job.encode()) == job
    rows = describe_history(job, compiled(job))
    assert [row["until_ms"] for row in rows[:-1]] == [row["since_ms"] for row in rows[1:]]
    if len({row["interval_ms"] for row in rows}) > 1:
        assert len({version.definition.shift for version in job.history}) > 1


def test_a_rollback_brings_earlier_intervals_back() -> None:
    finer = replace(DEFINITION, query=WINDOWED.replace("'4 seconds', '2 seconds'", "'3 seconds'"))
    job = changed(changed(JOB, Amend(APP, "update", "t", finer)), Amend(APP, "rollback", "t"), NOW_MS + 60_000)
    first, second, third = (plan.interval_ms for _, plan in compiled(job).all)
    assert (first, second, third) == (2_000, 3_000, 2_000)
    assert job.history[-1].pao_kind == 3, "windows begin anew, for they lie in intervals of two lengths"


@pytest.mark.parametrize("wrong", ["number", "order", "definition", "begins"])
def test_a_peers_record_is_held_to_the_rules(wrong: str) -> None:
    first, second = changed(JOB, Amend(APP, "reset", "t")).history
    versions = {
        "number": (first, replace(second, number=5)),
        "order": (second, first),
        "definition": (first, replace(second, definition=replace(second.definition, name="other"))),
        "begins": (first, replace(second, begins=second.since + 1)),
    }[wrong]
    with pytest.raises(ValueError, match="version"):
        replace(JOB, definition=second.definition, versions=versions)


@given(st.integers(0, ENDS_MS_MAX))
def test_whenever_a_stop_ends_people_are_told(ends_ms: int) -> None:
    version = Version(number=2, definition=replace(DEFINITION, version=2), what="stop", since=5, ends_ms=ends_ms)
    job = replace(JOB, definition=version.definition, versions=(version,))
    text = str(stopped_error(job))
    assert text.startswith("job shop/job is stopped; until ") and "`elf resume shop/job`" in text
    ended = job.tombstone(max(ends_ms, 8))
    assert told_time(ends_ms) in text and told_time(ends_ms) in why_ended(ended.ends_ms)
    assert "for good" in why_ended(replace(ended, versions=()).ends_ms)
