"""Machines that fall: they crash, stand still, lose each other and come back with what is on their disks.

Owns how a machine bears each fault; who is befallen and when is in `faults`, what must then still hold in `checkers`.
How a cluster grows is `elf.overlay.sim.machines`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from elf.overlay.ids import Contact
from elf.overlay.sim import machines
from elf.overlay.sim.loop import SimLoop
from tests.sweep.runtime import Runtime

#: Agents that a machine is configured to join through.
SEEDS = 4


class Machine(machines.Machine):
    """One machine: its address, its clock, its disk (the runtime) and, while it is up, its node."""

    cluster: Cluster
    runtime: Runtime

    def __init__(self, cluster: Cluster, index: int, skew_ms: int) -> None:
        super().__init__(cluster, index, skew_ms)
        self.runtime = Runtime(self.name, cluster.disk)
        self.starting: asyncio.Task[None] | None = None
        self.is_paused = False

    @property
    def is_starting(self) -> bool:
        """Whether a process has been started that has not joined yet."""
        return self.starting is not None and not self.starting.done()

    def _enter(self, app: bytes) -> None:
        node, runtime, (is_member, root) = self.node, self.runtime, self.trees[app]
        if node is None:
            return
        state = runtime.state if root == self.contact else None
        control = runtime.control.get(app)
        self.call(node.join_tree, app, member=is_member, root=root, state=state, control=control)
        if root is not None and is_member:
            for through in sorted(runtime.snapshots):
                self.call(runtime.hand_over, node, app, through)

    def leave_tree(self, app: bytes) -> None:
        """Leave a tree for good."""
        del self.trees[app]
        if self.node is not None:
            self.call(self.node.leave_tree, app)

    def start(self, seeds: Sequence[Contact]) -> asyncio.Task[None]:
        """Start a process: join by way of some agents, then enter the trees that the disk remembers.

        The task is done when the agent has joined; a crash cancels it.
        """
        self.starting = super().start(seeds)
        return self.starting

    def restart(self) -> asyncio.Task[None]:
        """Start again with what is on disk, by way of a few random agents, some of which may be down themselves."""
        return self.start(self.cluster.some(SEEDS, self))

    def come_back(self) -> None:
        """Restart, unless that has been done already."""
        if not self.is_up and not self.is_starting:
            self.restart()

    def crash(self, *, silent: bool = False) -> None:
        """End the process without a word of its own; `silent`: the whole machine, so that not even resets go out."""
        node, links = self.node, self.links
        if node is None or links is None:
            return
        self.node = self.links = None
        if self.starting is not None:
            self.starting.cancel()
            self.starting = None
        self.resume()
        links.crash(silent=silent)
        transport = self.cluster.loop.sockets.get(self.address)
        if transport is not None:
            transport.close()
        if silent:
            self.cluster.streams.up.discard(self.address)
        # What is left are tasks without a network; the runtime hears of nothing any more.
        self.runtime = self.runtime.after_crash()
        self.cluster.loop.create_task(node.stop())

    def suspect(self, other: Machine) -> bool:
        """Take a peer for lost that lives, as a detector that errs does; tells whether there was a link to it."""
        links = self.links
        return links is not None and self.call(links.suspect, other.contact)

    def pause(self) -> None:
        """Stop the process as SIGSTOP does."""
        if self.is_up:
            self.is_paused = True
            self.cluster.loop.pause(self)

    def resume(self) -> None:
        """Let it go on."""
        if self.is_paused:
            self.is_paused = False
            self.cluster.loop.resume(self)


class Cluster(machines.Cluster):
    """A growing set of machines that may fall.

    Args:
        disk_ms: a runtime's write takes up to so long before and after; 0: no time at all.
        options: see `elf.overlay.sim.machines.Cluster`.
    """

    kind = Machine
    machines: list[Machine]
    by_id: dict[bytes, Machine]

    def __init__(self, loop: SimLoop, *, disk_ms: int = 0, **options: Any) -> None:
        super().__init__(loop, **options)
        self._disk_ms = disk_ms
        self.disk = self._wait_for_disk if disk_ms else None

    def some(self, count: int, besides: Machine) -> list[Contact]:
        """Return the contacts of some other machines, up or not."""
        return self._pick([machine for machine in self.machines if machine is not besides], count)

    async def _wait_for_disk(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, self._disk_ms) / 1000)
