"""What is left of a stopped job of several trees is freed once one of fewer is published under its name."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from elf.agents.errors import UnavailableError
from elf.agents.group import leadership
from elf.agents.http.agent_service import Service
from elf.agents.jobs.parts import Part
from elf.agents.publications import replaced
from elf.agents.publications.end import _is_left_over
from elf.agents.publications.notices import Notices
from elf.agents.publications.replaced import first_of, is_replaced
from elf.agents.wire.records import JobRecord
from elf.overlay.ids import app_id, partition_id
from tests.agents.results.shares import record
from tests.agents.shop import change, running
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, time_s

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '500 milliseconds')"
[options]
trees = 4
"""
APPS = [partition_id(app_id("sold", "shop"), part) for part in range(4)]


async def publish(agent: Agent, trees: int) -> None:
    """Publish the job; masters that have only just changed may ask for another try."""
    deadline = time_s() + 60
    while True:
        try:
            await Service(agent).publish(JOB.replace("trees = 4", f"trees = {trees}"), "job.toml", None, None)
            return
        except UnavailableError:
            assert time_s() < deadline
            await asyncio.sleep(0.1)


def keepers(agents: Sequence[Agent], apps: Sequence[bytes]) -> list[tuple[int, int]]:
    """Which agents have which of these on their disks."""
    on_disk = [{app for app, _, _ in agent.copies._store.masters()} for agent in agents]
    return [(at, number) for at, held in enumerate(on_disk) for number, app in enumerate(apps) if app in held]


async def test_parts_that_the_new_job_lacks_are_freed_also_where_an_agent_was_away(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced, "LOOK_S", 0.05)
    async with running(tmp_path, 3) as agents:
        await publish(agents[0], 4)
        await Service(agents[0]).stop("shop", "sold")
        await wait_until(lambda: len(keepers(agents, APPS)) == 12)
        away = agents.pop()
        await away.stop()
        await wait_until(lambda: all(any(app in agent.masters for agent in agents) for app in APPS))
        await publish(agents[0], 2)
        await wait_until(lambda: not keepers(agents, APPS[2:]))
        assert [job["state"] for job in await Service(agents[1]).jobs()] == ["running"]
        back = Agent(away.config)
        await back.start()
        try:
            await wait_until(lambda: not keepers([*agents, back], APPS[2:]))
            assert not any(job.rests for agent in (*agents, back) for job in agent.masters.jobs)
        finally:
            await back.stop()


async def test_without_another_publication_all_parts_rest(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK_S", "RETRY_S", "ASK_S"):
        monkeypatch.setattr(replaced, name, 0.01)
    asked = 0
    look = replaced.Replaced._replacing

    async def count(self: Any, job: Any) -> Any:
        nonlocal asked
        asked += 1
        return await look(self, job)

    monkeypatch.setattr(replaced.Replaced, "_replacing", count)
    async with running(tmp_path, 1) as (agent,):
        await publish(agent, 4)
        await Service(agent).stop("shop", "sold")
        await wait_until(lambda: asked > 20)
        assert len(keepers([agent], APPS)) == 4 and len(agent.masters.jobs) == 4
        # A master without the source hears of nothing by itself.
        monkeypatch.setattr(agent.catalogue, "job", lambda app: None)
        await publish(agent, 1)
        await wait_until(lambda: not keepers([agent], APPS[1:]))


@pytest.mark.parametrize("trees", [2, 4])
async def test_a_part_that_never_heard_of_the_stop_is_freed_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, trees: int
) -> None:
    async def tells(self: Notices, job: JobRecord, part: Part) -> None:
        raise UnavailableError("it hears nothing")

    monkeypatch.setattr(Notices, "_tell_part", tells)
    monkeypatch.setattr(leadership, "TOLD_S", 0.1)
    monkeypatch.setattr(replaced, "LOOK_S", 0.05)
    async with running(tmp_path, 2) as agents:
        await publish(agents[0], 4)
        await wait_until(lambda: len(keepers(agents, APPS)) == 8)
        await Service(agents[0]).stop("shop", "sold")
        old = {job.tree for agent in agents for job in agent.masters.jobs if not job.rests}
        assert len(old) == 3
        again = JOB.replace("count(*)", "max(product)").replace("trees = 4", f"trees = {trees}")
        await Service(agents[1]).publish(again, "job.toml", None, None)
        await wait_until(lambda: not keepers(agents, APPS[trees:]))
        now = [job for agent in agents for job in agent.masters.jobs]
        assert len(now) == trees and len({job.publication for job in now}) == 1
        assert not old & {job.tree for job in now}


async def test_a_part_that_has_not_heard_that_its_job_was_resumed_is_kept_when_that_is_published_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, deaf = Notices._tell_part, False

    async def tells(self: Notices, job: JobRecord, part: Part) -> None:
        if deaf and part.number == 1:
            raise UnavailableError("it hears nothing")
        await tell(self, job, part)

    monkeypatch.setattr(Notices, "_tell_part", tells)
    monkeypatch.setattr(leadership, "TOLD_S", 0.1)
    async with running(tmp_path, 2) as agents:
        await publish(agents[0], 2)
        trees = {job.tree for agent in agents for job in agent.masters.jobs}
        await Service(agents[0]).stop("shop", "sold")
        await wait_until(lambda: all(job.rests for agent in agents for job in agent.masters.jobs))
        deaf = True
        await change(agents[0], "resume")
        await publish(agents[1], 2)
        deaf = False
        await wait_until(lambda: not any(job.rests for agent in agents for job in agent.masters.jobs))
        assert {job.tree for agent in agents for job in agent.masters.jobs} == trees


