"""What tests in virtual time say in place of the machine's own: agents, their ports, the time of day."""

from __future__ import annotations

from elf.agents import agent
from elf.agents.settings.config import AgentConfig
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
