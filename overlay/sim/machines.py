"""Many nodes in one simulated network: `OverlayNode`s as agents have them, above each nothing.

Owns how a cluster grows; what must hold of it is in `checkers`. OVERLAY section 6.7. Machines that crash, stop and come
back are in `tests/sweep`, whole agents in `tests/world`.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from elf.overlay.contract import Commit, ControlEntry, Handler, OverlaySettings, Record, Verdict
from elf.overlay.ids import ID_BYTES, Contact, distance
from elf.overlay.links.binding import Bound
from elf.overlay.messages import Claim
from elf.overlay.network import Network
from elf.overlay.node import OverlayNode
from elf.overlay.sim.links import SimLinks
from elf.overlay.sim.loop import AGENT, Address, SimLoop
from elf.overlay.sim.streams import Streams

T = TypeVar("T")

PORT = 4250
#: Agents that join at the same time; never more than half of those already there, as in a real rollout.
BATCH_MAX = 64
#: Wall clock at virtual time 0, so that datagrams carry plausible dates.
EPOCH_MS = 1_700_000_000_000


def numbered_contact(index: int, port: int = PORT) -> Contact:
    """Return the contact of a cluster's n-th agent, `10.x.y.z`."""
    return Contact.at(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", port)


class Silent:
    """The `Handler` of a node above which there is nothing: it owns no keys, keeps nothing, has nothing to merge."""

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> None:
        """Own no key."""

    def admits(self, app: bytes, record: Record) -> bool:
        """Let all in."""
        return True

    def on_record(self, app: bytes, record: Record) -> None:
        """Ignore it."""

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Ignore it."""

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Ignore it."""

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Ignore it."""

    def on_chosen(self, app: bytes, child: Contact, claim: Claim) -> None:
        """Ignore it."""

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Merge nothing: nobody seals a snapshot."""
        return b""


class Machine:
    """One machine: its address, its clock and, while it is up, its node."""

    def __init__(self, cluster: Cluster, index: int, skew_ms: int) -> None:
        self.cluster = cluster
        self.index = index
        self.skew_ms = skew_ms
        self._now_s = cluster.loop.time
        self.contact = numbered_contact(index)
        self.name = f"a{index}"
        self.runtime: Handler = Silent()
        self.node: OverlayNode | None = None
        self.links: SimLinks | None = None
        #: Trees we take part in, with membership and recorded root.
        self.trees: dict[bytes, tuple[bool, Contact | None]] = {}
        self.context = contextvars.copy_context()
        self.context.run(AGENT.set, self)

    @property
    def address(self) -> Address:
        """Host and port."""
        return self.contact.host, self.contact.port

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self.node is not None

    def clock(self) -> int:
        """Return this machine's time in ms, which nobody keeps in step."""
        return EPOCH_MS + self.skew_ms + round(self._now_s() * 1000)

    def call(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call something as this machine, so that whatever it starts is this machine's."""
        if AGENT.get() is self:
            return function(*args, **options)
        return self.context.run(function, *args, **options)

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something as this machine."""
        return self.cluster.loop.create_task(work, context=self.context)

    def join_tree(self, app: bytes, *, member: bool, root: Contact | None = None) -> None:
        """Take part in a tree, now or once started."""
        self.trees[app] = (member, root)
        self._enter(app)

    def _enter(self, app: bytes) -> None:
        if self.node is not None:
            is_member, root = self.trees[app]
            self.call(self.node.join_tree, app, member=is_member, root=root)

    def start(self, seeds: Sequence[Contact]) -> asyncio.Task[None]:
        """Start a process: join by way of some agents, then enter its trees; the task is done when it has joined."""
        assert self.node is None
        return self.task(self._start(seeds))

    async def _start(self, seeds: Sequence[Contact]) -> None:
        cluster = self.cluster
        settings = OverlaySettings(
            agent_id=self.name, join=tuple(contact.address for contact in seeds), **cluster.settings
        )
        rng = random.Random(cluster.rng.getrandbits(64))
        network = Network(clock=self.clock, wall=self.clock, bind=self._bind, links=self._new_links)
        node = OverlayNode(settings, self.runtime, rng, network=network)
        await node.start()
        self.node = node
        joined = not seeds or await node.join()
        if self.node is node:
            for app in list(self.trees):
                self._enter(app)
        while not joined and self.node is node:
            await asyncio.sleep(1.0)
            joined = await node.join()

    async def _bind(self, settings: OverlaySettings, *, secure: bool) -> Bound:
        return Bound(None, self.address, self.contact)

    def _new_links(self, *args: Any, **options: Any) -> SimLinks:
        self.links = SimLinks(*args, **options, streams=self.cluster.streams)
        return self.links


class Cluster:
    """A growing set of machines; everything random comes from the loop's seed.

    Args:
        skew_ms: machines' clocks differ from the true time by up to so much either way.
        settings: of every node; see `OverlaySettings`.
    """

    #: What its machines are; those of tests can fall.
    kind = Machine

    def __init__(self, loop: SimLoop, *, skew_ms: int = 0, **settings: Any) -> None:
        self.loop = loop
        self.settings = settings
        self.streams = Streams(loop)
        self.machines: list[Machine] = []
        self.by_id: dict[bytes, Machine] = {}
        self.rng = random.Random(loop.rng.getrandbits(64))
        self._skew_ms = skew_ms

    def add(self) -> Machine:
        """Add a machine that is not started yet."""
        skew_ms = self.rng.randint(-self._skew_ms, self._skew_ms)
        machine = self.kind(self, len(self.machines), skew_ms)
        self.machines.append(machine)
        self.by_id[machine.contact.id] = machine
        return machine

    async def grow(self, count: int) -> list[Machine]:
        """Start `count` machines, each of which joins by way of two random earlier ones; returns them."""
        end = len(self.machines) + count
        first = len(self.machines)
        while (present := len(self.machines)) < end:
            size = min(BATCH_MAX, max(1, present // 2), end - present)
            seeds = self.up()
            fresh = [self.add() for _ in range(size)]
            await asyncio.gather(*[machine.start(self._pick(seeds, 2)) for machine in fresh])
        return self.machines[first:]

    def up(self) -> list[Machine]:
        """Return the machines with a process."""
        return [machine for machine in self.machines if machine.is_up]

    def keys(self, count: int) -> list[bytes]:
        """Draw keys."""
        return [self.rng.randbytes(ID_BYTES) for _ in range(count)]

    def closest(self, key: bytes) -> Machine:
        """Return the machine that is up and nearest to a key, which only we can know."""
        return min(self.up(), key=lambda machine: distance(machine.contact.id, key))

    def sent(self) -> Counter[str]:
        """Return how many messages of each kind the processes that are up have sent over links."""
        return sum((machine.links.sent for machine in self.machines if machine.links is not None), Counter[str]())

    async def wait(self, condition: Callable[[], bool], seconds: float, step_s: float = 0.05) -> float:
        """Let virtual time pass until a condition holds; returns the seconds it took.

        Raises:
            TimeoutError: it did not come true in time.
        """
        began_s = self.loop.time()
        while not condition():
            if self.loop.time() - began_s > seconds:
                raise TimeoutError(f"not within {seconds} virtual seconds")
            await asyncio.sleep(step_s)
        return self.loop.time() - began_s

    def _pick(self, machines: Sequence[Machine], count: int) -> list[Contact]:
        return [machine.contact for machine in self.rng.sample(machines, min(count, len(machines)))]
