"""A shop of several agents in this process, which sells all the time, for tests of jobs that run on them."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import pathlib
import random
from typing import Any

import msgspec
import pytest

from elf.agents.http.agent_service import Service
from elf.agents.publications.change import Wanted
from elf.agents.settings.config import SourceConfig
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, time_s

#: Length of its jobs' intervals, mostly.
INTERVAL_MS = 500


class Shop:
    """Agents that sell all the time; of a job with intervals of so many ms."""

    def __init__(self, agents: list[Agent], interval_ms: int = INTERVAL_MS) -> None:
        self.agents, self.sold, self.interval_ms = agents, list[dict[str, Any]](), interval_ms
        self.rng = random.Random(1)
        self._selling: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to sell."""
        self._selling = asyncio.create_task(self._sell(asyncio.current_task()))

    async def close(self) -> None:
        """Sell no more, once what is being sold is safe with its agent."""
        selling, self._selling = self._selling, None
        if selling is not None:
            await selling

    async def _sell(self, seller: asyncio.Task[Any] | None) -> None:
        while self._selling is not None and seller is not None and not seller.done():
            await asyncio.sleep(0.05)
            for agent in self.agents:
                at_ms = now_ms()
                lines = [
                    {"ts": at_ms, "product": self.rng.choice("xyz"), "kind": kind, "cents": self.rng.randint(1, 3)}
                    for kind in "ab"
                ]
                self.sold += lines
                await Service(agent).ingest("orders", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def expected(self, start_ms: int, version: dict[str, Any]) -> dict[str, int]:
        """What was sold in an interval of a version, as that counts it."""
        kind, counts = ("a", True) if "'a'" in version["query"] else ("b", False)
        found: collections.Counter[str] = collections.Counter()
        for line in self.sold:
            if line["kind"] == kind and start_ms <= line["ts"] < start_ms + version["interval_ms"]:
                found[line["product"]] += 1 if counts else line["cents"]
        return {product: n for product, n in found.items() if "HAVING" not in version["query"] or n > 5}

    async def settled(
        self, agent: Agent, start_ms: int, history: list[dict[str, Any]], interval_ms: int | None = None
    ) -> dict[str, Any]:
        """Return an interval's result once it is what was sold, as far as it claims to be: some events come late."""
        end_ms, deadline = start_ms + (interval_ms or self.interval_ms), time_s() + 60
        window = f"{start_ms}/{end_ms}"
        while True:
            result: dict[str, Any] = await Service(agent).result("shop", "sold", window, None, None)
            version = next(row for row in history if row["version"] == result["version"])
            assert (version["since_ms"] or 0) <= start_ms < (version["until_ms"] or 1 << 60)
            rows = {row["product"]: row["n"] for row in result["rows"]}
            expected = {} if version["what"] in ("pause", "stop") else self.expected(start_ms, version)
            assert all(n <= expected.get(product, 0) for product, n in rows.items()), f"too much: {result}, {expected}"
            if rows == expected or result["completeness"]["status"] == "final_incomplete":
                return result
            if time_s() > deadline:
                pytest.fail(f"{result} is not {expected}; {version}")
            await asyncio.sleep(0.1)


async def change(agent: Agent, kind: str, **wanted: Any) -> dict[str, Any]:
    made: dict[str, Any] = await Service(agent).change("shop", "sold", Wanted(change=kind, **wanted))  # type: ignore[arg-type]
    return made


async def through_ms(agent: Agent) -> int:
    return int((await Service(agent).job("shop", "sold"))["through_ms"] or 0)


async def counted_through(agent: Agent, at_ms: int) -> None:
    deadline = time_s() + 60
    while await through_ms(agent) < at_ms:
        assert time_s() < deadline
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path, count: int, lease_ms: int = 2_000) -> Any:
    ports = [free_port() for _ in range(count)]
    joins: list[list[str]] = [[], *[[f"127.0.0.1:{ports[0]}"]] * (count - 1)]
    agents: list[Agent] = []

    async def stop(agent: Agent) -> None:
        if agent in agents:
            await agent.stop()

    async with contextlib.AsyncExitStack() as stack:
        for at in range(count):
            config = configure(folder, f"web{at}", ports[at], joins[at])
            overlay = msgspec.structs.replace(config.overlay, lease_ms=lease_ms)
            config = msgspec.structs.replace(config, overlay=overlay)
            config.sources["orders"] = SourceConfig(columns={"product": "STRING", "kind": "STRING", "cents": "BIGINT"})
            agent = Agent(config)
            await agent.start()
            stack.push_async_callback(stop, agent)
            agents.append(agent)
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == count for agent in agents))
        yield agents
