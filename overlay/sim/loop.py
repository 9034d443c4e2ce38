"""An asyncio event loop whose clock jumps to the next timer and whose datagrams travel in memory.

Owns virtual time, delivery, loss, delay, partitions and the digest of all traffic; knows nothing of what the datagrams
mean. One seed is one run: everything random comes from `rng`, work for threads runs in line, and nothing waits for the
real world. A run that has nothing left to wait for raises `SimulationStalledError` instead of hanging.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import random
import socket
from asyncio import base_events
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")
Address = tuple[str, int]


class SimulationStalledError(RuntimeError):
    """Everybody waits and no timer is set: the simulated program can never go on."""


class _Clock:
    """Stands where the selector would: waiting means moving the clock."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise SimulationStalledError("everybody waits and no timer is set")
        self.now_s += max(timeout, 0.0)
        return []


class SimTransport(asyncio.DatagramTransport):
    """The socket of one agent in the simulated network."""

    def __init__(self, loop: SimLoop, protocol: asyncio.DatagramProtocol, address: Address) -> None:
        super().__init__()
        self.protocol, self.address = protocol, address
        self._loop, self._closing = loop, False

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Hand a datagram to the network; a closed socket sends nothing."""
        if not self._closing:
            self._loop.carry(self.address, (addr[0], addr[1]), bytes(data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the local address for `sockname`, four fields for IPv6 as a real socket has."""
        if name != "sockname":
            return default
        return (*self.address, 0, 0) if ":" in self.address[0] else self.address

    def is_closing(self) -> bool:
        """Tell whether the socket was closed."""
        return self._closing

    def close(self) -> None:
        """Leave the network; datagrams under way to us are lost."""
        if not self._closing:
            self._closing = True
            self._loop.sockets.pop(self.address, None)
            self._loop.call_soon(self.protocol.connection_lost, None)

    abort = close


class SimLoop(base_events.BaseEventLoop):
    """Event loop of a simulation.

    Args:
        seed: decides delays, losses and everything drawn from `rng`.
        delay_ms: shortest and longest way of a datagram; a wide range reorders.
        loss: share of datagrams that vanish, 0..1.
        mtu_bytes: longer datagrams vanish, as beyond UDP's limit.
        names: the simulated DNS.

    `cut` may be replaced at any time by a predicate over (source, destination): true means the way is interrupted.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        delay_ms: tuple[float, float] = (0.2, 2.0),
        loss: float = 0.0,
        mtu_bytes: int = 65_507,
        names: Mapping[str, list[str]] | None = None,
    ) -> None:
        super().__init__()
        self._selector = self._clock = _Clock()
        self._clock_resolution = 1e-9
        self.rng = random.Random(seed)
        self.delay_ms, self.loss, self.mtu_bytes = delay_ms, loss, mtu_bytes
        self.names = dict(names or {})
        self.cut: Callable[[Address, Address], bool] = lambda source, destination: False
        self.sockets: dict[Address, SimTransport] = {}
        self.sent = self.sent_bytes = self.lost = self.longest_bytes = 0
        self._trace = hashlib.blake2b(digest_size=16)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end in virtual time, then end what it left behind and close the loop."""
        try:
            return self.run_until_complete(main)
        finally:
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            # Gathering nothing would leave the loop without a timer, which it takes for a stall.
            if left:
                self.run_until_complete(asyncio.wait(left))
            self.close()

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the start."""
        return round(self._clock.now_s * 1000)

    @property
    def digest(self) -> str:
        """Fingerprint of every datagram sent so far: when, from where, to where, what."""
        return self._trace.hexdigest()

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._clock.now_s

    def carry(self, source: Address, destination: Address, data: bytes) -> None:
        """Take a datagram on its way: it arrives after a drawn delay, or never."""
        self.sent += 1
        self.sent_bytes += len(data)
        self.longest_bytes = max(self.longest_bytes, len(data))
        self._trace.update(f"{self.time():.9f} {source} {destination} {len(data)} ".encode() + data)
        lost, delay_ms = self.rng.random() < self.loss, self.rng.uniform(*self.delay_ms)
        if lost or len(data) > self.mtu_bytes or self.cut(source, destination):
            self.lost += 1
        else:
            self.call_later(delay_ms / 1000, self._deliver, source, destination, data)

    def _deliver(self, source: Address, destination: Address, data: bytes) -> None:
        transport = self.sockets.get(destination)
        if transport is None:
            self.lost += 1
        else:
            transport.protocol.datagram_received(data, source)

    async def create_datagram_endpoint(  # type: ignore[override]  # the options of real sockets mean nothing here
        self, protocol_factory: Any, local_addr: Any = None, **options: Any
    ) -> Any:
        """Open a socket in the simulated network; `local_addr` must be one full address."""
        address = cast(Address, tuple(local_addr))
        if address in self.sockets:
            raise OSError(errno.EADDRINUSE, f"{address} is in use")
        protocol = protocol_factory()
        transport = self.sockets[address] = SimTransport(self, protocol, address)
        protocol.connection_made(transport)
        return transport, protocol

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Resolve a name by `names`; an IP address is its own answer."""
        name = str(host)
        known = self.names.get(name, [name] if name.replace(".", "").isdigit() or ":" in name else [])
        if not known:
            raise socket.gaierror(socket.EAI_NONAME, f"{name} is unknown")
        return [
            (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", (ip, port, 0, 0))
            if ":" in ip
            else (socket.AF_INET, socket.SOCK_DGRAM, 17, "", (ip, port))
            for ip in known
        ]

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Run work meant for a thread in line: threads would make two runs differ."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: events of the simulated network are timers."""

    def _write_to_self(self) -> None:
        """Do nothing: nobody sleeps in a system call that would need waking."""
