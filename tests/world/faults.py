"""What befalls the World's hosts, drawn from a seed: every kind of fault that a machine, a disk or a network has.

Owns which fault comes when and how it ends; how a host bears it is in `world`, what agents must do about it in
`checkers`. Every fault ends by itself, and `heal` ends all.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from elf.agents.errors import ElfError
from tests.sweep.faults import Weather
from tests.world.truth import Truth
from tests.world.world import Host, UnansweredError, World

#: How long one fault lasts: shorter and longer than a lease, and than a job waits for a straggler.
LASTS_S = (0.05, 9.0)
#: Faults come so often, in seconds.
PACE_S = 2.0
#: A slow disk takes so long for each piece of work at most.
SLOW_S = (0.05, 0.6)
#: A clock is set wrong by up to so much, either way: by less than agents follow at once, and by more.
STEP_MS = 20_000


class Faults:
    """Draws faults and ends them.

    Args:
        world: whom they befall.
        truth: is told of what agents cannot hide: lost disks, clocks that were set.
        seed: decides all.
        kinds: names of the faults that may come, of `KINDS`.
    """

    #: Every kind of fault; crashes are the most common in life, too.
    KINDS: tuple[str, ...] = (
        "crash", "crash", "die", "restart", "kill_leader", "lose_disk", "pause", "pause_leader", "partition",
        "one_way", "storm", "fill_disk", "slow_disk", "set_clock", "rename_log", "copy_log",
    )  # fmt: skip

    def __init__(self, world: World, truth: Truth, seed: int, kinds: Iterable[str] | None = None) -> None:
        self.world, self.truth = world, truth
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._kinds = [kind for kind in self.KINDS if kinds is None or kind in kinds]
        self._weather = Weather(world.loop, self.rng)
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def rage(self, seconds: float) -> None:
        """Let a fault happen every now and then, for a while."""
        until_s = self.world.loop.time() + seconds
        while self.world.loop.time() < until_s:
            await asyncio.sleep(self.rng.expovariate(1 / PACE_S))
            if not self._kinds:
                continue
            kind = self.rng.choice(self._kinds)
            if getattr(self, kind)():
                self.counts[kind] += 1

    async def heal(self) -> None:
        """End every fault now; all agents are up when this returns."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._weather.clear()
        for host in self.world.hosts:
            host.resume()
            if host.service is None:
                host.crash()  # nobody waits any more for its start, or its end
            host.disk.is_full, host.slow_s = False, 0.0
            if host.off_ms:
                host.set_clock(0)
        await asyncio.gather(*(self._bring_back(host) for host in self.world.hosts if not host.is_gone))

    # ---- one fault each; returns whether it came

    def crash(self) -> bool:
        """Kill an agent, which is started again."""
        return self._fell(self._victim(), lambda host: host.crash())

    def die(self) -> bool:
        """Let a machine fail without a reset, and come back."""
        return self._fell(self._victim(), lambda host: host.crash(silent=True))

    def restart(self) -> bool:
        """Stop an agent as an operator does, and start it again."""
        host = self._victim()
        if host is None or not self._may_fall():
            return False

        async def stop() -> None:
            try:
                await host.stop()
            except (UnansweredError, AssertionError):
                return  # it was killed meanwhile
            await asyncio.sleep(self.rng.uniform(*LASTS_S))
            await self._bring_back(host)

        self._beside(stop())
        return True

    def kill_leader(self) -> bool:
        """Kill an agent that leads a job."""
        return self._fell(self._leader(), lambda host: host.crash(silent=self.rng.random() < 0.5))

    def lose_disk(self) -> bool:
        """Let a machine fail with its disk, once, so that a majority of every group keeps theirs; a new one comes."""
        host = self._victim()
        if host is None or self.counts["lose_disk"]:
            return False

        def lose(host: Host) -> None:
            host.lose_disk()
            self.truth.lose(host.name, host.wall_ms())

        return self._fell(host, lose)

    def pause(self) -> bool:
        """Stop a process for a while."""
        return self._pause(self._victim())

    def pause_leader(self) -> bool:
        """Stop the process that leads a job for a while."""
        return self._pause(self._leader())

    def partition(self) -> bool:
        """Split the network in two."""
        return self._split(one_way=False)

    def one_way(self) -> bool:
        """Interrupt the ways from some hosts to the others, but not back."""
        return self._split(one_way=True)

    def storm(self) -> bool:
        """Let datagrams get lost and come twice, and everything take its time."""
        self._later(self._weather.storm())
        return True

    def fill_disk(self) -> bool:
        """Let a disk be full for a while."""
        host = self.rng.choice(self.world.hosts)
        host.disk.is_full = True
        self._later(lambda: setattr(host.disk, "is_full", False))
        return True

    def slow_disk(self) -> bool:
        """Let a disk take its time."""
        host = self.rng.choice(self.world.hosts)
        host.slow_s = self.rng.uniform(*SLOW_S)
        self._later(lambda: setattr(host, "slow_s", 0.0))
        return True

    def set_clock(self) -> bool:
        """Let somebody set a machine's clock wrong; most of the others are right."""
        host = self.rng.choice(self.world.hosts)
        wrong = [each for each in self.world.hosts if each.off_ms and each is not host]
        if 2 * (len(wrong) + 1) >= len(self.world.hosts):
            return False
        self.truth.doubtful.add(host.name)
        host.set_clock(self.rng.randint(-STEP_MS, STEP_MS))
        self._later(lambda: host.set_clock(0))
        return True

    def rename_log(self) -> bool:
        """Rotate a web server's log by its name; more than one while nobody looks may count a gap too many."""
        host = self.rng.choice(self.world.hosts)
        if host not in self.world.up():
            self.truth.doubtful.add(host.name)
        return host.log.rename()

    def copy_log(self) -> bool:
        """Rotate a web server's log by a copy, which always counts a gap: lines may come between copy and cut."""
        host = self.rng.choice(self.world.hosts)
        self.truth.doubtful.add(host.name)
        return host.log.copy()

    # ---- inside

    def _victim(self) -> Host | None:
        up = self.world.up()
        return self.rng.choice(up) if up else None

    def _leader(self) -> Host | None:
        leaders = [host for host in self.world.up() if host.agent is not None and host.agent.masters.jobs]
        return self.rng.choice(leaders) if leaders else None

    def _may_fall(self) -> bool:
        there = [host for host in self.world.hosts if host.starts and not host.is_gone]
        down = sum(host.service is None for host in there)
        return 2 * (down + 1) <= len(there)

    def _fell(self, host: Host | None, fall: Callable[[Host], None]) -> bool:
        if host is None or not self._may_fall():
            return False
        fall(host)
        self._beside(self._come_back(host))
        return True

    async def _come_back(self, host: Host) -> None:
        await asyncio.sleep(self.rng.uniform(*LASTS_S))
        await self._bring_back(host)

    async def _bring_back(self, host: Host) -> None:
        """Start an agent, again and again if it falls meanwhile or its disk does not let it."""
        while host.life is None and not host.is_gone:
            try:
                await host.start()
            except (ElfError, OSError, sqlite3.Error, UnansweredError):
                host.crash()
                await asyncio.sleep(0.5)

    def _pause(self, host: Host | None) -> bool:
        if host is None:
            return False
        host.pause()
        self._later(host.resume)
        return True

    def _split(self, *, one_way: bool) -> bool:
        addresses = [host.address for host in self.world.hosts]
        if len(addresses) < 2:
            return False
        self._later(self._weather.split(addresses, one_way=one_way))
        return True

    def _later(self, end: Callable[[], None]) -> None:
        async def wait_and_end() -> None:
            await asyncio.sleep(self.rng.uniform(*LASTS_S))
            end()

        self._beside(wait_and_end())

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.world.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
