"""What tests in virtual time say in place of the machine's own: agents, their ports, the time of day."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable

from elf.agents import agent
from elf.agents.settings.config import AgentConfig
from tests.overlay.cluster import wait_until
from tests.virtual.loop import running_loop


class Agent(agent.Agent):
    """A shipped agent whose clock, network and randomness are the running loop's."""

    def __init__(self, config: AgentConfig) -> None:
        loop = running_loop()
        super().__init__(config, loop.clock(), loop.network(), loop.new_rng())


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody has."""
    return running_loop().free_port()


def now_ms() -> int:
    """Return the time of day."""
    return running_loop().wall_ms()


def time_s() -> float:
    """Return the seconds that the test has taken, to set deadlines by."""
    return running_loop().time()


@contextlib.asynccontextmanager
async def running(configs: Iterable[AgentConfig], source: str = "orders") -> AsyncIterator[list[Agent]]:
    """Run agents of one source, from when they know each other; others may have taken their places at the end."""
    agents = [Agent(config) for config in configs]
    try:
        for each in agents:
            await each.start()
        await wait_until(lambda: all(len(each.catalogue.members(source)) == len(agents) for each in agents))
        yield agents
    finally:
        for each in agents:
            await each.stop()