async def test_a_part_that_has_not_heard_that_its_job_was_resumed_does_not_end_when_its_time_is_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, deaf, asked = Notices._tell_part, False, 0
    is_over = Notices.is_over

    async def tells(self: Notices, job: JobRecord, part: Part) -> None:
        if deaf and part.number == 1:
            raise UnavailableError("it hears nothing")
        await tell(self, job, part)

    async def asks(self: Notices, job: JobRecord) -> bool:
        nonlocal asked
        asked += 1
        return await is_over(self, job)

    monkeypatch.setattr(Notices, "_tell_part", tells)
    monkeypatch.setattr(Notices, "is_over", asks)
    for name in ("TOLD_S", "SPREAD_RETRY_S_MAX", "OVER_RETRY_S"):
        monkeypatch.setattr(leadership, name, 0.1)
    async with running(tmp_path, 2) as agents:
        await publish(agents[0], 2)
        trees = {job.tree for agent in agents for job in agent.masters.jobs}
        await Service(agents[0]).stop("shop", "sold", 2_000)
        await wait_until(lambda: all(job.rests for agent in agents for job in agent.masters.jobs))
        deaf = True
        await change(agents[0], "resume")
        with pytest.raises(UnavailableError, match="part 1 of 2 of shop/sold has not heard that it was resumed"):
            await Service(agents[1]).result("shop", "sold", "latest", None, None)
        await wait_until(lambda: asked > 2)
        deaf = False
        await wait_until(lambda: not any(job.rests for agent in agents for job in agent.masters.jobs))
        assert {job.tree for agent in agents for job in agent.masters.jobs} == trees
        await Service(agents[0]).stop("shop", "sold", 1)
        await wait_until(lambda: not keepers(agents, APPS))


async def test_a_stop_that_a_part_hears_of_only_after_the_job_was_kept_for_long_enough_ends_all_parts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, is_over, deaf, answers = Notices._tell_part, Notices.is_over, True, list[bool]()

    async def tells(self: Notices, job: JobRecord, part: Part) -> None:
        if deaf and part.number == 1:
            raise UnavailableError("it hears nothing")
        await tell(self, job, part)

    async def asks(self: Notices, job: JobRecord) -> bool:
        answers.append(await is_over(self, job))
        return answers[-1]

    monkeypatch.setattr(Notices, "_tell_part", tells)
    monkeypatch.setattr(Notices, "is_over", asks)
    for name in ("TOLD_S", "SPREAD_RETRY_S_MAX", "OVER_RETRY_S"):
        monkeypatch.setattr(leadership, name, 0.1)
    async with running(tmp_path, 2) as agents:
        await publish(agents[0], 2)
        await Service(agents[0]).stop("shop", "sold", 1)
        await wait_until(lambda: len(answers) > 2)
        assert not any(answers), "the first part waits for the other one"
        deaf = False
        await wait_until(lambda: not keepers(agents, APPS))


@pytest.mark.parametrize(
    ("trees", "published_ms", "instance", "expected"),
    [
        (2, 1, "two", True),
        (3, 1, "two", False),
        (2, 1, "one", False),
        (2, -1, "two", False),
    ],
)
def test_a_part_is_replaced_by_a_later_job_that_has_no_such_part(
    trees: int, published_ms: int, instance: str, expected: bool
) -> None:
    described = {"trees": trees, "published_ms": published_ms, "backfill": {"instance": instance}}
    first = first_of(described)
    assert first is not None and is_replaced(record(2, "one"), first) is expected
    assert not any(first_of(nonsense) for nonsense in (None, {}, {**described, "trees": "x"}))


@pytest.mark.parametrize(
    ("publication", "published_ms", "rests", "expected"),
    [
        ("two", 5, False, True),
        ("two", 5, True, True),
        ("one", 5, True, False),
        ("two", -1, True, False),
    ],
    ids=["running", "resting", "the same", "a late question"],
)
def test_a_part_goes_for_one_of_a_later_publication_only(
    publication: str, published_ms: int, rests: bool, expected: bool
) -> None:
    class Masters(dict[bytes, JobRecord]):
        def job(self, app: bytes) -> JobRecord:
            return self[app]

        def rests(self, app: bytes) -> bool:
            return rests

    known = record(2, "one")
    masters: Any = Masters({known.definition.app_id: known})
    asked = msgspec.structs.replace(record(2, publication), published_ms=published_ms)
    assert _is_left_over(masters, asked) is expected
    assert not _is_left_over(masters, msgspec.structs.replace(asked, definition=record(1).definition))
    first: Any = Masters({record().definition.app_id: record()})
    assert _is_left_over(first, record(0, "two")) is rests
