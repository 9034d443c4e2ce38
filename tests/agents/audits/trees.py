"""Whole agents in virtual time whose trees are deep, and a member of one that alters what it merges."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import polars as pl

from elf.agents.http.agent_service import Service
from elf.agents.settings import config as settings
from elf.agents.settings.config import AgentConfig
from elf.agents.wire.records import JobRecord
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import pack, unpack
from elf.overlay.settings import OverlaySettings
from tests.agents.owned import config_of
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, running

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '1 seconds')"
[options]
lateness = "100ms"
leap_after = "3s"
"""
#: Alters the payload that a member made of those handed to it.
Alter = Callable[[bytes, Any], bytes]


def with_fan_in(monkeypatch: Any, children: int) -> None:
    """Let a node have few children in a tree, or few agents make no tree."""
    made = settings.overlay_settings

    def narrow(config: AgentConfig, agent_id: str) -> OverlaySettings:
        return msgspec.structs.replace(made(config, agent_id), fan_in_max=children)

    monkeypatch.setattr("elf.agents.agent.overlay_settings", narrow)


@contextlib.asynccontextmanager
async def deep(folder: pathlib.Path, count: int, audit: str) -> AsyncIterator[tuple[list[Agent], JobRecord]]:
    """Run agents of one source, and a job whose tree has settled."""
    ports = [free_port() for _ in range(count)]
    configs = [config_of(folder, index, ports, {}) for index in range(count)]
    audited = [
        msgspec.structs.replace(each, overlay=msgspec.structs.replace(each.overlay, audit=audit)) for each in configs
    ]
    async with running(audited) as agents:
        await Service(agents[0]).publish(JOB, "sold.toml", None, None)
        await wait_until(lambda: all(each.catalogue.running() for each in agents))
        job = agents[0].catalogue.running()[0]
        await wait_until(lambda: all(each.node.tree(job.tree).role in ("member", "root") for each in agents))
        await asyncio.sleep(20.0)
        yield agents, job


def root_of(agents: Sequence[Agent], job: JobRecord) -> Agent:
    return next(each for each in agents if each.node.tree(job.tree).role == "root")


def levels(agents: Sequence[Agent], job: JobRecord) -> dict[str, int]:
    """Return how far below the root each agent hangs, by address."""
    parents = {each.node.contact.address: each.node.tree(job.tree).parent for each in agents}

    def level(address: str) -> int:
        parent = parents[address]
        return 0 if parent is None else 1 + level(parent.address)

    return {address: level(address) for address in parents}


def inner(agents: Sequence[Agent], job: JobRecord, level: int) -> Agent:
    """Return a member of some level that merges others' data."""
    known = levels(agents, job)
    found = [each for each in agents if known[each.node.contact.address] == level and each.node.tree(job.tree).children]
    return max(found, key=lambda each: len(each.node.tree(job.tree).children))


def corrupt(agent: Agent, alter: Alter, when: Callable[[], bool] = lambda: True) -> None:
    """Let a member alter what it merges."""
    honest = agent.merge

    def merge(app: bytes, payloads: Sequence[bytes]) -> bytes:
        merged = honest(app, payloads)
        return alter(merged, agent.catalogue.versions(app)) if when() else merged

    agent.merge = merge  # type: ignore[method-assign]


def one_more(payload: bytes, versions: Any) -> bytes:
    """Count one more of each key."""
    notes, paos = unpack(payload, versions)
    parts = [
        (kind, frame.with_columns(pl.col(name) + 1 for name in frame.columns if name.startswith("a0")))
        for kind, frame in paos.parts
    ]
    altered = pack(notes, Paos(parts))
    assert altered is not None and (altered != payload or not paos.height)
    return altered


class Feed:
    """Pushes events to all agents, some a second."""

    def __init__(self, agents: Sequence[Agent], seed: int = 1) -> None:
        #: Start of a window -> its events.
        self.pushed: Counter[int] = Counter()
        self._agents = agents
        self._rng = random.Random(seed)

    async def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            for agent in self._agents:
                rows: list[dict[str, Any]] = [{"ts": now_ms(), "product": self._rng.choice("abc")} for _ in range(2)]
                with contextlib.suppress(Exception):
                    await Service(agent).ingest("orders", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
                    self.pushed.update(row["ts"] // 1_000 * 1_000 for row in rows)
            await asyncio.sleep(0.5)
