"""An asyncio event loop whose clock jumps to the next timer and whose datagrams travel in memory.

Owns virtual time, the pausing of agents, and datagrams: delivery, loss, repetition, delay, partitions, clogs and the
digest of all traffic; streams are `streams`, both know nothing of what the bytes mean. One seed is one run: everything
random comes from `rng`, work for threads runs in line, and nothing waits for the real world. A run that has nothing
left to wait for raises `SimulationStalledError` instead of hanging.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import functools
import gc
import hashlib
import heapq
import random
import socket
import struct
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")
Address = tuple[str, int]

#: Which agent a task or callback belongs to: inherited by everything it starts, and what `SimLoop.pause` goes by.
AGENT: contextvars.ContextVar[object] = contextvars.ContextVar("agent", default=None)
#: Cancelled timers are swept out when there are so many and they are the majority.
SWEEP_MIN = 1024
_MOMENT = struct.Struct("<dI")


class SimulationStalledError(RuntimeError):
    """Everybody waits and no timer is set: the simulated program can never go on."""


class Arrival:
    """Bytes that reach an agent: a handle of the loop that runs in the receiver's context and hides no exception."""

    __slots__ = ("_args", "_callback", "_context")
    _cancelled = False

    def __init__(self, context: contextvars.Context, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._context = context
        self._callback = callback
        self._args = args

    def _run(self) -> None:
        self._context.run(self._callback, *self._args)


class SimTransport(asyncio.DatagramTransport):
    """The socket of one agent in the simulated network."""

    def __init__(self, loop: SimLoop, protocol: asyncio.DatagramProtocol, address: Address) -> None:
        super().__init__()
        self.protocol = protocol
        self.address = address
        self.context = contextvars.copy_context()
        self._loop = loop
        self._closing = False

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
        repeats: share of datagrams that arrive twice, 0..1.
        mtu_bytes: longer datagrams vanish, as beyond UDP's limit.
        names: the simulated DNS.

    `cut` may be replaced at any time by a predicate over (source, destination): true means the way is interrupted.
    `clogged` may hold, by the same pair, until which virtual second nothing arrives that way. `errors` collects what
    callbacks and forgotten tasks raised: a simulation that is meant to show something checks that it is empty.
    """

    _ready: deque[Any]
    _stopping: bool

    def __init__(
        self,
        seed: int = 0,
        *,
        delay_ms: tuple[float, float] = (0.2, 2.0),
        loss: float = 0.0,
        repeats: float = 0.0,
        mtu_bytes: int = 65_507,
        names: Mapping[str, list[str]] | None = None,
    ) -> None:
        super().__init__()
        self._selector = None  # nothing is ever waited for
        self._now_s = 0.0
        self._timers: list[tuple[float, int, Any]] = []
        self._timer_count = self._cancelled_count = 0
        self._paused: dict[object, deque[Any]] = {}
        self.rng = random.Random(seed)
        self.delay_ms = delay_ms
        self.loss = loss
        self.repeats = repeats
        self.mtu_bytes = mtu_bytes
        self.names = dict(names or {})
        self.cut: Callable[[Address, Address], bool] | None = None
        self.clogged: dict[tuple[Address, Address], float] = {}
        self.sockets: dict[Address, SimTransport] = {}
        self.sent = self.sent_bytes = self.lost = 0
        self.errors: list[str] = []
        self._trace = hashlib.blake2b(digest_size=16)
        self.set_exception_handler(self._keep_error)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end in virtual time, then end what it left behind and close the loop."""
        # A thousand agents are millions of objects that live to the end: looking for dead ones among them all the time
        # takes longer than the simulation.
        thresholds = gc.get_threshold()
        gc.set_threshold(100_000, 50, 100)
        try:
            return self.run_until_complete(main)
        finally:
            gc.set_threshold(*thresholds)
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
        return round(self._now_s * 1000)

    @property
    def digest(self) -> str:
        """Fingerprint of every datagram sent so far: when, from where, to where, what."""
        return self._trace.hexdigest()

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._now_s

    def trace(self, kind: bytes, source: Address, destination: Address, data: bytes) -> None:
        """Add what is sent now to the digest."""
        head = _MOMENT.pack(self._now_s, len(data))
        self._trace.update(b"".join((kind, head, _label(source), _label(destination), data)))

    def carry(self, source: Address, destination: Address, data: bytes) -> None:
        """Take a datagram on its way: it arrives after a drawn delay, perhaps twice, or never."""
        self.sent += 1
        self.sent_bytes += len(data)
        self.trace(b"d", source, destination, data)
        lost = self.loss > 0 and self.rng.random() < self.loss
        if lost or len(data) > self.mtu_bytes or (self.cut is not None and self.cut(source, destination)):
            self.lost += 1
            return
        copies = 2 if self.repeats > 0 and self.rng.random() < self.repeats else 1
        for _ in range(copies):
            receiver = self.sockets.get(destination)
            context = receiver.context if receiver is not None else contextvars.copy_context()
            at_s = self.arrival_s(source, destination)
            self.call_arrival(at_s, context, self._deliver, source, destination, data)

    def arrival_s(self, source: Address, destination: Address) -> float:
        """Draw when something sent now arrives, as a virtual second."""
        low_ms, high_ms = self.delay_ms
        at_s = self._now_s + (low_ms + (high_ms - low_ms) * self.rng.random()) / 1000
        return max(at_s, self.clogged.get((source, destination), 0.0)) if self.clogged else at_s

    def call_arrival(
        self, at_s: float, context: contextvars.Context, callback: Callable[..., object], *args: object
    ) -> None:
        """Call back in an agent's own context at a virtual second; what it raises ends the run."""
        self._timer_count += 1
        heapq.heappush(self._timers, (at_s, self._timer_count, Arrival(context, callback, args)))

    def _deliver(self, source: Address, destination: Address, data: bytes) -> None:
        transport = self.sockets.get(destination)
        if transport is None:
            self.lost += 1
        else:
            transport.protocol.datagram_received(data, source)

    # ---- agents that stand still

    def pause(self, agent: object) -> None:
        """Stop an agent as SIGSTOP does: what reaches it piles up, its timers ring late."""
        self._paused.setdefault(agent, deque())

    def resume(self, agent: object) -> None:
        """Let an agent go on; everything that piled up happens now, in order."""
        self._ready.extend(self._paused.pop(agent, ()))

    # ---- the loop

    def call_soon(  # type: ignore[override]  # typed more closely than we need
        self, callback: Any, *args: Any, context: Any = None
    ) -> events.Handle:
        """As in asyncio, without its checks."""
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> events.TimerHandle:
        """As in asyncio."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> events.TimerHandle:
        """As in asyncio; ties ring in the order of the calls. The heap holds tuples, which compare without Python."""
        timer = events.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: object) -> None:
        self._cancelled_count += 1
        if self._cancelled_count > SWEEP_MIN and 2 * self._cancelled_count > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2]._cancelled and timer[2] is not handle]
            heapq.heapify(self._timers)
            self._cancelled_count = 0

    def _run_once(self) -> None:
        """Do what is ready; when nothing is, move the clock to the next timer."""
        ready, timers = self._ready, self._timers
        if not ready and not self._stopping:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
                self._cancelled_count -= 1
            if not timers:
                raise SimulationStalledError("everybody waits and no timer is set")
            self._now_s = max(self._now_s, timers[0][0])
        now_s = self._now_s
        while timers and timers[0][0] <= now_s:
            handle = heapq.heappop(timers)[2]
            if handle._cancelled:
                self._cancelled_count -= 1
            else:
                ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if self._paused and (agent := handle._context.get(AGENT)) in self._paused:
                self._paused[agent].append(handle)
                continue
            handle._run()

    def _keep_error(self, loop: object, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")
        self.default_exception_handler(context)

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

    def _write_to_self(self) -> None:
        """Do nothing: nobody sleeps in a system call that would need waking."""


@functools.lru_cache(maxsize=1 << 16)
def _label(address: Address) -> bytes:
    return f" {address[0]}:{address[1]} ".encode()
