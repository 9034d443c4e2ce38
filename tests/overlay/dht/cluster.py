"""Many DHT agents on one simulated network, and the checks that know the whole truth about them.

Owns how a simulated cluster grows and what counts as a false root; the agents are the real ones.
"""

from __future__ import annotations

import asyncio
import random

from elf.overlay.dht.auth import Secret
from elf.overlay.dht.pace import DhtTimes
from elf.overlay.dht.server import Dht, DhtSettings
from elf.overlay.ids import ID_BYTES, Contact, distance
from elf.overlay.routing import closer
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.machines import BATCH_MAX, EPOCH_MS, PORT, numbered_contact


class DhtCluster:
    """A growing set of agents `10.x.y.z:4250`; everything random comes from the loop's seed."""

    def __init__(
        self, loop: SimLoop, *, secret: Secret | None = None, k: int = 20, times: DhtTimes | None = None
    ) -> None:
        self.loop = loop
        self.secret = secret
        self.k = k
        self.times = times
        self.agents: list[Dht] = []
        self._rng = random.Random(loop.rng.getrandbits(64))
        self._count = 0

    async def start(self, host: str | None = None) -> Dht:
        """Start one agent that knows nobody yet."""
        index = self._count
        self._count += 1
        contact = Contact.at(host, PORT) if host else numbered_contact(index)
        agent = Dht(
            contact,
            settings=DhtSettings(k=self.k, times=self.times or DhtTimes()),
            secret=self.secret,
            rng=random.Random(self._rng.getrandbits(64)),
            clock=lambda: EPOCH_MS + self.loop.now_ms,
        )
        await agent.start()
        self.agents.append(agent)
        return agent

    async def grow(self, count: int) -> None:
        """Start `count` agents, each of which joins by way of two random earlier ones."""
        end = len(self.agents) + count
        if not self.agents and count:
            await self.start()
        while (present := len(self.agents)) < end:
            seeds = [agent.contact for agent in self.agents]
            size = min(BATCH_MAX, max(1, present // 2), end - present)
            fresh = [await self.start() for _ in range(size)]
            await asyncio.gather(*(agent.join(self._two(seeds)) for agent in fresh))

    def crash(self, agent: Dht) -> None:
        """Take an agent away without a word to the others."""
        agent.stop()
        self.agents.remove(agent)

    def keys(self, count: int) -> list[bytes]:
        """Draw keys."""
        return [self._rng.randbytes(ID_BYTES) for _ in range(count)]

    def root(self, key: bytes) -> Contact:
        """Return the living agent nearest to `key`, which only we can know."""
        return min((agent.contact for agent in self.agents), key=lambda contact: distance(contact.id, key))

    def false_roots(self, key: bytes) -> list[Contact]:
        """Return the agents that know of nobody closer to `key` although there is somebody."""
        root = self.root(key)
        return [a.contact for a in self.agents if not closer(a.contacts(), a.contact.id, key) and a.contact != root]

    def _two(self, contacts: list[Contact]) -> list[tuple[str, int]]:
        return [(contact.host, contact.port) for contact in self._rng.sample(contacts, min(2, len(contacts)))]
