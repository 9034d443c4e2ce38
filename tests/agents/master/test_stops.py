"""A stopped job is taken up again for a day: nothing is counted twice or while it was stopped, then all is freed."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from typing import Any

import pytest

from elf.agents.errors import JobConflictError, StoppedError, UnavailableError, UnknownJobError
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import SourceConfig
from elf.overlay.ids import app_id
from tests.agents.publications import test_change
from tests.agents.publications.test_control import configure
from tests.agents.shop import Shop, change, counted_through, running
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, time_s

pytestmark = pytest.mark.virtual

APP = app_id("sold", "shop")
INTERVAL_MS = 200
JOB = test_change.JOB.replace("'500 milliseconds'", f"'{INTERVAL_MS} milliseconds'")


async def publish(agents: list[Agent], text: str = JOB, trees: int = 1) -> None:
    await Service(agents[0]).publish(f"{text}trees = {trees}\n", "sold.toml", None, None)
    await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))


async def counting(agents: list[Agent], shop: Shop) -> int:
    """Sell until an interval is counted; returns the first whole one that was sold in."""
    shop.open()
    first_ms = now_ms() // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS
    await counted_through(agents[0], first_ms + 2 * INTERVAL_MS)
    return first_ms


async def result(agent: Agent, start_ms: int) -> dict[str, Any]:
    window = f"{start_ms}/{start_ms + INTERVAL_MS}"
    found: dict[str, Any] = await Service(agent).result("shop", "sold", window, None, None)
    return found


async def eventually(agent: Agent, start_ms: int) -> dict[str, Any]:
    """Ask until there is a master that answers."""
    deadline = time_s() + 60
    while True:
        try:
            return await result(agent, start_ms)
        except UnavailableError:
            assert time_s() < deadline
            await asyncio.sleep(0.1)


async def held(shop: Shop, agents: list[Agent], first_ms: int, *, is_whole: bool = True) -> set[str]:
    """Hold every window since then to what was sold; returns what made the versions that counted any.

    `is_whole`: no agent was away.
    """
    last_ms = max(line["ts"] for line in shop.sold)
    await counted_through(agents[0], last_ms + INTERVAL_MS)
    history = (await Service(agents[-1]).job("shop", "sold"))["versions"]
    seen = set()
    for start_ms in range(first_ms, last_ms, INTERVAL_MS):
        found = await shop.settled(agents[-1], start_ms, history)
        what = next(row["what"] for row in history if row["version"] == found["version"])
        if what == "stop":
            assert found["rows"] == [] and found["completeness"]["void"]
            assert found["completeness"]["status"] == "final_incomplete"
        elif is_whole:
            assert found["completeness"]["status"] in ("final", "revised"), (start_ms, found)
        elif found["completeness"]["status"] == "final_incomplete":
            assert found["completeness"]["missing"] or found["completeness"]["gaps"]
            continue
        seen.add(what)
    return seen


@pytest.mark.parametrize("trees", [1, 3])
async def test_a_stopped_job_goes_on_with_its_windows_when_it_is_resumed(tmp_path: pathlib.Path, trees: int) -> None:
    async with running(tmp_path, 3) as agents:
        shop = Shop(agents, INTERVAL_MS)
        await publish(agents, trees=trees)
        first_ms = await counting(agents, shop)
        before = await result(agents[1], first_ms)
        told = await Service(agents[1]).stop("shop", "sold")
        assert told["state"] == "stopped" and 0 < told["ends_ms"] - now_ms() <= 86_400_000
        await wait_until(lambda: all(agent.catalogue.running()[0].rests for agent in agents))
        for agent in agents:
            with pytest.raises(StoppedError, match="`elf resume shop/sold` takes it up again with its windows"):
                await result(agent, first_ms)
            (row,) = await Service(agent).jobs()
            assert (row["state"], row["ends_ms"]) == ("stopped", told["ends_ms"])
        with pytest.raises(StoppedError):
            await anext(Service(agents[2]).results("shop", "sold"))
        with pytest.raises(JobConflictError, match="is stopped; resume it first"):
            await change(agents[0], "reset")
        job = await Service(agents[2]).job("shop", "sold")
        assert (job["state"], job["versions"][-1]["what"]) == ("stopped", "stop")
        # What is counted comes to its end; then no agent seals anything more for the job.
        stop_ms = job["versions"][-1]["since_ms"]
        await counted_through(agents[0], stop_ms)
        await asyncio.sleep(3 * INTERVAL_MS / 1000)
        assert (await Service(agents[0]).job("shop", "sold"))["through_ms"] == stop_ms
        made = await change(agents[2], "resume")
        assert made["what"] == "resume" and made["since_ms"] > stop_ms
        after = await result(agents[0], first_ms)
        assert (after["rows"], after["version"]) == (before["rows"], 1)
        assert after["completeness"]["status"] in ("final", "revised") or after["completeness"]["missing"]
        await counted_through(agents[0], made["since_ms"] + 2 * INTERVAL_MS)
        await shop.close()
        assert await held(shop, agents, first_ms) == {"publish", "stop", "resume"}
        with pytest.raises(JobConflictError, match="is not paused, nor stopped"):
            await change(agents[0], "resume")


@pytest.mark.parametrize("trees", [1, 3])
async def test_the_agent_of_the_master_dies_while_the_job_is_stopped(tmp_path: pathlib.Path, trees: int) -> None:
    async with running(tmp_path, 4) as agents:
        shop = Shop(agents, INTERVAL_MS)
        await publish(agents, trees=trees)
        await wait_until(lambda: all(len(agent.copies.all()) == trees for agent in agents))
        first_ms = await counting(agents, shop)
        await shop.close()
        before = await result(agents[1], first_ms)
        await Service(agents[1]).stop("shop", "sold")
        gone = next(agent for agent in agents if APP in agent.masters)
        config = gone.config
        agents.remove(gone)
        await gone.stop()
        deadline = time_s() + 60
        while True:
            with contextlib.suppress(UnavailableError):
                with pytest.raises(StoppedError):
                    await result(agents[0], first_ms)
                break
            assert time_s() < deadline
            await asyncio.sleep(0.1)
        made = await change(agents[0], "resume")
        after = await eventually(agents[1], first_ms)
        assert (after["rows"], after["version"]) == (before["rows"], 1)
        back = Agent(config)
        try:
            await back.start()
            agents.append(back)
            await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
            shop.open()
            await counted_through(agents[0], max(made["since_ms"], now_ms()) + 3 * INTERVAL_MS)
            await shop.close()
            assert {"publish", "resume"} <= await held(shop, agents, first_ms, is_whole=False)
        finally:
            agents.remove(back)
            await back.stop()


def kept(agent: Agent) -> int:
    """How many rows of its disk an agent keeps for the job, whatever they are."""
    tables = ("workers", "snapshots", "masters", "history", "root_groups", "group_entries", "held_snapshots")
    with agent.database.transaction() as sql:
        return sum(int(sql.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in tables)


@pytest.mark.parametrize("trees", [1, 3])
async def test_what_is_not_resumed_in_time_is_freed_and_asking_says_so(tmp_path: pathlib.Path, trees: int) -> None:
    async with running(tmp_path, 3) as agents:
        shop = Shop(agents, INTERVAL_MS)
        await publish(agents, trees=trees)
        first_ms = await counting(agents, shop)
        await shop.close()
        assert all(kept(agent) for agent in agents)
        master = next(agent for agent in agents if APP in agent.masters)
        told = await Service(agents[1]).stop("shop", "sold", 1_500)
        # Whoever follows it ends it.
        agents.remove(master)
        await master.stop()
        await wait_until(lambda: not any(agent.catalogue.running() for agent in agents), 60)
        assert now_ms() >= told["ends_ms"]
        await wait_until(lambda: all(agent.copies.get(APP) is None for agent in agents), 60)
        await wait_until(lambda: not any(kept(agent) for agent in agents), 60)
        for agent in agents:
            with pytest.raises(UnknownJobError, match="was stopped, and could have been resumed until"):
                await result(agent, first_ms)
            with pytest.raises(UnknownJobError, match="publish it anew"):
                await change(agent, "resume")
            assert await Service(agent).jobs() == []


@pytest.mark.parametrize("trees", [1, 3])
async def test_a_job_that_is_published_under_the_name_of_a_stopped_one_takes_its_place(
    tmp_path: pathlib.Path, trees: int
) -> None:
    async with running(tmp_path, 3) as agents:
        shop = Shop(agents, INTERVAL_MS)
        await publish(agents, trees=trees)
        first_ms = await counting(agents, shop)
        old = agents[0].catalogue.running()[0].tree
        await Service(agents[0]).stop("shop", "sold")
        with pytest.raises(Exception, match="no column 'nonsense'"):
            await publish(agents, JOB.replace("product, count", "nonsense, count"))
        assert (await Service(agents[1]).job("shop", "sold"))["state"] == "stopped", "nothing is lost for a mistake"
        await publish(agents, JOB.replace("kind = 'a'", "kind = 'b'"), trees)
        await wait_until(lambda: all(agent.catalogue.running()[0].tree != old for agent in agents))
        again_ms = now_ms() // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS
        await counted_through(agents[1], again_ms + INTERVAL_MS)
        await shop.close()
        job = await Service(agents[1]).job("shop", "sold")
        assert (job["state"], [row["what"] for row in job["versions"]]) == ("running", ["publish"])
        assert (await result(agents[2], first_ms))["rows"] == [], "the windows of before went with the old job"
        with pytest.raises(JobConflictError, match="is not paused, nor stopped"):
            await change(agents[0], "resume")


async def test_a_job_that_answers_for_one_side_of_a_split_is_stopped_for_good(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as agents:
        await publish(agents, JOB + 'availability = "partial"\n')
        with pytest.raises(Exception, match="can only be stopped for good"):
            await Service(agents[0]).stop("shop", "sold", 60_000)
        told = await Service(agents[0]).stop("shop", "sold")
        assert (told["state"], told["ends_ms"]) == ("ended", None)
        with pytest.raises(UnknownJobError, match="it was stopped for good; publish it anew"):
            await Service(agents[0]).job("shop", "sold")


async def test_an_agent_without_the_source_is_told_of_stopped_and_ended_jobs(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 2) as agents:
        config = configure(tmp_path, "other", free_port(), [agents[0].config.overlay.bind])
        config.sources.clear()
        config.sources["clicks"] = SourceConfig(columns={"product": "STRING"})
        other = Agent(config)
        await other.start()
        try:
            await wait_until(lambda: len(other.node.contacts()) == 2)
            await publish(agents)
            await Service(other).stop("shop", "sold")
            with pytest.raises(StoppedError):
                await result(other, 0)
            assert (await change(other, "resume"))["what"] == "resume"
            await Service(other).stop("shop", "sold", 0)
            with pytest.raises(UnknownJobError, match="it was stopped for good"):
                await result(other, 0)
        finally:
            await other.stop()
