"""What an agent makes of the answers of all the agents it knows, and who they are."""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import pathlib

import pytest
from msgspec.structs import replace

from elf.agents.errors import UnavailableError, UnknownJobError
from elf.agents.http.agent_service import Service
from elf.agents.results.inquiry import newest
from elf.agents.settings.config import AgentConfig
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port

pytestmark = pytest.mark.virtual

AGENTS = 9


def row(name: str, master: str, published_ms: int, version: int = 1, state: str = "running") -> dict[str, object]:
    job = {"creator": "shop", "name": name, "app_id": name, "master": master, "published_ms": published_ms}
    return {**job, "version": version, "state": state}


def test_of_two_publications_of_a_job_the_newer_is_listed_whoever_answers_first() -> None:
    """An agent that still named the master of before the stop hid the running job from a query."""
    old, new, other = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.2:4250", 2), row("best", "10.0.0.3:4250", 0)
    for answers in itertools.permutations([[old], [new, other], [other, old], []]):
        assert newest(answers) == [other, new]


def test_a_job_is_listed_as_it_was_changed_last_whoever_answers_first() -> None:
    running, stopped = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.1:4250", 1, 2, "stopped")
    ended = {**stopped, "state": "ended"}
    for answers in itertools.permutations([[running], [stopped], [running]]):
        assert newest(answers) == [stopped]
    for answers in itertools.permutations([[running], [stopped], [ended]]):
        assert newest(answers) == [ended]


def test_what_is_wrong_with_a_job_is_told_whoever_says_it() -> None:
    running, stopped = row("top", "10.0.0.1:4250", 1), row("top", "10.0.0.1:4250", 1, 2, "stopped")
    troubled, before = {**running, "trouble": "it ticks"}, {**row("top", "10.0.0.1:4250", 0), "trouble": "long ago"}
    for answers in itertools.permutations([[running], [troubled], [stopped], [before]]):
        assert newest(answers) == [{**stopped, "trouble": "it ticks"}]


async def test_who_has_met_nobody_yet_does_not_say_that_there_is_no_such_job(tmp_path: pathlib.Path) -> None:
    """An agent that was just started again would be believed: who asks it for a running job would give it up."""
    ports = [free_port() for _ in range(2)]
    alone = Agent(configure(tmp_path, "alone", ports[0], [f"127.0.0.1:{ports[1]}"]))
    other = Agent(configure(tmp_path, "other", ports[1], []))
    async with contextlib.AsyncExitStack() as stack:
        await alone.start()
        stack.push_async_callback(alone.stop)
        for ask in (Service(alone).job("shop", "top"), Service(alone).result("shop", "top", "latest", None, None)):
            with pytest.raises(UnavailableError, match="has not met the others yet, and knows no job 'shop/top'"):
                await ask
        await other.start()
        stack.push_async_callback(other.stop)
        await wait_until(lambda: alone.neighbours.entering.done)
        with pytest.raises(UnknownJobError):
            await Service(alone).job("shop", "top")


async def test_members_are_listed_that_are_no_contacts(tmp_path: pathlib.Path) -> None:
    """Of a large cluster no routing table holds everyone; the source's tree has told of the others."""
    ports = [free_port() for _ in range(AGENTS)]
    agents = [Agent(of_few_contacts(tmp_path, number, ports)) for number in range(AGENTS)]
    async with contextlib.AsyncExitStack() as stack:
        for agent in agents:
            await agent.start()
            stack.push_async_callback(agent.stop)
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == AGENTS for agent in agents))
        assert min(len(agent.node.contacts()) for agent in agents) < AGENTS - 1, "or this test shows nothing"
        for agent in agents:
            found = await Service(agent).members()
            assert [row["address"] for row in found if row["is_self"]] == [agent.node.contact.address]
            assert {row["name"] for row in found} == {f"web{number}" for number in range(AGENTS)}
            assert {row["release"] for row in found} == {importlib.metadata.version("elf-stream")}


def of_few_contacts(folder: pathlib.Path, number: int, ports: list[int]) -> AgentConfig:
    config = configure(folder, f"web{number}", ports[number], [f"127.0.0.1:{ports[0]}"] if number else [])
    return replace(config, overlay=replace(config.overlay, k=2))
