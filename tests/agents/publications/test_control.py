"""What a tree's root says outlives the agents: positions and entries come back from their stores."""

from __future__ import annotations

import pathlib

import pytest

from elf.agents.http.agent_service import Service
from elf.agents.settings.config import (
    AgentConfig,
    AgentSection,
    ApiSection,
    ArchiveSection,
    OverlaySection,
    SourceConfig,
)
from elf.agents.store.controls import Controls
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port

pytestmark = pytest.mark.virtual

JOB = 'name = "sold"\ncreator = "shop"\nquery = "SELECT product, count(*) AS n FROM orders GROUP BY product"\n'


def configure(folder: pathlib.Path, name: str, port: int, join: list[str]) -> AgentConfig:
    return AgentConfig(
        agent=AgentSection(name=name, data=str(folder / name)),
        overlay=OverlaySection(bind=f"127.0.0.1:{port}", join=join),
        api=ApiSection(bind="127.0.0.1:0"),
        archive=ArchiveSection(enabled=False),
        sources={"orders": SourceConfig(columns={"product": "STRING"})},
    )


def shown(agent: Agent) -> bool:
    text = Service(agent).metrics().decode()
    mark = agent.node.control_mark(agent.catalogue.running()[0].tree)
    return f'elf_control_position{{job="shop/sold"}} {float(mark.position)}' in text


async def test_control_positions_survive_restarts_of_root_and_member(tmp_path: pathlib.Path) -> None:
    ports = [free_port(), free_port()]
    configs = [
        configure(tmp_path, "one", ports[0], []),
        configure(tmp_path, "two", ports[1], [f"127.0.0.1:{ports[0]}"]),
    ]
    agents = [Agent(config) for config in configs]
    try:
        for agent in agents:
            await agent.start()
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 2 for agent in agents))
        await Service(agents[0]).publish(JOB, "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.catalogue.running()) == 1 for agent in agents))
        job = agents[0].catalogue.running()[0]

        def position(agent: Agent) -> int:
            return agent.node.control_mark(job.tree).position

        async def wait_for_all(told: int) -> None:
            await wait_until(lambda: all(position(agent) == told for agent in agents))

        def is_root(agent: Agent) -> bool:
            return agent.masters.has_tree(job.tree)

        root = next(index for index, agent in enumerate(agents) if is_root(agent))
        for turn, restarted in enumerate((None, 1 - root, root)):
            if restarted is not None:
                await agents[restarted].stop()
                agents[restarted] = Agent(configs[restarted])
                await agents[restarted].start()
                await wait_for_all(turn)
            await wait_until(lambda: is_root(agents[root]))
            assert agents[root].node.multicast(job.tree, b"entry") == turn + 1
            await wait_for_all(turn + 1)
        await wait_until(lambda: all(shown(agent) for agent in agents))
        described = await Service(agents[1 - root]).job("shop", "sold")
        assert described["control"] == 3
        await Service(agents[1 - root]).stop("shop", "sold", 0)
        await wait_until(lambda: all(Controls(agent.database).state(job.tree) is None for agent in agents))
    finally:
        for agent in agents:
            await agent.stop()
