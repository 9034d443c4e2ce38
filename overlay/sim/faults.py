"""What befalls a simulated cluster: crashes, pauses, partitions, clogs and storms, drawn from a seed.

Owns which fault comes when and how it ends; how a machine bears it is in `agents`, the way's part in `loop` and
`streams`. Every fault ends by itself, and `heal` ends all: what then must hold is in `checkers`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from elf.overlay.sim.agents import Cluster, Machine
from elf.overlay.sim.loop import Address
from elf.overlay.sim.work import Work

#: How long one fault lasts at least and at most: shorter and longer than a lease, so that both sides of it are seen.
LASTS_S = (0.05, 8.0)
#: Machines that may be down at the same time, of all: the rest can still do their work.
DOWN_SHARE_MAX = 0.4


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


class Faults:
    """Draws faults and ends them.

    Args:
        cluster: whom they befall.
        seed: decides all.
        work: the job they befall, whose group's leader is a target of its own.
    """

    def __init__(self, cluster: Cluster, seed: int, work: Work) -> None:
        self.cluster = cluster
        self._work = work
        self.rng = random.Random(seed)
        self.counts: dict[str, int] = {}
        self._cuts: list[Cut] = []
        self._calm = (cluster.loop.loss, cluster.loop.repeats, cluster.loop.delay_ms)
        self._tasks: set[asyncio.Task[None]] = set()

    async def rage(self, seconds: float, pace_s: float = 1.5) -> None:
        """Let a fault happen every `pace_s` or so, for a while."""
        end_s = self.cluster.loop.time() + seconds
        kinds: list[Callable[[], None]] = [
            self.crash, self.crash, self.die, self.lose_disk, self.pause, self.partition, self.one_way, self.clog,
            self.storm, self.suspect, self.kill_leader, self.cut_off_leader, self.set_clock, *self._work.changes(),
        ]  # fmt: skip
        while self.cluster.loop.time() < end_s:
            kind = self.rng.choice(kinds)
            name = kind.__name__
            self.counts[name] = self.counts.get(name, 0) + 1
            kind()
            await asyncio.sleep(self.rng.expovariate(1 / pace_s))

    async def heal(self) -> None:
        """End every fault now; all machines are up and have joined when this returns."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cuts.clear()
        self.cluster.loop.cut = None
        self.cluster.loop.clogged.clear()
        self.cluster.loop.loss, self.cluster.loop.repeats, self.cluster.loop.delay_ms = self._calm
        machines = self.cluster.machines
        for machine in machines:
            machine.resume()
        for machine in machines:
            machine.come_back()
        await asyncio.gather(*[machine.starting for machine in machines if machine.starting is not None])

    # ---- one fault each

    def crash(self) -> None:
        """Let a process die and start again."""
        self._fell(silent=False)

    def die(self) -> None:
        """Let a machine vanish without a reset, and come back."""
        self._fell(silent=True)

    def lose_disk(self) -> None:
        """Let a machine vanish and come back with its logs only."""
        self._fell(silent=True, disk=False)

    def suspect(self) -> None:
        """Let some agents take peers for lost that live."""
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
        self._split(one_way=False)

    def one_way(self) -> None:
        """Interrupt the ways from some machines to the others, but not back."""
        self._split(one_way=True)

    def clog(self) -> None:
        """Hold up everything on some ways; it arrives later, all at once."""
        addresses = [machine.address for machine in self.cluster.machines]
        until_s = self.cluster.loop.time() + self.rng.uniform(*LASTS_S)
        for _ in range(len(addresses)):
            source, target = self.rng.sample(addresses, 2)
            self.cluster.loop.clogged[source, target] = until_s

    def storm(self) -> None:
        """Let datagrams get lost and come twice, and everything take its time."""
        loop = self.cluster.loop
        loop.loss = self.rng.uniform(0, 0.3)
        loop.repeats = self.rng.uniform(0, 0.2)
        loop.delay_ms = (0.2, self.rng.uniform(1, 200))

        def end() -> None:
            loop.loss, loop.repeats, loop.delay_ms = self._calm

        self._later(end)

    def kill_leader(self) -> None:
        """Let the job's root die, with or without a reset."""
        self._fell(silent=self.rng.random() < 0.5, machine=self._work.leader)

    def cut_off_leader(self) -> None:
        """Cut the job's root off with so few members of its group that they can decide nothing, or with nobody."""
        leader = self._work.leader
        if leader is None:
            return
        seats = [seat for seat in self._work.log.seats if seat.votes and seat.contact != leader.contact]
        few = self.rng.sample(seats, self.rng.randint(0, max(0, (len(seats) - 1) // 2)))
        apart = {leader.address, *((seat.contact.host, seat.contact.port) for seat in few)}
        self._cut(apart, {machine.address for machine in self.cluster.machines} - apart, one_way=False)

    def set_clock(self) -> None:
        """Let somebody set a machine's wall clock wrong, by up to an hour."""
        self.rng.choice(self.cluster.machines).wall_off_ms = self.rng.randint(-3_600_000, 3_600_000)

    # ---- inside

    def _fell(self, *, silent: bool, disk: bool = True, machine: Machine | None = None) -> None:
        machine = machine or self._victim()
        down = sum(not each.is_up for each in self.cluster.machines)
        if machine is None or down + 1 > DOWN_SHARE_MAX * len(self.cluster.machines):
            return
        if disk or not self._work.may_lose_disk(machine):
            machine.crash(silent=silent)
        else:
            machine.lose_disk()
        self._later(machine.come_back)

    def _split(self, *, one_way: bool) -> None:
        addresses = [machine.address for machine in self.cluster.machines]
        self.rng.shuffle(addresses)
        at = self.rng.randint(1, len(addresses) - 1)
        self._cut(addresses[:at], addresses[at:], one_way=one_way)

    def _cut(self, these: Iterable[Address], those: Iterable[Address], *, one_way: bool) -> None:
        cut = Cut(frozenset(these), frozenset(those), one_way)
        self._cuts.append(cut)
        self.cluster.loop.cut = self._is_cut
        self._later(lambda: self._cuts.remove(cut))

    def _is_cut(self, source: Address, target: Address) -> bool:
        return any(cut.stops(source, target) for cut in self._cuts)

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
