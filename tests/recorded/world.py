"""Real agents in virtual time: their clocks and addresses are whatever a recording says, their folders are on disk."""

from __future__ import annotations

import asyncio
import contextvars
import pathlib
import random
import shutil
from collections.abc import Awaitable, Callable
from typing import TypeVar

from elf.agents.agent import Agent
from elf.agents.host.clock import Clock
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import AgentConfig
from elf.overlay.ids import Contact, parse_address
from elf.overlay.network import Network
from elf.overlay.sim.loop import AGENT, SimLoop
from elf.overlay.sim.streams import Streams
from tests.world.network import network_of

T = TypeVar("T")
#: Virtual time between two looks at a condition, each of which asks agents.
LOOK_S = 1.0


class Host:
    """One machine: an address, and the context in which everything of its agent runs."""

    def __init__(self, world: World, address: str) -> None:
        self.world, self.contact = world, Contact.at(*parse_address(address))
        self.context = contextvars.copy_context()
        self.context.run(AGENT.set, self)
        self.agent: Agent | None = None

    def network(self) -> Network:
        """Return what the node of its agent stands on."""
        wall_ms = self.world.wall_ms
        return network_of(self.world.streams, lambda _: self.contact, wall_ms, wall_ms)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something as a task of this machine."""

        async def task() -> T:
            return await work()

        return await self.world.loop.create_task(task(), context=self.context)


class World:
    """Some machines, by name, from a moment of the wall clock on."""

    def __init__(self, began_ms: int, seed: int = 1) -> None:
        self.began_ms = began_ms
        self.loop = SimLoop(seed)
        self.streams = Streams(self.loop)
        self.hosts: dict[str, Host] = {}
        self._rng = random.Random(seed)
        self._silent: list[str] = []

    def wall_ms(self) -> int:
        """Return the time of day."""
        return self.began_ms + self.loop.now_ms

    async def start(self, name: str, config: AgentConfig) -> Agent:
        """Start the agent of a machine, which has the address that the settings advertise."""
        host = self.hosts.setdefault(name, Host(self, config.overlay.advertise))
        clock, rng = Clock(self.wall_ms, lambda: self.loop.now_ms), random.Random(self._rng.getrandbits(64))
        agent = host.agent = host.context.run(Agent, config, clock, host.network(), rng)
        await host.run(agent.start)
        return agent

    async def stop(self, name: str) -> None:
        """Stop an agent in order."""
        host = self.hosts[name]
        agent, host.agent = host.agent, None
        if agent is not None:
            self.loop.resume(host)
            await host.run(agent.stop)

    def kill(self, name: str, folder: pathlib.Path, aside: pathlib.Path) -> None:
        """Let a machine fall silent for good, and copy a folder as its disk has it at that moment."""
        self._silent.append(name)
        self.loop.pause(self.hosts[name])
        shutil.copytree(folder, aside)

    async def stop_all(self) -> None:
        """Stop all agents; those that were killed, too, once nobody hears them."""
        for name in [*(name for name in self.hosts if name not in self._silent), *self._silent]:
            await self.stop(name)

    async def ask(self, name: str, question: Callable[[Service], Awaitable[T]]) -> T:
        """Ask an agent what its HTTP door would be asked."""
        host = self.hosts[name]
        assert host.agent is not None, f"{name} does not run"
        service = Service(host.agent)
        return await host.run(lambda: question(service))

    async def wait(self, condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
        """Wait for a condition, in virtual time."""
        end_s = self.loop.time() + seconds
        while not await condition():
            assert self.loop.time() < end_s, "the condition did not come true in time"
            await asyncio.sleep(LOOK_S)
