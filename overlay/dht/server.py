"""`Dht`: one agent's place among all agents; who is near a key, kept true in the background.

Owns the tasks (join, refresh, keeping alive) and the public interface of the DHT; decisions are in `table`, `lookup`
and `hints`, datagrams in `protocol`. It finds agents and holds small hints, nothing more: data and results travel on
links. OVERLAY sections 0, 1 and 3.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from kademlia.network import Server
from kademlia.utils import digest

from elf.overlay.dht import state
from elf.overlay.dht.auth import Gate, Secret
from elf.overlay.dht.hints import Hint, Hints
from elf.overlay.dht.lookup import PARALLEL, Lookup
from elf.overlay.dht.messages import CONTACTS_MAX, HINT_BYTES_MAX, Fetched, Found, Stored, pack, unpack
from elf.overlay.dht.pace import DhtTimes, Pace
from elf.overlay.dht.protocol import Answer, Counters, DhtProtocol
from elf.overlay.dht.signed import Notary
from elf.overlay.dht.table import Table, by_distance
from elf.overlay.errors import DecodeError, NotJoinedError
from elf.overlay.ids import Contact

log = logging.getLogger(__name__)

#: Agents that hold a copy of each hint.
HINT_COPIES: Final = 8
#: Given-up contacts and seeds tried again at each refresh: after a network split heals, one answer is enough.
RETRIED: Final = 3


def wall_ms() -> int:
    """Return the wall clock in ms."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, kw_only=True)
class DhtSettings:
    """How one agent takes part in the DHT."""

    #: Contacts kept per level.
    k: int = 20
    times: DhtTimes = field(default_factory=DhtTimes)
    #: The file that keeps known contacts over a restart; None keeps none.
    state_path: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.k <= CONTACTS_MAX:
            raise ValueError(f"k = {self.k} must lie between 1 and {CONTACTS_MAX}")


