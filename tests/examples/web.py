"""Three web servers of an example, in this process: agents that know each other, and their HTTP doors."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from elf.agents.agent import Agent
from elf.agents.http.agent_service import Service
from elf.agents.http.app import make_app, serve
from elf.agents.settings.config import SourceConfig
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.ports import free_port

SERVERS = 3


@contextlib.asynccontextmanager
async def web_servers(
    folder: pathlib.Path, sources: Sequence[str], columns: Mapping[str, str]
) -> AsyncIterator[tuple[list[Agent], list[str]]]:
    """Start agents with the same sources, to which events are pushed; yields them and the URLs of their APIs.

    Args:
        folder: for their data.
        sources: names.
        columns: of all sources, with their types.
    """
    ports = [free_port() for _ in range(SERVERS)]
    declared = {name: SourceConfig(columns=dict(columns)) for name in sources}
    async with contextlib.AsyncExitStack() as stack:
        agents, urls = list[Agent](), list[str]()
        for at, port in enumerate(ports):
            join = [f"127.0.0.1:{ports[0]}"] if at else []
            agent = Agent(msgspec.structs.replace(configure(folder, f"web{at}", port, join), sources=declared))
            await agent.start()
            stack.push_async_callback(agent.stop)
            app = make_app(Service(agent), token=None, request_bytes_max=1 << 20)
            urls.append(await stack.enter_async_context(serve(app, "127.0.0.1:0")))
            agents.append(agent)
        await wait_until(
            lambda: all(len(agent.catalogue.members(name)) == SERVERS for agent in agents for name in sources)
        )
        yield agents, urls
