"""A job belongs to its creator's key: others are refused at the API, at its master, and in its records."""

from __future__ import annotations

import asyncio
import pathlib

import pytest
from msgspec.structs import replace

from elf.agents.errors import ElfError, JobError, NotCreatorError
from elf.agents.http.agent_service import Service
from elf.agents.jobs.orders import Order
from elf.agents.master.commands import End, Rename
from elf.agents.wire.catalogue import job_record
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.placement import Install
from elf.agents.wire.questions import Stop
from elf.agents.wire.records import JOB_KEY, JobRecord
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.shares import Adopt
from elf.agents.wire.sources import Spread
from elf.client.asynchronous import AsyncClient
from elf.overlay.contract import Record
from elf.overlay.ids import source_id
from tests.agents.owned import THEIRS, cluster
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '2 seconds')"
[options]
trees = 2
"""
OTHER = "SELECT product, count(*) AS m FROM orders GROUP BY product, window(ts, '2 seconds')"


async def published(client: AsyncClient, agents: list[Agent]) -> JobRecord:
    await client.publish(text=JOB)
    await wait_until(lambda: all(len(agent.catalogue.running()) == 2 for agent in agents))
    return agents[0].catalogue.running()[0]


async def refused(client: AsyncClient) -> None:
    for attempt in (
        client.publish(text=JOB.replace("AS n", "AS m")),
        client.publish(text=JOB),
        client.update("shop/sold", query=OTHER),
        client.pause("shop/sold"),
        client.reset("shop/sold"),
        client.resume("shop/sold"),
        client.leap("shop/sold"),
        client.retire("a1", "shop/sold"),
        client.stop("shop/sold"),
        client.stop("shop/sold", "0s"),
    ):
        with pytest.raises(NotCreatorError, match="belongs to the creator's key"):
            await attempt


async def test_only_the_creator_changes_and_ends_a_job(tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]) -> None:
    async with (
        cluster(tmp_path) as agents,
        client_of(agents[0], creator_key=keys["mine"]) as mine,
        client_of(agents[1], creator_key=keys["theirs"]) as theirs,
        client_of(agents[2]) as nobody,
    ):
        job = await published(mine, agents)
        for client in (theirs, nobody):
            await refused(client)
        assert await mine.publish(text=JOB)  # the same again changes nothing
        assert {agent.catalogue.job(job.definition.app_id).instance for agent in agents} == {job.instance}
        assert (await mine.update("shop/sold", query=OTHER, options={"interval": "1s"})).version == 2
        assert (await mine.rollback("shop/sold")).what == "rollback"
        for change in (mine.pause, mine.resume, mine.reset):
            await change("shop/sold")
        assert (await mine.stop("shop/sold", "2h")).ends_ms is not None
        for client in (theirs, nobody):
            with pytest.raises(NotCreatorError):
                await client.resume("shop/sold")
            with pytest.raises(NotCreatorError):
                await client.publish(text=JOB)
        await mine.resume("shop/sold")
        assert (await mine.update("shop/sold", text=JOB)).version == 9
        await mine.stop("shop/sold", "0s")
        await wait_until(lambda: not any(agent.catalogue.running() for agent in agents))
        # Its name is free.
        await published(theirs, agents)
        with pytest.raises(NotCreatorError):
            await mine.stop("shop/sold")


async def test_a_stopped_job_gives_way_to_its_creators_next_one_and_ends_by_itself(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path, 2) as agents, client_of(agents[0], creator_key=keys["mine"]) as mine:
        job = await published(mine, agents)
        await mine.stop("shop/sold", "2h")
        await mine.publish(text=JOB.replace("trees = 2", "trees = 1"))
        await wait_until(lambda: all(len(agent.catalogue.running()) == 1 for agent in agents))
        assert agents[0].catalogue.running()[0].publication != job.publication
        await mine.stop("shop/sold", "30s")
        await wait_until(lambda: not any(agent.catalogue.running() for agent in agents), 120)


def forgeries(job: JobRecord) -> list[JobRecord]:
    """What a member may say of somebody else's job."""
    later = replace(job, stamp_ms=job.stamp_ms + 1)
    assert job.published is not None
    own = Order(
        key="", what="end", job="shop/sold", publication=job.publication, made_ms=job.published.made_ms + 1
    ).signed(THEIRS)
    return [
        job.tombstone(0),
        job.tombstone(0, own),
        job.tombstone(0, replace(own, key=job.owner)),
        job.tombstone(0, job.published),
        replace(later, published=None),
        replace(later, published=None, instance="0123"),
        replace(later, published=replace(job.published, publication="0123"), instance="0123"),
        replace(later, published=None, instance="0123", stopped=True),
        replace(later, definition=replace(job.definition, query=OTHER)),
    ]


