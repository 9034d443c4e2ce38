"""All parts of a job go on as its first one does: pure, at the master of a part, and with agents that hear too late."""

from __future__ import annotations

import pathlib
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobError, JobSpecError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.http.agent_service import Service
from elf.agents.jobs.parts import Part
from elf.agents.jobs.versions import VERSIONS_MAX, check_versions, compile_versions
from elf.agents.master.commands import Turn
from elf.agents.master.version_decision import next_version, with_version
from elf.agents.publications.adoption import adopt, adopted
from elf.agents.publications.notices import Notices
from elf.agents.wire.changes import Amend, Kind
from elf.agents.wire.records import JobRecord
from elf.agents.wire.request import decode_request, encode
from elf.agents.wire.shares import Adopt
from elf.overlay.contract import NEVER
from tests.agents.master.test_version_decision import DEFINITION, FILTERED
from tests.agents.publications.test_change import FEW, JOB, SUMS
from tests.agents.results.shares import record
from tests.agents.shop import INTERVAL_MS, Shop, change, counted_through, running
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms

pytestmark = pytest.mark.virtual

OPTIONS = replace(DEFINITION.options, trees=3)
FIRST = replace(record(), definition=replace(DEFINITION, options=OPTIONS))
PART = replace(record(2), definition=replace(FIRST.definition, part=2))
LENGTH_MS = 2_000
#: Its windows are made of intervals that hardly ever begin when those of the others do.
ELSEWHEN = DEFINITION.query.replace("'4 seconds', '2 seconds'", "'399999 milliseconds'")


def followed(part: JobRecord, first: JobRecord, committed: int) -> JobRecord:
    """A part after it was told of what the first one has."""
    for version in first.history:
        mine = adopted(part, version)
        if mine is not None:
            after = with_version(part, mine, committed)
            assert after is not None
            part = after
    return part


CHANGES = st.tuples(st.sampled_from(["update", "other", "rollback", "reset", "pause", "resume", "stop"]), st.booleans())


@settings(deadline=None, max_examples=60)
@given(st.lists(CHANGES, max_size=12), st.integers(0, 5))
def test_a_part_has_the_versions_of_the_first_one_from_the_same_interval_on_or_later(
    asked: list[tuple[str, bool]], lag: int
) -> None:
    first, part, at = FIRST, PART, 1_000
    for number, (kind, heard) in enumerate(asked):
        at += 1 + number % 3
        wanted = replace(FILTERED if kind == "update" else DEFINITION, options=OPTIONS)
        request = Amend(FIRST.definition.app_id, cast(Kind, "update" if kind == "other" else kind), "t", wanted)
        try:
            version = next_version(first, compile_versions(first.history), request, at * LENGTH_MS)
        except JobError:
            continue
        first = with_version(first, version, at - 1) or first
        if heard:
            part = followed(part, first, at + lag - 1)
    assert followed(part, FIRST, at) == part, "nobody goes back"
    part = followed(part, first, at + 100)
    assert followed(part, first, at + 100) == part, "twice is once"
    assert [each.number for each in part.history] == [each.number for each in first.history]
    for mine, theirs in zip(part.history, first.history, strict=True):
        assert mine.definition == replace(theirs.definition, part=2) and mine.what == theirs.what
        assert mine.since >= theirs.since and mine.begins >= theirs.begins and mine.pao_kind == theirs.pao_kind
        assert mine.ends_ms == theirs.ends_ms
    # PAOs of one kind have one schema, and the record is one that peers accept.
    compile_versions(part.history)
    check_versions(part.definition, part.versions)
    assert JobRecord.decode(part.encode()) == part


def test_a_part_that_heard_in_time_counts_from_the_same_intervals_on() -> None:
    first, part = FIRST, PART
    for number in range(VERSIONS_MAX + 5):
        request = Amend(FIRST.definition.app_id, "reset", "t")
        version = next_version(first, compile_versions(first.history), request, (1_000 + number) * LENGTH_MS)
        first = with_version(first, version, 999 + number) or first
        part = followed(part, first, 1_000 + number)
    assert [(each.since, each.begins) for each in part.history] == [(each.since, each.begins) for each in first.history]


def test_a_part_that_missed_forgotten_versions_begins_anew_with_the_oldest_that_is_known() -> None:
    first, same = FIRST, replace(FIRST.definition, options=replace(OPTIONS, lateness_ms=7))
    for number in range(VERSIONS_MAX + 5):
        kind: Kind = "reset" if number == 2 else "update"
        request = Amend(FIRST.definition.app_id, kind, "t", replace(same, version=number))
        version = next_version(first, compile_versions(first.history), request, (1_000 + number) * LENGTH_MS)
        first = with_version(first, version, NEVER) or first
    oldest = first.history[0]
    assert oldest.number > oldest.pao_kind > 0, "the reset is forgotten, what it began is not"
    part = followed(PART, first, 5_000)
    assert part.history[-1].number == first.history[-1].number
    mine = next(each for each in part.history if each.number == oldest.number)
    assert mine.pao_kind == mine.number and mine.begins == mine.since == 5_001


class FakeMasters:
    """The master of one part."""

    def __init__(self, job: JobRecord, *, moves: bool = True) -> None:
        self._job, self._moves = job, moves
        self.admits = None

    def job(self, app: bytes) -> JobRecord:
        return self._job

    async def decide(self, app: bytes, command: Turn) -> None:
        if self._moves:
            self._job = with_version(self._job, command.version, NEVER) or self._job


