"""Connections of the simulated network: bytes in order or not at all, as TCP gives them.

Owns opening, delivery, resets and what partitions, clogs and dead machines do to a connection; knows nothing of what
the bytes mean. No task per connection: both ends are called back, each in its own agent's context. A way that is cut
keeps what is sent and delivers it once healed, as TCP's repetition does; a dead process is told by a reset, a dead
machine by nothing at all.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable
from functools import partial

from elf.overlay.sim.loop import Address, SimLoop

#: How soon TCP tries again where the way was cut.
RETRY_S = 0.2
#: One-way trips before the caller may speak: TCP's handshake, then HTTP's upgrade.
OPENING_TRIPS = 4
#: A call that reaches nobody, not even a machine that refuses it, is given up after this.
CONNECT_S = 5.0

_RESET = None


class StreamEnd:
    """One end of a connection; `on_data` and `on_closed` are called in its agent's context."""

    def __init__(self, streams: Streams, address: Address, other: Address, context: contextvars.Context) -> None:
        self.address = address
        self.other = other
        self.context = context
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_closed: Callable[[], None] = lambda: None
        self.peer: StreamEnd
        self.is_open = True
        self._streams = streams
        self._arrived_s = 0.0
        self._held: deque[bytes | None] = deque()

    def send(self, data: bytes) -> None:
        """Send bytes after those sent before; a closed end sends nothing."""
        if self.is_open:
            self._streams.count(self.address, self.other, data)
            self._put(data)

    def close(self) -> None:
        """Close; the other end hears of it after what was sent before."""
        if self.is_open:
            self.is_open = False
            self._put(_RESET)

    def vanish(self) -> None:
        """Close without a word: the machine is gone. What the other end sends is answered once there is one again."""
        self.is_open = False
        self._held.clear()

    def _put(self, data: bytes | None) -> None:
        loop = self._streams.loop
        if self._held or (loop.cut is not None and loop.cut(self.address, self.other)):
            if not self._held:
                loop.call_arrival(loop.time() + RETRY_S, self._streams.context, self._retry)
            self._held.append(data)
        else:
            self._carry(data)

    def _carry(self, data: bytes | None) -> None:
        loop = self._streams.loop
        self._arrived_s = max(self._arrived_s, loop.arrival_s(self.address, self.other))
        loop.call_arrival(self._arrived_s, self.peer.context, self._arrive, data)

    def _retry(self) -> None:
        loop = self._streams.loop
        if loop.cut is not None and loop.cut(self.address, self.other):
            if self._held:
                loop.call_arrival(loop.time() + RETRY_S, self._streams.context, self._retry)
            return
        held = self._held
        self._held = deque()
        for data in held:
            self._carry(data)

    def _arrive(self, data: bytes | None) -> None:
        peer = self.peer
        if data is _RESET:
            if peer.is_open:
                peer.is_open = False
                peer.on_closed()
        elif peer.is_open:
            peer.on_data(data)
        elif self.is_open and peer.address in self._streams.up:
            # A machine that does not know the connection (any more) refuses what comes for it.
            peer._put(_RESET)


class Streams:
    """All connections of one simulated network.

    `up` holds the machines that answer at all.
    """

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.context = contextvars.copy_context()
        self.up: set[Address] = set()
        self.frames = self.bytes = 0
        self._listeners: dict[Address, tuple[contextvars.Context, Callable[[StreamEnd], None]]] = {}

    def listen(self, address: Address, accept: Callable[[StreamEnd], None]) -> None:
        """Take calls at an address, in the context of whoever asks."""
        self.up.add(address)
        self._listeners[address] = (contextvars.copy_context(), accept)

    def deafen(self, address: Address) -> None:
        """Take no calls there any more; the machine refuses them."""
        self._listeners.pop(address, None)

    def connect(self, source: Address, to: Address, done: Callable[[StreamEnd | None], None]) -> None:
        """Open a connection; `done` gets our end, or None when it was refused or nobody was there."""
        loop, context = self.loop, contextvars.copy_context()
        self.loop.trace(b"c", source, to, b"")
        deadline_s = loop.time() + CONNECT_S
        loop.call_arrival(loop.arrival_s(source, to), self.context, self._knock, source, to, context, deadline_s, done)

    def _knock(
        self,
        source: Address,
        to: Address,
        context: contextvars.Context,
        deadline_s: float,
        done: Callable[[StreamEnd | None], None],
    ) -> None:
        loop = self.loop
        cut = loop.cut is not None and (loop.cut(source, to) or loop.cut(to, source))
        if cut or to not in self.up:
            if loop.time() + 1.0 < deadline_s:
                again = partial(self._knock, source, to, context, deadline_s, done)
                loop.call_arrival(loop.time() + 1.0, self.context, again)
            else:
                loop.call_arrival(deadline_s, context, done, None)
            return
        back_s = loop.arrival_s(to, source)
        if to not in self._listeners:
            loop.call_arrival(back_s, context, done, None)
            return
        their_context, accept = self._listeners[to]
        ours, theirs = StreamEnd(self, source, to, context), StreamEnd(self, to, source, their_context)
        ours.peer = theirs
        theirs.peer = ours
        trips_s = (back_s - loop.time()) * (OPENING_TRIPS - 2)
        loop.call_arrival(back_s + trips_s, their_context, accept, theirs)
        loop.call_arrival(back_s + trips_s, context, done, ours)

    def count(self, source: Address, to: Address, data: bytes) -> None:
        """Count what is sent and add it to the digest."""
        self.frames += 1
        self.bytes += len(data)
        self.loop.trace(b"s", source, to, data)