async def test_a_member_that_forges_records_stops_nobody_elses_job(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path) as agents, client_of(agents[0], creator_key=keys["mine"]) as mine:
        job = await published(mine, agents)
        rogue = next(agent for agent in agents if not agent.masters.has_tree(job.tree))
        others = [agent for agent in agents if agent is not rogue]
        tree = source_id("orders")
        for number, forged in enumerate(forgeries(job)):
            forged = replace(forged, stamp_ms=job.stamp_ms + 1 + number)
            # What the rogue's own catalogue would refuse its node is told past it.
            rogue.node.add_record(tree, job_record(forged))
            rogue.node.add_record(job.tree, Record(JOB_KEY, forged.stamp_ms, forged.encode()))
        rogue.node.add_record(tree, Record("job/shop/sold", job.stamp_ms + 99, b"\xc1"))
        app, first = job.definition.app_id, job.history[0]
        paused = replace(first, number=2, what="pause", since=5, definition=replace(job.definition, version=2))
        lie = job_record(replace(job.tombstone(0), stamp_ms=job.stamp_ms + 50))
        for request in (
            Stop(app),
            Amend(app, "pause", "0123"),
            Amend(app, "stop", "0124", why="it fails"),
            Leap(app),
            Spread("orders", lie.key, lie.version, lie.body),
        ):
            with pytest.raises(NotCreatorError):
                value_of(await rogue.node.ask(job.master, encode(request)))
        other = agents[0].catalogue.running()[1]
        with pytest.raises(ElfError):
            adopt = Adopt(other.definition.app_id, job.publication, (paused,))
            value_of(await rogue.node.ask(other.master, encode(adopt)))
        await asyncio.sleep(70)  # longer than it takes to compare
        for agent in others:
            assert [agent.catalogue.job(each.definition.app_id) for each in (job, other)] == [job, other]
            assert agent.membership.refused[NotCreatorError]
            assert "not taken" in Service(agent).notes()[0]
        assert (await mine.job("shop/sold"))["state"] == "running"
        assert (await mine.pause("shop/sold")).version == 2


async def test_a_leader_that_is_taken_over_ends_nobody_elses_job(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path) as agents, client_of(agents[0], creator_key=keys["mine"]) as mine:
        job = await published(mine, agents)
        app = job.definition.app_id
        master = next(agent for agent in agents if agent.masters.has_tree(job.tree))
        for command in (Rename(job.tombstone(now_ms())), End(job.tombstone(now_ms()))):
            await master.copies.propose(app, command)
        assert not any(copy.job.stopped for agent in agents for copy in agent.copies.all())
        assert (await mine.job("shop/sold"))["state"] == "running"


async def test_jobs_without_a_key_are_everybodys_who_may_use_the_api(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with (
        cluster(tmp_path, 2) as agents,
        client_of(agents[0]) as nobody,
        client_of(agents[1], creator_key=keys["mine"]) as mine,
    ):
        await published(nobody, agents)
        await mine.pause("shop/sold")
        await mine.stop("shop/sold", "0s")
        await wait_until(lambda: not any(agent.catalogue.running() for agent in agents))


async def test_a_member_that_says_it_is_the_master_of_a_job_is_overruled_by_its_root_group(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path) as agents, client_of(agents[0], creator_key=keys["mine"]) as mine:
        job = await published(mine, agents)
        app = job.definition.app_id
        rogue = next(agent for agent in agents if not agent.masters.has_tree(job.tree))
        me = rogue.node.contact
        for _ in range(3):
            known = agents[0].catalogue.job(app)
            assert known is not None
            lie = replace(known, master_host=me.host, master_port=me.port, stamp_ms=known.stamp_ms + 60_000)
            rogue.node.add_record(source_id("orders"), job_record(lie))
            rogue.node.add_record(job.tree, Record(JOB_KEY, lie.stamp_ms, lie.encode()))
            await asyncio.sleep(1)
        await wait_until(lambda: all(agent.catalogue.job(app).master == job.master for agent in agents), 10)
        assert all(agent.node.tree(job.tree).role != "joining" for agent in agents)
        assert (await mine.job("shop/sold"))["master"] == job.master.address


async def test_no_job_takes_a_stamp_that_nothing_could_follow(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path, 2) as agents, client_of(agents[0]) as nobody:
        job = await published(nobody, agents)
        last = replace(job, stamp_ms=1 << 53)
        record = job_record(last)
        for request in (Install(last, {}, job.instance), Spread("orders", record.key, record.version, record.body)):
            with pytest.raises(JobError, match="more than a day ahead"):
                value_of(await agents[1].node.ask(job.master, encode(request)))
        await nobody.stop("shop/sold", "0s")
        await wait_until(lambda: not any(agent.catalogue.running() for agent in agents))
