"""Hosts with shipped agents on them, in virtual time: started, asked, killed, paused, their disks lost or full.

Owns what a machine is (an address, a data folder, a web server's log, a clock that somebody may set, a disk that may be
slow or full) and what a client of an agent's door sees of it. Decides nothing about when what befalls whom: that is
`faults`.
"""

from __future__ import annotations

import asyncio
import contextvars
import pathlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from elf.agents.agent import Agent
from elf.agents.audits.findings import Findings
from elf.agents.host.clock import Clock
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import AgentConfig, AgentSection, ArchiveSection, OverlaySection, SourceConfig
from elf.overlay.network import Network
from elf.overlay.sim.links import SimLinks
from elf.overlay.sim.loop import AGENT
from elf.overlay.sim.machines import EPOCH_MS, numbered_contact
from elf.overlay.sim.streams import Streams
from tests.world.disk import FullDisk
from tests.world.loop import Life, WorldLoop
from tests.world.network import network_of
from tests.world.truth import LOGGED, PUSHED
from tests.world.weblog import WebLog

T = TypeVar("T")
COLUMNS = {"host": "STRING", "number": "BIGINT"}
#: How long the work of a thread takes on a disk that is all right, in virtual seconds.
DISK_S = (0.0, 0.004)


class UnansweredError(Exception):
    """An agent is down, fell meanwhile, or did not answer in time."""


class Process(Life):
    """A life of an agent, on a host."""

    def __init__(self, host: Host, number: int) -> None:
        super().__init__(f"{host.name}/{number}")
        self.host = host
        self.rng = random.Random(host.world.rng.getrandbits(64))
        self.context = contextvars.copy_context()
        self.context.run(AGENT.set, self)
        self.links: SimLinks | None = None
        #: Which agent ran, once it was made.
        self.agent: Agent | None = None

    def disk_s(self) -> float:
        """Return how long the next work in a thread takes."""
        return self.host.slow_s * self.rng.random() + self.rng.uniform(*DISK_S)

    def network(self) -> Network:
        """Return what its overlay node stands on."""
        host = self.host
        return network_of(host.world.streams, lambda _: host.contact, host.up_ms, host.wall_ms, self._keep)

    def _keep(self, links: SimLinks) -> None:
        self.links = links


