"""What befalls a simulated network and the machines in it, drawn from a seed.

Owns which fault comes when and how it ends: `Weather` is the network's part, whatever runs there; `Faults` is that and
the machines' part. How a machine bears it is in `machines`, the way's part in `loop` and `streams`. Every fault ends by
itself, and `heal` ends all: what then must hold is in `checkers`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elf.overlay.sim.loop import Address, SimLoop
from tests.sweep.machines import Cluster, Machine

#: How long one fault lasts at least and at most: shorter and longer than a lease, so that both sides of it are seen.
LASTS_S = (0.05, 8.0)
#: Machines that may be down at the same time, of all: the rest can still do their work.
DOWN_SHARE_MAX = 0.4
#: Least members that stay in a tree.
MEMBERS_MIN = 3


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """An interruption: nothing gets from `sources` to `targets`, nor back unless it is `one_way`."""

    sources: frozenset[Address]
    targets: frozenset[Address]
    one_way: bool

    def stops(self, source: Address, target: Address) -> bool:
        """Tell whether a datagram or frame between the two is stopped."""
        if source in self.sources and target in self.targets:
            return True
        return not self.one_way and source in self.targets and target in self.sources


class Weather:
    """The network's faults; what each returns ends it.

    Args:
        loop: the network.
        rng: decides what is cut off and how bad a storm is.
    """

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._cuts: list[Cut] = []
        self._calm = (loop.loss, loop.repeats, loop.delay_ms)

    def split(self, hosts: Sequence[Address], *, one_way: bool) -> Callable[[], None]:
        """Interrupt the ways between some of at least two hosts and the others, or in one direction only."""
        addresses = list(hosts)
        self._rng.shuffle(addresses)
        at = self._rng.randint(1, len(addresses) - 1)
        return self.interrupt(Cut(frozenset(addresses[:at]), frozenset(addresses[at:]), one_way))

    def interrupt(self, cut: Cut) -> Callable[[], None]:
        """Interrupt some ways."""
        self._cuts.append(cut)
        self._loop.cut = self._is_cut
        return lambda: self._cuts.remove(cut)

    def storm(self) -> Callable[[], None]:
        """Let datagrams get lost and come twice, and everything take its time."""
        self._loop.loss = self._rng.uniform(0, 0.3)
        self._loop.repeats = self._rng.uniform(0, 0.2)
        self._loop.delay_ms = (0.2, self._rng.uniform(1, 200))
        return self._calm_down

    def clog(self, hosts: Sequence[Address]) -> None:
        """Hold up everything on some ways; it arrives later, all at once."""
        until_s = self._loop.time() + self._rng.uniform(*LASTS_S)
        for _ in range(len(hosts)):
            source, target = self._rng.sample(hosts, 2)
            self._loop.clogged[source, target] = until_s

    def clear(self) -> None:
        """End all of it."""
        self._cuts.clear()
        self._loop.cut = None
        self._loop.clogged.clear()
        self._calm_down()

    def _calm_down(self) -> None:
        self._loop.loss, self._loop.repeats, self._loop.delay_ms = self._calm

    def _is_cut(self, source: Address, target: Address) -> bool:
        return any(cut.stops(source, target) for cut in self._cuts)


class Faults:
    """Draws faults and ends them.

    Args:
        cluster: whom they befall.
        app: a tree with a recorded root, which is a target of its own, and which members enter and leave.
        root: that root.
        seed: decides all.
    """

    def __init__(self, cluster: Cluster, app: bytes, root: Machine, seed: int) -> None:
        self.cluster = cluster
        self._app = app
        self._root = root
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._weather = Weather(cluster.loop, self.rng)
        self._tasks: set[asyncio.Task[None]] = set()

    async def rage(self, seconds: float, pace_s: float = 1.5) -> None:
        """Let a fault happen every `pace_s` or so, for a while."""
        end_s = self.cluster.loop.time() + seconds
        kinds: list[Callable[[], None]] = [
            self.crash, self.crash, self.die, self.kill_root, self.pause, self.partition, self.one_way, self.clog,
            self.storm, self.suspect, self.enter, self.leave,
        ]  # fmt: skip
        while self.cluster.loop.time() < end_s:
            kind = self.rng.choice(kinds)
            self.counts[kind.__name__] += 1
            kind()
            await asyncio.sleep(self.rng.expovariate(1 / pace_s))

    async def heal(self) -> None:
        """End every fault now; all machines are up and have joined when this returns."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._weather.clear()
        machines = self.cluster.machines
        for machine in machines:
            machine.resume()
        for machine in machines:
            machine.come_back()
        await asyncio.gather(*[machine.starting for machine in machines if machine.starting is not None])

    # ---- one fault each

    def crash(self) -> None:
        """Let a process die and start again."""
        self._fell(self._victim(), silent=False)

    def die(self) -> None:
        """Let a machine vanish without a reset, and come back."""
        self._fell(self._victim(), silent=True)

    def kill_root(self) -> None:
        """Let the recorded root die, with or without a reset, and come back."""
        self._fell(self._root, silent=self.rng.random() < 0.5)

    def suspect(self) -> None:
        """Let some machines take peers for lost that live."""
        for machine in self.rng.sample(self.cluster.up(), max(1, len(self.cluster.up()) // 3)):
            if not machine.is_paused:
                machine.suspect(self.rng.choice(self.cluster.machines))

    def pause(self) -> None:
        """Stop a process for a while."""
        machine = self._victim()
        if machine is not None and not machine.is_paused:
            machine.pause()
            self._later(machine.resume)

    def partition(self) -> None:
        """Split the network in two."""
        self._later(self._weather.split(self._addresses(), one_way=False))

    def one_way(self) -> None:
        """Interrupt the ways from some machines to the others, but not back."""
        self._later(self._weather.split(self._addresses(), one_way=True))

    def clog(self) -> None:
        """Hold up everything on some ways."""
        self._weather.clog(self._addresses())

    def storm(self) -> None:
        """Let datagrams get lost and come twice, and everything take its time."""
        self._later(self._weather.storm())

    def enter(self) -> None:
        """Let somebody become a member who is none, or no more."""
        outside = [machine for machine in self.cluster.machines if self._app not in machine.trees]
        if outside:
            self.rng.choice(outside).join_tree(self._app, member=True, root=self._root.contact)

    def leave(self) -> None:
        """Let a member stop all of whose items are counted."""
        members = [machine for machine in self.cluster.machines if self._app in machine.trees]
        able = [
            machine
            for machine in members
            if machine.is_up and not machine.is_paused and machine is not self._root and not machine.runtime.retained
        ]
        if len(members) > MEMBERS_MIN and able:
            self.rng.choice(able).leave_tree(self._app)

    # ---- inside

    def _fell(self, machine: Machine | None, *, silent: bool) -> None:
        down = sum(not each.is_up for each in self.cluster.machines)
        if machine is None or down + 1 > DOWN_SHARE_MAX * len(self.cluster.machines):
            return
        machine.crash(silent=silent)
        self._later(machine.come_back)

    def _addresses(self) -> list[Address]:
        return [machine.address for machine in self.cluster.machines]

    def _victim(self) -> Machine | None:
        up = self.cluster.up()
        return self.rng.choice(up) if up else None

    def _later(self, end: Callable[[], None]) -> None:
        async def wait_and_end() -> None:
            await asyncio.sleep(self.rng.uniform(*LASTS_S))
            end()

        task = self.cluster.loop.create_task(wait_and_end())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
