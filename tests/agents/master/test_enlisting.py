"""Agents that lose their disks: where the next one at the same address begins, as the master sees it."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest

from elf.agents.http.agent_service import Service
from elf.agents.master.commands import Enlisted
from elf.overlay.contract import NEVER, Commit
from elf.overlay.ids import app_id
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product"
[options]
interval = "1s"
lateness = "0s"
leap_after = "200ms"
"""
APP = app_id("sold", "shop")
ADDRESS = "127.0.0.1:9"


async def committed(agent: Agent, beyond: int) -> int:
    """Wait for a commit beyond an interval; return it."""

    def last() -> int:
        copy = agent.copies.get(APP)
        return NEVER if copy is None else copy.master.state.rollup.committed

    await wait_until(lambda: last() > beyond)
    return last()


@contextlib.asynccontextmanager
async def mastering(folder: pathlib.Path) -> AsyncIterator[Agent]:
    """Start an agent that is the master of the job and has committed."""
    agent = Agent(configure(folder, "one", free_port(), []))
    await agent.start()
    try:
        await Service(agent).publish(JOB, "sold.toml", None, None)
        await committed(agent, NEVER)
        yield agent
    finally:
        await agent.stop()


class HeldCommits:
    """Lets the master's commits stand still on their way to the disk."""

    def __init__(self, agent: Agent) -> None:
        self.held, self.entered = asyncio.Event(), asyncio.Event()
        self._commit = agent.masters.commit
        agent.masters.commit = self._slowly  # type: ignore[method-assign]

    async def _slowly(self, tree: bytes, commit: Commit) -> None:
        self.entered.set()
        await self.held.wait()
        await self._commit(tree, commit)


async def test_an_agent_lost_before_it_was_counted_leaves_what_its_predecessor_left(tmp_path: pathlib.Path) -> None:
    async with mastering(tmp_path) as agent:
        first = await agent.masters.enlist(APP, "w1", ADDRESS)
        assert first == Enlisted(ADDRESS), "nobody was there before"
        assert await agent.masters.enlist(APP, "w1", ADDRESS) == first, "asked again"
        second = await agent.masters.enlist(APP, "w2", ADDRESS)
        assert second.counted is not None, "the first may have been counted up to the commit of that moment"
        # From here on commits name the second one, whose data they lack.
        await committed(agent, second.counted + 1)
        third = await agent.masters.enlist(APP, "w3", ADDRESS)
        assert third.counted == second.counted
        assert (second.of, third.of) == (("w1",), ("w2",)), "nobody else's checkpoint may be taken over"
        assert third.missed is not None and third.missed > second.counted + 1
        copy = agent.copies.get(APP)
        assert copy is not None
        enlisted = copy.master.state.enlisted
        assert {name for name, known in enlisted.items() if known.lost} == {"w1", "w2"}


async def test_a_newcomer_waits_for_a_commit_that_may_hold_what_it_will_not_bring(tmp_path: pathlib.Path) -> None:
    async with mastering(tmp_path) as agent:
        await agent.masters.enlist(APP, "w1", ADDRESS)
        commits = HeldCommits(agent)
        await asyncio.wait_for(commits.entered.wait(), 30)
        before = await committed(agent, NEVER)
        newcomer = asyncio.create_task(agent.masters.enlist(APP, "w2", ADDRESS))
        await asyncio.sleep(0)
        assert not newcomer.done() and await committed(agent, NEVER) == before
        commits.held.set()
        entry = await asyncio.wait_for(newcomer, 30)
        assert entry.counted is not None and entry.counted > before
        assert await committed(agent, NEVER) >= entry.counted


async def test_what_a_commit_on_its_way_turns_out_to_lack_is_for_the_newcomer_to_bring(tmp_path: pathlib.Path) -> None:
    async with mastering(tmp_path) as agent:
        await agent.masters.enlist(APP, "w1", ADDRESS)
        second = await agent.masters.enlist(APP, "w2", ADDRESS)
        assert second.counted is not None
        await committed(agent, second.counted + 1)
        commits = HeldCommits(agent)
        await asyncio.wait_for(commits.entered.wait(), 30)
        newcomer = asyncio.create_task(agent.masters.enlist(APP, "w3", ADDRESS))
        await asyncio.sleep(0)
        commits.held.set()
        third = await asyncio.wait_for(newcomer, 30)
        assert third.counted == second.counted, "the second one was in no commit, nor in this one"
        assert third.missed is not None and third.missed > second.counted + 2


async def test_the_successor_of_a_retired_agent_brings_what_that_one_was_missing_with(tmp_path: pathlib.Path) -> None:
    async with mastering(tmp_path) as agent:
        await agent.masters.enlist(APP, "w1", ADDRESS)
        second = await agent.masters.enlist(APP, "w2", ADDRESS)
        assert second.counted is not None
        await committed(agent, second.counted + 1)
        await agent.masters.retire(APP, "w2")
        retired = await committed(agent, second.counted + 2)
        await committed(agent, retired + 1)
        third = await agent.masters.enlist(APP, "w3", ADDRESS)
        assert third.of == ("w2",)
        assert third.counted == second.counted, "commits after that named the second one, until it was retired"
        assert third.missed is not None and third.missed > retired