class Dht(Server):  # type: ignore[misc]  # kademlia has no types
    """One agent in the DHT; lives on one event loop and is called from there only.

    Args:
        contact: where others reach us; its host must be the IP address our datagrams come from.
        settings: how many contacts are kept, how patient we are, and where contacts are kept over a restart.
        secret: the cluster secret; without it and a notary nothing is authenticated, so bind loopback only.
        notary: signs for us, and tells who has signed, where agents have certificates.
        rng: source of call ids and targets; a `random.SystemRandom` in production, seeded in a simulation.
        clock: wall clock in ms, to date datagrams.
        on_change: called on the loop soon after the set of contacts changed, once for a burst of changes.
        linked: the contacts with which a link is in use: traffic there is a sign of life and saves the pings.
    """

    protocol: DhtProtocol | None

    def __init__(
        self,
        contact: Contact,
        *,
        settings: DhtSettings | None = None,
        secret: Secret | None = None,
        notary: Notary | None = None,
        rng: random.Random,
        clock: Callable[[], int] = wall_ms,
        on_change: Callable[[], None] | None = None,
        linked: Callable[[], Iterable[Contact]] = tuple,
    ) -> None:
        settings = settings or DhtSettings()
        try:
            genuine = contact.genuine and unpack(pack(contact)) == contact
        except (ValueError, DecodeError):
            genuine = False
        if not genuine:
            raise ValueError(f"{contact} cannot be reached: it needs an IP address, a port, and the id that follows")
        self.contact = contact
        self.table = Table(contact, settings.k)
        self.hints = Hints(contact.id)
        super().__init__(ksize=settings.k, node_id=contact.id, storage=self.hints)
        self.on_change = on_change
        self._linked = linked
        self.times = settings.times
        self._gate = Gate(secret, contact.address, notary=notary)
        self._rng = rng
        self._clock = clock
        self._state_path = settings.state_path
        self._seeds: list[tuple[str, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.counters = Counters()
        self.pace = Pace(self.times.idle_ms, self.times.calm_max, 0)
        self._evicted = self._refreshed = 0
        self._change_told = True

    # -- life

    async def start(self, bind: tuple[str, int] | None = None) -> None:
        """Open the socket, at the contact's own address unless told otherwise.

        Raises:
            OSError: the address cannot be bound.
        """
        host, port = bind or (self.contact.host, self.contact.port)
        await self.listen(port, host)

    def stop(self) -> None:
        """Leave: close the socket, cancel every task, keep the known contacts. Others notice by our silence."""
        if self.protocol is None:
            return
        self.save_state()
        super().stop()
        self.protocol.close()
        self.protocol = None
        for task in self._tasks:
            task.cancel()

    async def wait_stopped(self) -> None:
        """Wait until the tasks that `stop` cancelled have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def join(self, seeds: Iterable[tuple[str, int]]) -> int:
        """Enter the DHT by way of any agent that answers; return how many contacts we then have.

        Seeds may be DNS names; a name with several addresses is several seeds. Contacts kept from the last run count
        as seeds. With 0 the caller tries again later. Joining again is harmless.
        """
        protocol = self._running()
        self._seeds = list(dict.fromkeys([*self._seeds, *seeds]))
        known, damaged = state.load(self._state_path) if self._state_path else ([], False)
        self.counters.contacts_damaged += damaged
        await self._ping_all([*await self._resolve(self._seeds, logging.WARNING), *known[:CONTACTS_MAX]])
        if len(self.table):
            heard = await self._explore(self.contact.id, self.ksize)
            for target in self.table.targets(self._rng, only_empty=False):
                heard += await self._explore(target, 2)
            await self._ping_all(self.table.wanted(heard))
            await self._fill_empty_levels()
            self.save_state()
        log.debug("%s joined: %d contacts, %s", self.contact, len(self.table), protocol.counters)
        return len(self.table)

    # -- who is near

    def contacts(self) -> list[Contact]:
        """Return all contacts."""
        return self.table.contacts()

    def unheard(self) -> list[str]:
        """Return, in sentences, whose datagrams of the last minute we cannot take."""
        return self.protocol.unheard.recent(self._clock()) if self.protocol is not None else []

    async def lookup(self, key: bytes, width: int = PARALLEL) -> list[Contact]:
        """Return the `width` agents nearest to `key` that answer, ourselves among them, nearest first.

        Before we are told that we are the nearest ourselves, contacts farther away are asked too: this answer makes a
        root, and the agents near us may share our ignorance (see `Table.farther`).
        """
        found = await self._search(key, width)
        if found[0] == self.contact:
            afar = await self._search(key, width, self.table.farther(key, self._rng, PARALLEL))
            found = by_distance({*found, *afar}, key)[:width]
        return found

    def observe(self, contact: Contact) -> None:
        """Take note that a link heard `contact`; one that datagrams of ours cannot reach is ignored."""
        if self.protocol is not None and contact.genuine and self.protocol.reaches(contact):
            self.protocol.welcome_if_new(contact)

    def suspect(self, contact: Contact) -> None:
        """Take note that a link lost `contact`: lookups do not wait for it, and it is given up unless it answers."""
        if self.protocol is not None and contact in self.table:
            self.table.doubt(contact)
            self.protocol.call_ping(contact)

    # -- hints

    async def set_hint(self, key: bytes, value: bytes) -> int:
        """Leave a small value near `key`; return how many agents hold it now.

        Raises:
            ValueError: the value is longer than HINT_BYTES_MAX.
            TypeError: it is not bytes; the library stores anything and then fails where it is read.
        """
        if not isinstance(value, bytes):
            raise TypeError(f"a hint is bytes, not {type(value).__name__}")
        if len(value) > HINT_BYTES_MAX:
            raise ValueError(f"a hint of {len(value)} bytes; at most {HINT_BYTES_MAX} are kept")
        protocol = self._running()
        before = await self._newest(key)
        hint = Hint(max(self._clock(), before.version + 1 if before else 0), value)
        near = await self._search(key, HINT_COPIES)
        held = self.contact in near and self.hints.put(key, hint, protocol.now_ms())
        answers = [protocol.call_store(contact, key, hint) for contact in near if contact != self.contact]
        taken = [reply for reply in await asyncio.gather(*answers) if isinstance(reply, Stored) and reply.taken]
        return len(taken) + held

    async def get_hint(self, key: bytes) -> bytes | None:
        """Return the newest value left near `key` that the agents there still hold."""
        hint = await self._newest(key)
        return hint.value if hint else None

    def certify(self, notary: Notary | None) -> None:
        """Sign, and let in, by another certificate from now on."""
        self._gate.notary = notary

    # -- the library's names for the above

    async def bootstrap(self, addrs: Sequence[tuple[str, int]]) -> int:
        """Join; the library's name for it."""
        return await self.join(addrs)

    async def get(self, key: str) -> bytes | None:
        """Return the hint under the digest of `key`; the library's name for it."""
        return await self.get_hint(digest(key))

    async def set(self, key: str, value: bytes) -> bool:
        """Leave a hint under the digest of `key`; the library's name for it."""
        return await self.set_digest(digest(key), value)

    async def set_digest(self, dkey: bytes, value: bytes) -> bool:
        """Leave a hint under a key that is already a digest; the library's name for it."""
        return await self.set_hint(dkey, value) > 0

    @classmethod
    async def load_state(cls, fname: str, port: int, interface: str = "") -> NoReturn:
        """Refuse: the library unpickles the file here; hand `state_path` to the constructor instead."""
        raise TypeError("load_state is not supported; give Dht(state_path=...) and join")

    def save_state(self, fname: Path | None = None) -> None:
        """Write the known contacts as JSON; a full disk is logged, not raised, since the file is only a cache."""
        path = fname or self._state_path
        if path is None or not len(self.table):
            return
        try:
            state.save(path, self.table.contacts())
        except OSError as error:
            log.warning("%s: known contacts not saved: %s", path, error)

    # -- inside

    def _create_protocol(self) -> DhtProtocol:
        return DhtProtocol(
            self.contact,
            self.table,
            self.hints,
            gate=self._gate,
            rng=self._rng,
            clock=self._clock,
            on_change=self._changed,
            times=self.times,
        )

    def refresh_table(self, interval: int = 0) -> None:
        """Start the background tasks; `listen` calls this once the socket is open."""
        protocol = self._running()
        self.counters = protocol.counters
        self.pace = Pace(self.times.idle_ms, self.times.calm_max, protocol.now_ms())
        self._evicted = self._refreshed = 0
        for period_ms, step in ((self.times.keepalive_ms, self._keep_alive), (self.times.refresh_ms, self._refresh)):
            task = asyncio.get_running_loop().create_task(self._every(period_ms, step))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _every(self, period_ms: int, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            # Jitter, so that agents started together do not speak together for ever.
            await asyncio.sleep(period_ms / 1000 * self._rng.uniform(0.8, 1.2))
            try:
                await step()
            except Exception:
                log.exception("%s: %s failed; it runs again", self.contact, step.__name__)

    async def _keep_alive(self) -> None:
        """Ping the contacts that are due at the present pace."""
        now_ms = self._running().now_ms()
        for contact in self._linked():
            self.table.vouch(contact, now_ms)
        if self.counters.evicted > self._evicted:
            for _ in range(min(self.counters.evicted - self._evicted, self.times.calm_max)):
                self.pace.disturb(now_ms)
            self._evicted = self.counters.evicted
        self.pace.tick(now_ms)
        due = self.table.due(
            now_ms, near_ms=self.pace.near_ms, far_ms=self.pace.far_ms, pace_ms=self.times.keepalive_ms
        )
        await self._ping_all(due)

    async def _refresh(self) -> None:
        """Look for agents that we should know: those we once gave up, near us, and at times where levels have room."""
        lost = list(self.table.lost.values())
        retried = self._rng.sample(lost, min(RETRIED, len(lost)))
        seeds = self._rng.sample(self._seeds, min(RETRIED, len(self._seeds)))
        known = set(self.table.contacts())
        strangers = [contact for contact in [*retried, *await self._resolve(seeds)] if contact not in known]
        await self._ping_all(strangers)
        # A split has healed, or our neighbours' knowledge is not ours: look around at once and for a while.
        if any(contact in self.table for contact in strangers):
            self.pace.disturb(self._running().now_ms())
            self._refreshed = 0
        own, afar = self.contact.id, self.table.farther(self.contact.id, self._rng, PARALLEL)
        thorough = self._refreshed % self.pace.calm == 0
        self._refreshed += 1
        if thorough:
            heard = await self._explore(own, self.ksize, [*afar, *self.table.nearest(own)])
            await self._ping_all(self.table.wanted(heard))
            await self._fill_empty_levels()
        else:
            await self._search(own, PARALLEL, afar)
        self.save_state()

    async def _fill_empty_levels(self) -> None:
        for target in self.table.targets(self._rng, only_empty=True):
            await self._search(target, PARALLEL, self.table.farther(target, self._rng, PARALLEL))

    async def _ping_all(self, contacts: Iterable[Contact]) -> None:
        protocol = self._running()
        others = [contact for contact in dict.fromkeys(contacts) if contact != self.contact]
        await asyncio.gather(*(protocol.call_ping(contact) for contact in others))

    async def _resolve(self, seeds: Iterable[tuple[str, int]], level: int = logging.DEBUG) -> list[Contact]:
        family = socket.AF_INET6 if ":" in self.contact.host else socket.AF_INET
        found = []
        for host, port in seeds:
            try:
                infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            except (OSError, UnicodeError) as error:
                log.log(level, "seed %s: %s", host, error)
                continue
            found += [Contact.at(str(info[4][0]), port) for info in infos if info[0] == family]
        return list(dict.fromkeys(found))

    async def _explore(self, key: bytes, width: int, start: Sequence[Contact] | None = None) -> list[Contact]:
        """Search for our own sake; return whom we heard of."""
        lookup = self._lookup(key, width, start)
        await self._carry_out(lookup)
        return lookup.heard()

    async def _search(self, key: bytes, width: int, start: Sequence[Contact] | None = None) -> list[Contact]:
        lookup = self._lookup(key, width, start)
        await self._carry_out(lookup)
        return lookup.result()

    def _lookup(self, key: bytes, width: int, start: Sequence[Contact] | None) -> Lookup:
        return Lookup(self.contact, key, self.table.nearest(key) if start is None else start, width=width)

    async def _carry_out(self, lookup: Lookup) -> None:
        protocol = self._running()
        waiting: dict[Answer, Contact] = {}
        # Contacts of another family than ours are dead ends; see `DhtProtocol.reaches`.
        address_bytes = len(pack(self.contact))
        while not lookup.is_complete:
            waiting |= {protocol.call_find_node(contact, lookup.key): contact for contact in lookup.to_ask()}
            if not waiting:
                break
            hedge_s = self.times.hedge_ms / 1000
            done, _ = await asyncio.wait(waiting, timeout=hedge_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                lookup.on_stall(contact for contact in waiting.values() if self.table.doubts(contact))
            # `done` is a set in no order; `waiting` is in the order of asking, the same in every run.
            for answer in [answer for answer in waiting if answer in done]:
                contact, reply = waiting.pop(answer), answer.result()
                if isinstance(reply, Found):
                    lookup.on_answer(contact, [unpack(a) for a in reply.addresses if len(a) == address_bytes])
                else:
                    lookup.on_failure(contact)

    async def _newest(self, key: bytes) -> Hint | None:
        protocol = self._running()
        near = await self._search(key, HINT_COPIES)
        answers = [protocol.call_find_value(contact, key) for contact in near if contact != self.contact]
        replies = await asyncio.gather(*answers)
        hints = [Hint(r.version, r.value) for r in replies if isinstance(r, Fetched) and r.value is not None]
        own = self.hints.fetch(key, protocol.now_ms())
        return max([*hints, own] if own else hints, default=None)

    def _running(self) -> DhtProtocol:
        if self.protocol is None:
            raise NotJoinedError(f"{self.contact} is not started")
        return self.protocol

    def _changed(self) -> None:
        # Later and once: a lookup can bring twenty contacts at a time, and the callback must not run inside the table.
        if self._change_told and self.on_change is not None:
            self._change_told = False
            asyncio.get_running_loop().call_soon(self._tell_change)

    def _tell_change(self) -> None:
        self._change_told = True
        if self.on_change is not None and self.protocol is not None:
            self.on_change()
