"""Agents in this process with applications of a test's own, as if these were installed."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from elf.agents.extensions import installed_applications
from elf.agents.extensions.application_declaration import Application
from elf.agents.http.agent_service import Service
from elf.agents.language.installed.entry_points import Found
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, running, time_s

#: Published by `creator`, with an application.
JOB = """
name = "{name}"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product ORDER BY n DESC, product"
[options]
interval = "500ms"
lateness = "0s"
application = "{application}"
"""


def have(monkeypatch: pytest.MonkeyPatch, **applications: type[Application]) -> None:
    """Let applications be installed, and none but these."""
    monkeypatch.setattr(installed_applications, "_installed", Found(applications, {}, {}))


@contextlib.asynccontextmanager
async def agents_of(folder: pathlib.Path, count: int) -> AsyncIterator[list[Agent]]:
    """Start agents that know each other; those that are in the list at the end are stopped."""
    ports = [free_port() for _ in range(count)]
    joins = [[f"127.0.0.1:{ports[0]}"] if at else [] for at in range(count)]
    async with running(configure(folder, f"web{at}", ports[at], joins[at]) for at in range(count)) as agents:
        yield agents


async def publish(agents: list[Agent], application: str, name: str = "sold") -> None:
    """Publish a job with an application, and wait until all agents know it."""
    await Service(agents[0]).publish(JOB.format(name=name, application=application), "job.toml", None, None)
    key = f"shop/{name}"
    await wait_until(lambda: all(key in [j.definition.key for j in a.catalogue.running()] for a in agents))


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait for a condition that takes asking somebody; fail with a deadline."""
    end_s = time_s() + seconds
    while True:
        if await condition():
            return
        assert time_s() < end_s, "the condition did not come true in time"
        await asyncio.sleep(0.01)  # who is asked may answer without ever waiting


def master_of(agents: list[Agent]) -> Agent:
    """Return the agent that is the master of the only job."""
    (master,) = [agent for agent in agents if agent.masters.jobs]
    return master


async def sell(agent: Agent, *products: str) -> None:
    """Push orders of this moment."""
    lines = [{"ts": now_ms(), "product": product} for product in products]
    await Service(agent).ingest("orders", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
