"""`SimLinks`: the links of one simulated node, by callbacks instead of a task per connection.

Owns how connections are opened, greeted, written to and closed over `streams`; every decision is the real
`elf.overlay.links.layer`'s, every message is encoded, every frame is a real `Channel`'s, greetings are the real ones.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from typing import Any

from elf.overlay.errors import RemoteProtocolError
from elf.overlay.ids import Contact
from elf.overlay.links.binding import Bound
from elf.overlay.links.door import GREETING_S
from elf.overlay.links.handshake import Answerer, Caller, Hello
from elf.overlay.links.layer import LinkLayer
from elf.overlay.links.offer import agreed
from elf.overlay.links.peers import Link, Peer
from elf.overlay.messages import Message
from elf.overlay.sim.streams import StreamEnd, Streams


class SimLinks(LinkLayer[StreamEnd]):
    """All links of one node; see `LinkLayer`.

    Args:
        streams: the network's connections.
    """

    def __init__(self, *args: Any, streams: Streams, **options: Any) -> None:
        super().__init__(*args, **options)
        #: Messages sent, by the name of their type.
        self.sent: Counter[str] = Counter()
        self._streams = streams
        self._loop = streams.loop
        self._context = contextvars.copy_context()
        self._address = (self.me.host, self.me.port)
        #: Connections that are open, with their link once greeted.
        self._ends: dict[StreamEnd, Link[StreamEnd] | None] = {}
        #: Links that are written to after the work at hand.
        self._due: dict[Link[StreamEnd], None] = {}
        self._watch_timer: asyncio.TimerHandle | None = None

    # ---- life

    async def start(self, bound: Bound) -> None:
        """Take calls; there is no socket."""
        self._streams.listen(self._address, self._accept)
        # Agents that were started together do not look after their links together.
        self._watch_in(self._look_s * self._rng.random())

    async def stop(self) -> None:
        """Close all links."""
        self.crash(silent=False)

    def crash(self, *, silent: bool) -> None:
        """End at once: with resets for the peers as when a process dies, or `silent` as when its machine does."""
        if self._stopping:
            return
        self._stopping = True
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        self._streams.deafen(self._address)
        for end in list(self._ends):
            if silent:
                end.vanish()
            else:
                end.close()
        self._ends.clear()
        self._peers.clear()

    def suspect(self, contact: Contact) -> bool:
        """Take a peer for lost; tells whether there was a link to it."""
        peer = self._peers.get(contact.id)
        if peer is None or peer.link is None:
            return False
        self._lose(peer)
        return True

    def send(self, to: Contact, message: Message) -> None:
        """Queue a message, and count it by its type."""
        self.sent[type(message).__name__] += not self._stopping
        super().send(to, message)

    def _watch_in(self, wait_s: float) -> None:
        self._watch_timer = self._loop.call_later(wait_s, self._watch, context=self._context)

    def _watch(self) -> None:
        self._look_after_links()
        if not self._stopping:
            self._watch_in(self._look_s)

    # ---- opening

    def _call(self, peer: Peer[StreamEnd]) -> None:
        to = (peer.contact.host, peer.contact.port)
        self._context.copy().run(self._streams.connect, self._address, to, self._caller(peer))

    def _caller(self, peer: Peer[StreamEnd]) -> Callable[[StreamEnd | None], None]:
        """Return what goes on when a connection to a peer is open, or could not be opened."""

        def opened(end: StreamEnd | None) -> None:
            if self._stopping:
                if end is not None:
                    end.close()
                return
            if end is None:
                self._give_up(peer)
                return
            mine = self._hello(peer.contact.id)
            caller = Caller(self._secret, mine)
            self._greet(end, lambda data: self._on_welcome(peer, end, mine, caller, data), lambda: self._give_up(peer))
            end.send(caller.greeting)

        return opened

    def _greet(self, end: StreamEnd, on_data: Callable[[bytes], None], on_failed: Callable[[], None]) -> None:
        """Wait for the next message of a greeting; a peer that says nothing legal in time is hung up on."""

        def fail() -> None:
            timer.cancel()
            if self._ends.pop(end, self) is None:
                end.close()
                on_failed()

        def take(data: bytes) -> None:
            timer.cancel()
            try:
                on_data(data)
            except RemoteProtocolError:
                self.counters["links_refused"] += 1
                fail()

        timer = self._loop.call_later(GREETING_S, fail, context=self._context)
        self._ends[end] = None
        end.on_data = take
        end.on_closed = fail

    def _on_welcome(self, peer: Peer[StreamEnd], end: StreamEnd, mine: Hello, caller: Caller, data: bytes) -> None:
        theirs, proof = caller.welcomed(data)
        if theirs.contact != peer.contact:
            raise RemoteProtocolError(f"{peer.contact.address} says it is {theirs.address}")
        end.send(proof)
        peer.calling = False
        self._run(self._link(end, mine, theirs, calling=True))

    def _accept(self, end: StreamEnd) -> None:
        """Answer a call."""
        if self._stopping:
            end.close()
        else:
            self._greet(end, lambda data: self._on_hello(end, data), lambda: None)

    def _on_hello(self, end: StreamEnd, data: bytes) -> None:
        answerer = Answerer(self._secret)
        theirs = answerer.called(data)
        if theirs.contact == self.me:
            raise RemoteProtocolError("a greeting with our own address")
        mine = self._hello(theirs.contact.id)
        end.send(answerer.welcome(theirs, mine))
        agreed(mine.offer, theirs.offer)

        def proven(proof: bytes) -> None:
            answerer.proven(proof)
            self._run(self._link(end, mine, theirs, calling=False))

        self._greet(end, proven, lambda: None)

    # ---- reading, writing, closing

    def _run(self, link: Link[StreamEnd]) -> None:
        """Use a connection from now on, if it is not void already."""
        self._ends[link.end] = link
        link.end.on_data = lambda data: self._read(link, data)
        link.end.on_closed = lambda: self._drop(link)
        if not self._adopt(link):
            self._drop(link)

    def _read(self, link: Link[StreamEnd], data: bytes) -> None:
        try:
            self._receive(link, data)
        except RemoteProtocolError:
            self.counters["links_refused"] += 1
            self._drop(link)

    def _write_soon(self, link: Link[StreamEnd]) -> None:
        # Once for all links and after the work at hand, as a writer task would: what is said together travels together.
        if not self._due:
            self._later(0.0, self._write)
        self._due[link] = None

    def _write(self) -> None:
        due = self._due
        self._due = {}
        now_ms, counters = self._clock(), self.counters
        for link in due:
            if self._is_current(link):
                for frame in link.channel.frames(now_ms):
                    counters["frames_out"] += 1
                    counters["bytes_out"] += len(frame)
                    link.end.send(frame)

    def _hang_up(self, link: Link[StreamEnd]) -> None:
        if self._ends.pop(link.end, None) is not None:
            link.end.close()

    def _later(self, wait_s: float, function: Callable[..., None], *args: Any) -> None:
        if wait_s:
            self._loop.call_later(wait_s, function, *args, context=self._context)
        else:
            self._loop.call_soon(function, *args, context=self._context)
