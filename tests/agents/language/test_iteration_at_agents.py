"""A job that reads its last result, on real agents: a graph's components by SQL alone, also when its master is lost."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import random

import msgspec
import networkx
import pytest
from msgspec.structs import replace

from elf.agents.errors import ElfError
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import AgentConfig, SourceConfig
from elf.agents.wire.result import Result
from tests.agents.publications import test_control
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

#: Each edge is counted in both directions, so the least name spreads over the whole component.
JOB = """
name = "components"
creator = "me"
query = '''
SELECT e.dst AS node, min(least(coalesce(r.label, e.src), e.dst)) AS label
FROM edges e LEFT JOIN last_result r ON e.src = r.node
GROUP BY e.dst, window(ts, '300 seconds', '1 second')
'''
[options]
lateness = "0s"
feedback = 100
"""


def configure(folder: pathlib.Path, name: str, port: int, join: list[str]) -> AgentConfig:
    sources = {"edges": SourceConfig(columns={"src": "STRING", "dst": "STRING"})}
    return replace(test_control.configure(folder, name, port, join), sources=sources)


async def push(agent: Agent, edges: list[tuple[str, str]]) -> None:
    at_ms = now_ms()
    both = [*edges, *((b, a) for a, b in edges)]
    lines = [msgspec.json.encode({"ts": at_ms, "src": a, "dst": b}) + b"\n" for a, b in both]
    await Service(agent).ingest("edges", b"".join(lines))


def components(edges: list[tuple[str, str]]) -> dict[str, str]:
    graph = networkx.Graph(edges)
    return {node: min(part) for part in networkx.connected_components(graph) for node in part}


async def counted(agent: Agent, nodes: set[str]) -> None:
    """Wait until the newest result has all nodes, whatever it says of them."""
    async with client_of(agent) as client, asyncio.timeout(60):
        async for result in client.watch("me/components"):
            if {row["node"] for row in result.rows} == nodes:
                return


async def converged(agent: Agent, expected: dict[str, str]) -> Result:
    """Follow the job until it has converged to what is expected."""
    async with client_of(agent) as client, asyncio.timeout(60):
        while True:
            newest = [result async for result in client.watch("me/components", until="converged")][-1]
            assert newest.converged is True
            if {row["node"]: row["label"] for row in newest.rows} == expected:
                return newest
            await asyncio.sleep(0.2)


async def test_components_converge_also_when_the_master_is_lost_in_between(tmp_path: pathlib.Path) -> None:
    rng, ports = random.Random(7), [free_port() for _ in range(3)]
    joins: list[list[str]] = [[], *[[f"127.0.0.1:{ports[0]}"]] * 2]
    # A path, which takes a window for each of its edges, beside edges at random.
    edges = [(f"p{at}", f"p{at + 1}") for at in range(4)]
    edges += [(f"n{rng.randrange(12)}", f"n{rng.randrange(12)}") for _ in range(9)]
    async with contextlib.AsyncExitStack() as stack:
        agents: list[Agent] = []
        stack.push_async_callback(stop, agents)
        for at in range(3):
            agent = Agent(configure(tmp_path, f"web{at}", ports[at], joins[at]))
            await agent.start()
            agents.append(agent)
        await wait_until(lambda: all(len(agent.catalogue.members("edges")) == 3 for agent in agents))
        await Service(agents[0]).publish(JOB, "components.toml", None, None)
        await wait_until(lambda: all(len(agent.catalogue.running()) == 1 for agent in agents))
        for agent, part in zip(agents, (edges[0::3], edges[1::3], edges[2::3]), strict=True):
            await push(agent, part)
        await counted(agents[0], {node for edge in edges for node in edge})
        app = agents[0].catalogue.running()[0].definition.app_id
        lost = next(agent for agent in agents if app in agent.masters)
        left = [agent for agent in agents if agent is not lost]
        agents.remove(lost)
        await lost.stop()
        await wait_until(lambda: any(app in agent.masters for agent in left), 60)
        found = await converged(left[0], components(edges))
        assert found.completeness.status in ("final", "final_incomplete", "revised")
        more = [("p2", "n0"), ("a", "p4")]
        await push(left[1], more)
        found = await converged(left[1], components([*edges, *more]))
        told = msgspec.json.decode(Service(left[0]).feedback("me", "components").body, type=Result)
        assert told.columns == found.columns and told.rows, "each new result comes back to every agent"
        await check_refusals(left[0])


async def stop(agents: list[Agent]) -> None:
    for agent in agents:
        await agent.stop()


async def check_refusals(agent: Agent) -> None:
    async with client_of(agent) as client:
        with pytest.raises(ElfError, match="reads its last result"):
            await client.update("me/components", options={"lateness": "1s"})
        for window in ("0/1000", "30s"):
            with pytest.raises(ElfError, match=r"own windows only|still retains"):
                await client.query("me/components", window=window)
        with pytest.raises(ElfError, match="one tree"):
            await client.publish(text=JOB.replace("feedback = 100", "trees = 2"))