def told(*, publication: str = "one", query: str | None = None, **other: Any) -> Adopt:
    """What the master of the first part says after a change of it; `other`: of the definition, what it never says."""
    version = next_version(FIRST, compile_versions(FIRST.history), Amend(FIRST.definition.app_id, "reset", "t"), 10_000)
    first = with_version(FIRST, version, NEVER)
    assert first is not None
    versions = first.versions
    if query is not None:
        other["query"] = query
    versions = (*versions[:-1], replace(versions[-1], definition=replace(versions[-1].definition, **other)))
    return Adopt(PART.definition.app_id, publication, versions)


async def test_the_master_of_a_part_decides_what_it_lacks_once() -> None:
    masters = FakeMasters(PART)
    for _ in range(2):
        assert await adopt(cast(Masters, masters), told()) == 2
    assert [each.what for each in masters.job(b"").history] == ["publish", "reset"]


@pytest.mark.parametrize(
    ("request_", "job", "moves", "error", "why"),
    [
        (told(publication="two"), PART, True, UnavailableError, "of another publication"),
        (told(), FIRST, True, UnavailableError, "of another publication"),
        (told(), replace(PART, stopped=True), True, UnavailableError, "being stopped"),
        (told(), PART, False, UnavailableError, "being stopped"),
        (told(query="SELECT nonsense FROM clicks"), PART, True, JobSpecError, "nonsense"),
        (told(name="other"), PART, True, JobError, "version 2 is none of shop/job#2: a version is of another job"),
        (told(query=ELSEWHEN), PART, True, JobSpecError, "both begin together only every about 9 days 6 hours, and"),
        (told(options=replace(OPTIONS, trees=4)), PART, True, JobSpecError, "trees is 3, and would be 4"),
    ],
    ids=["publication", "first", "stopped", "overtaken", "query", "another job", "intervals", "trees"],
)
async def test_what_does_not_fit_a_part_is_refused(
    request_: Adopt, job: JobRecord, moves: bool, error: type[Exception], why: str
) -> None:
    masters = FakeMasters(job, moves=moves)
    with pytest.raises(error, match=why):
        await adopt(cast(Masters, masters), request_)
    assert masters.job(b"") == job


@pytest.mark.parametrize("made_ms", [-1, 1 << 60])
def test_a_version_of_a_time_without_a_date_is_no_message(made_ms: int) -> None:
    """The part's record would get a stamp that no agent could read any more."""
    sound = told()
    assert decode_request(encode(sound)) == sound
    with pytest.raises(msgspec.DecodeError):
        decode_request(encode(replace(sound, versions=(replace(sound.versions[-1], made_ms=made_ms),))))


async def test_windows_lack_the_rows_of_a_part_that_has_not_heard_and_say_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, deaf = Notices._tell_part, True

    async def tells(self: Notices, job: JobRecord, part: Part) -> None:
        if deaf and part.number == 1:
            raise UnavailableError("it hears nothing")
        await tell(self, job, part)

    monkeypatch.setattr(Notices, "_tell_part", tells)
    monkeypatch.setattr("elf.agents.group.leadership.TOLD_S", 0.1)
    monkeypatch.setattr("elf.agents.group.leadership.SPREAD_RETRY_S_MAX", 0.2)
    async with running(tmp_path, 3) as agents:
        shop = Shop(agents)
        await Service(agents[0]).publish(f"{JOB}trees = 2\n", "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.progress()) == 2 for agent in agents))
        shop.open()
        first_ms = now_ms() // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS
        await counted_through(agents[0], first_ms)
        made = await change(agents[1], "update", query=SUMS)
        await counted_through(agents[2], made["since_ms"] + 3 * INTERVAL_MS)
        in_between = {
            start_ms: await result(agents[0], start_ms)
            for start_ms in range(made["since_ms"], made["since_ms"] + 2 * INTERVAL_MS, INTERVAL_MS)
        }
        for found in in_between.values():
            assert (found["version"], found["completeness"]["status"]) == (made["version"], "final_incomplete")
            assert len(found["completeness"]["missing"]) == 3 == found["completeness"]["expected"]
        deaf = False
        last = await change(agents[2], "update", query=FEW)
        await counted_through(agents[2], last["since_ms"] + 2 * INTERVAL_MS)
        await shop.close()
        last_ms = max(line["ts"] for line in shop.sold)
        await counted_through(agents[0], last_ms + INTERVAL_MS)
        history = (await Service(agents[0]).job("shop", "sold"))["versions"]
        complete = set()
        for start_ms in range(first_ms, last_ms, INTERVAL_MS):
            found = await shop.settled(agents[1], start_ms, history)
            if found["completeness"]["status"] != "final_incomplete":
                complete.add(found["version"])
        assert {1, 3} <= complete
        for start_ms, before in in_between.items():
            assert (await result(agents[1], start_ms))["rows"] == before["rows"]


async def result(agent: Agent, start_ms: int) -> dict[str, Any]:
    window = f"{start_ms}/{start_ms + INTERVAL_MS}"
    found: dict[str, Any] = await Service(agent).result("shop", "sold", window, None, None)
    return found