class Host:
    """One machine; see `World`."""

    def __init__(self, world: World, index: int, folder: pathlib.Path) -> None:
        self.world, self.index, self.folder = world, index, folder
        self.name, self.contact = f"web{index}", numbered_contact(index)
        #: How far its clock is off always, and how far more since somebody set it, in ms.
        self.skew_ms = self.off_ms = 0
        #: How much longer its disk takes at most while it is slow, in s.
        self.slow_s = 0.0
        self.disk = FullDisk()
        #: What its web server writes, on a disk of its own.
        self.log = WebLog(folder.with_name(f"{folder.name}.logs") / "access.log")
        #: What people have made of its agent's settings since.
        self.edit: Callable[[AgentConfig], AgentConfig] = lambda config: config
        #: Whether its agent keeps an archive.
        self.is_archived = False
        self._bound = (EPOCH_MS, 0)
        self.life: Process | None = None
        self.service: Service | None = None
        self.is_paused = False
        self.starts = self.disks_lost = 0
        #: Taken out of service for good.
        self.is_gone = False
        #: Of an agent that is to be retired: who that is.
        self.agent_id = ""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.contact.host, self.contact.port

    @property
    def is_up(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.life is not None

    @property
    def agent(self) -> Agent | None:
        """The agent that runs here."""
        return None if self.life is None else self.life.agent

    def wall_ms(self) -> int:
        """Return the machine's time of day."""
        return EPOCH_MS + self.world.loop.now_ms + self.skew_ms + self.off_ms

    def set_clock(self, off_ms: int) -> None:
        """Set the machine's clock, so far from where it was at first."""
        self.shown_ms_max()
        self.off_ms = off_ms
        self.shown_ms_max()

    def shown_ms_max(self) -> int:
        """Return what its agent takes the time for at most: set back, the agent's clock goes on at half its pace."""
        bound_ms, at_ms = self._bound
        now_ms = self.world.loop.now_ms
        self._bound = max(self.wall_ms(), bound_ms + (now_ms - at_ms) // 2 + 1), now_ms
        return self._bound[0]

    def up_ms(self) -> int:
        """Return a time that nobody sets."""
        return self.world.loop.now_ms

    def config(self) -> AgentConfig:
        """Return the settings of its agent."""
        return self.edit(self.world.configure(self))

    # ---- a life

    async def start(self) -> None:
        """Start an agent and wait until it has; UnansweredError if it fell meanwhile."""
        assert self.life is None
        self.starts += 1
        life = self.life = Process(self, self.starts)
        await self._do(life, self._start(life), seconds=60.0)

    async def _start(self, life: Process) -> None:
        agent = life.agent = Agent(self.config(), Clock(self.wall_ms, self.up_ms), life.network(), life.rng)
        agent.node.settings = msgspec.structs.replace(agent.node.settings, fan_in_max=self.world.fan_in_max)
        self.disk.guard(agent)
        await agent.start()
        for intake in agent.intakes.values():
            self.disk.guard_spool(intake.push)
        self.service = Service(agent)

    async def stop(self) -> None:
        """Stop its agent as an operator does."""
        life, service = self.life, self.service
        assert life is not None and life.agent is not None and service is not None
        self.service = None
        await self._do(life, life.agent.stop(), seconds=60.0)
        self._end(life, silent=False)

    def crash(self, *, silent: bool = False) -> None:
        """Kill its agent; `silent`: the machine fails, so that not even resets go out."""
        if self.life is not None:
            self._end(self.life, silent=silent)

    def lose_disk(self) -> None:
        """Let the machine fail, with all that is on its disk."""
        self.crash(silent=True)
        self.disks_lost += 1
        if self.folder.exists():
            # Set aside, not removed: the numbers of its files must not be given to others.
            self.folder.rename(self.folder.with_name(f"{self.folder.name}.lost-{self.disks_lost}"))

    def _end(self, life: Process, *, silent: bool) -> None:
        self.resume()
        self.world.loop.kill(life)
        self.world.ended.append(life)
        self.life = self.service = None
        if life.links is not None:
            life.links.crash(silent=silent)
        self.world.loop.sockets.pop(self.address, None)
        if silent:
            self.world.streams.up.discard(self.address)
        if life.agent is not None:
            self.disk.abandon(life.agent)

    def pause(self) -> None:
        """Stop the process as SIGSTOP does."""
        if self.life is not None and not self.is_paused:
            self.is_paused = True
            self.world.loop.pause(self.life)

    def resume(self) -> None:
        """Let it go on."""
        if self.life is not None and self.is_paused:
            self.is_paused = False
            self.world.loop.resume(self.life)

    # ---- its door

    async def ask(self, question: Callable[[Service], Awaitable[T]], seconds: float = 10.0) -> T:
        """Ask the agent something, as a client does; raises UnansweredError, and what the agent answers so."""
        if self.life is None or self.service is None:
            raise UnansweredError(f"{self.name} is down")
        return await self._do(self.life, question(self.service), seconds)

    async def _do(self, life: Process, work: Awaitable[T], seconds: float) -> T:
        async def run() -> T:
            return await work

        task = self.world.loop.create_task(run(), context=life.context)
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.add_done_callback(lambda each: None if each.cancelled() else each.exception())
            raise UnansweredError(f"{self.name} did not answer within {seconds} s")
        return task.result()


class World:
    """All hosts, and the network between them; everything random comes from the loop's seed.

    Args:
        loop: virtual time.
        folder: where the hosts' data folders are.
        agents: how many hosts there are; none is started.
    """

    def __init__(self, loop: WorldLoop, folder: pathlib.Path, agents: int) -> None:
        self.loop, self.streams = loop, Streams(loop)
        self.rng = random.Random(loop.rng.getrandbits(64))
        #: Processes that are no more.
        self.ended: list[Process] = []
        self.hosts = [Host(self, index, folder / f"web{index}") for index in range(agents)]
        #: How many children a node of a tree has at most: with few, some merge what others hand them.
        self.fan_in_max = 16

    def configure(self, host: Host) -> AgentConfig:
        """Return the settings of a host's agent, which joins by way of the next two."""
        count = len(self.hosts)
        near = {(host.index + 1) % count: None, (host.index + 2) % count: None}
        join = [self.hosts[at].contact.address for at in near if at != host.index]
        return AgentConfig(
            agent=AgentSection(data=str(host.folder), name=host.name),
            overlay=OverlaySection(bind="127.0.0.1:0", join=join, audit="100 %"),
            archive=ArchiveSection(enabled=host.is_archived),
            sources={
                PUSHED: SourceConfig(columns=COLUMNS),
                LOGGED: SourceConfig(path=str(host.log.path), columns=COLUMNS),
            },
        )

    def up(self) -> list[Host]:
        """Return the hosts with a process that has started and is not paused."""
        return [host for host in self.hosts if host.service is not None and not host.is_paused]

    async def start(self) -> None:
        """Start all agents."""
        await asyncio.gather(*(host.start() for host in self.hosts))

    def audits(self) -> Iterator[tuple[Host, Findings]]:
        """Yield what audits have found, of all agents in all their lives."""
        lives = [*self.ended, *(host.life for host in self.hosts if host.life is not None)]
        for life in lives:
            if life.agent is not None:
                yield life.host, life.agent.sources.auditor.findings

    async def wait(self, condition: Callable[[], bool], seconds: float, what: str, step_s: float = 0.1) -> None:
        """Let virtual time pass until a condition holds; raises TimeoutError if it does not come true in time."""
        until_s = self.loop.time() + seconds
        while not condition():
            if self.loop.time() > until_s:
                raise TimeoutError(f"{what}: not within {seconds} virtual seconds")
            await asyncio.sleep(step_s)

    async def close(self) -> None:
        """Stop all agents, and let nothing of those that were killed outlast the run."""
        for host in self.hosts:
            host.resume()
            if host.life is not None and host.service is not None:
                await host.stop()
            else:
                host.crash()
        await self.loop.bury()
        for life in self.ended:
            for intake in life.agent.intakes.values() if life.agent is not None else ():
                intake.push.close()
                intake.pump.tail.close()
