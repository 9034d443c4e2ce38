"""The event loop of tests that are marked `virtual`: whole agents, their network and the test in virtual time.

Owns what such a test has in place of the machine: a network of its own, ports, a time of day, disks that take their
time. Nothing waits for the real world, so nothing depends on how busy that is.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

from elf.agents.host.clock import Clock
from elf.overlay.ids import Contact, parse_address
from elf.overlay.network import Network
from elf.overlay.sim.machines import EPOCH_MS
from elf.overlay.sim.streams import Streams
from tests.world.loop import WorldLoop
from tests.world.network import network_of
from tests.world.world import DISK_S

#: The first port that is given out.
PORT = 4250


class VirtualLoop(WorldLoop):
    """See `SimLoop`; each has one network, in which all agents are on 127.0.0.1."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.streams = Streams(self)
        self._ports = itertools.count(PORT)

    def wall_ms(self) -> int:
        """Return the time of day."""
        return EPOCH_MS + self.now_ms

    def clock(self) -> Clock:
        """Return the clock of one agent."""
        return Clock(self.wall_ms, lambda: self.now_ms)

    def free_port(self) -> int:
        """Return a port that nobody has."""
        return next(self._ports)

    def network(self) -> Network:
        """Return what one node stands on."""
        return network_of(self.streams, self._contact, lambda: self.now_ms, self.wall_ms)

    def new_rng(self) -> random.Random:
        """Return a source of everything random in one agent."""
        return random.Random(self.rng.getrandbits(64))

    def disk_s(self) -> float:
        """Return how long the next work in a thread takes, in virtual seconds."""
        return self.rng.uniform(*DISK_S)

    def close(self) -> None:
        """Close; raises AssertionError if a callback or a forgotten task has failed."""
        super().close()
        assert not self.errors, self.errors

    def _contact(self, settings: Any) -> Contact:
        host, port = parse_address(settings.advertise or settings.bind)
        return Contact.at(host, port or self.free_port())


def running_loop() -> VirtualLoop:
    """Return the loop of a test that is marked `virtual`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "mark the test with pytest.mark.virtual"
    return loop
