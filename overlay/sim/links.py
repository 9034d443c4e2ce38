"""`SimLinks`: the links of one simulated node, by callbacks instead of a task per connection.

Owns queues, greeting and liveness over `streams`, with the surface and the promises of `overlay.links.Links` (its
docstring says which): every message is encoded, carried in a frame and decoded; greetings are the real ones.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from overlay import handshake, wire
from overlay.dht.auth import Secret
from overlay.errors import RemoteProtocolError
from overlay.handshake import Hello
from overlay.ids import Contact
from overlay.links import HANDSHAKE_S, IDLE_MS, SUPERSEDED_S
from overlay.messages import Message, Ping, decode, encode
from overlay.peers import QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX
from overlay.sim.streams import StreamEnd, Streams


@dataclass(eq=False, slots=True)
class Link:
    """One connection after its greeting."""

    contact: Contact
    theirs: Hello
    opened_by: bytes
    losses: int
    end: StreamEnd
    heard_ms: int
    said_ms: int = 0
    used_ms: int = 0


@dataclass(eq=False, slots=True)
class Peer:
    """What waits for one agent, and the connection it goes out on, if there is one."""

    contact: Contact
    link: Link | None = None
    queue: list[bytes] = field(default_factory=list)
    queue_bytes: int = 0
    calling: bool = False


class SimLinks:
    """All links of one node; see `overlay.links.Links`.

    Args:
        streams: the network's connections.
        clock: the node's clock in ms.
    """

    def __init__(
        self,
        me: Contact,
        agent: str,
        secret: Secret | None,
        rng: random.Random,
        *,
        on_message: Callable[[Contact, Message], None],
        on_open: Callable[[Contact], None],
        on_lost: Callable[[Contact], None],
        heartbeat_ms: int,
        lease_ms: int,
        streams: Streams,
        clock: Callable[[], int],
    ) -> None:
        self.me, self.agent = me, agent
        self.counters = dict.fromkeys(
            ("frames_in", "frames_out", "bytes_in", "bytes_out", "links_opened", "links_lost", "links_refused"), 0
        )
        #: Messages sent, by the name of their type.
        self.sent: Counter[str] = Counter()
        self._secret, self._rng = secret, rng
        self._on_message, self._on_open, self._on_lost = on_message, on_open, on_lost
        self._heartbeat_ms, self._lease_ms = heartbeat_ms, lease_ms
        self._streams, self._clock, self._loop = streams, clock, streams.loop
        self._context = contextvars.copy_context()
        self._address = (me.host, me.port)
        self._incarnation = rng.getrandbits(62)
        self._peers: dict[bytes, Peer] = {}
        self._ends: dict[StreamEnd, Link | None] = {}
        self._losses: dict[bytes, int] = {}
        self._full: list[Peer] = []
        self._watch_timer: asyncio.TimerHandle | None = None
        self._stopping = False

    # ---- life

    async def start(self, listener: object) -> None:
        """Take calls; there is no socket, so `listener` is None."""
        self._streams.listen(self._address, self._accept)
        # Agents that were started together do not look after their links together.
        self._watch_in(self._heartbeat_ms * self._rng.random())

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

    # ---- sending

    def send(self, to: Contact, message: Message) -> None:
        """Queue a message; opens a link if there is none. A failure is told by `on_lost`."""
        if self._stopping:
            return
        peer = self._peers.get(to.id)
        if peer is None:
            peer = self._peers[to.id] = Peer(to)
        data = encode(message)
        self.sent[type(message).__name__] += 1
        if not peer.queue and peer.link is not None:
            self._flush_soon(peer)
        peer.queue.append(data)
        peer.queue_bytes += len(data)
        if peer.queue_bytes > QUEUE_BYTES_MAX or len(peer.queue) > QUEUE_MESSAGES_MAX:
            self._loop.call_soon(self._lose, peer, context=self._context)
        elif peer.link is None and not peer.calling:
            peer.calling = True
            self._context.copy().run(self._streams.connect, self._address, (to.host, to.port), self._caller(peer))

    def connected(self) -> list[Contact]:
        """Return the peers with a link."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None]

    def agent_of(self, contact: Contact) -> str | None:
        """Return the name of the agent at the other end of a link."""
        peer = self._peers.get(contact.id)
        return peer.link.theirs.agent if peer is not None and peer.link is not None else None

    def _flush_soon(self, peer: Peer) -> None:
        # Once for all peers and after the work at hand, as a writer task would.
        if not self._full:
            self._loop.call_soon(self._flush, context=self._context)
        self._full.append(peer)

    def _flush(self) -> None:
        full, self._full = self._full, []
        for peer in full:
            link = peer.link
            if link is None or self._peers.get(peer.contact.id) is not peer:
                continue
            link.said_ms = self._clock()
            frame = _encoder.encode(peer.queue)
            peer.queue.clear()
            peer.queue_bytes = 0
            self.counters["frames_out"] += 1
            self.counters["bytes_out"] += len(frame)
            link.end.send(frame)

    # ---- greeting

    def _hello(self, other: bytes) -> Hello:
        nonce = self._rng.randbytes(handshake.NONCE_BYTES)
        return Hello(wire.VERSION, self.me.address, self.agent, self._incarnation, self._losses.get(other, 0), nonce)

    def _caller(self, peer: Peer) -> Callable[[StreamEnd | None], None]:
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
            self._greet(end, lambda data: self._on_welcome(peer, end, mine, data), lambda: self._give_up(peer))
            end.send(msgspec.msgpack.encode(mine))

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

        timer = self._loop.call_later(HANDSHAKE_S, fail, context=self._context)
        self._ends[end] = None
        end.on_data, end.on_closed = take, fail

    def _give_up(self, peer: Peer) -> None:
        peer.calling = False
        if peer.link is None and not self._stopping:
            self._lose(peer)

    def _on_welcome(self, peer: Peer, end: StreamEnd, mine: Hello, data: bytes) -> None:
        theirs, proof = handshake.read_answer(self._secret, mine, data)
        if theirs.contact != peer.contact:
            raise RemoteProtocolError(f"{peer.contact.address} says it is {theirs.address}")
        end.send(proof)
        peer.calling = False
        self._run(Link(peer.contact, theirs, self.me.id, mine.losses, end, self._clock()))

    def _accept(self, end: StreamEnd) -> None:
        """Answer a call."""
        if self._stopping:
            end.close()
        else:
            self._greet(end, lambda data: self._on_hello(end, data), lambda: None)

    def _on_hello(self, end: StreamEnd, data: bytes) -> None:
        theirs = handshake.read_hello(data)
        if theirs.contact == self.me:
            raise RemoteProtocolError("a greeting with our own address")
        mine = self._hello(theirs.contact.id)
        end.send(handshake.answer(self._secret, theirs, mine))

        def proven(proof: bytes) -> None:
            handshake.check_proof(self._secret, theirs, mine, proof)
            contact = theirs.contact
            self._run(Link(contact, theirs, contact.id, mine.losses, end, self._clock()))

        self._greet(end, proven, lambda: None)

    # ---- one link of each peer

    def _run(self, link: Link) -> None:
        """Use a connection from now on, if it is not void already."""
        link.used_ms = link.said_ms = link.heard_ms
        self._ends[link.end] = link
        link.end.on_data = lambda data: self._read(link, data)
        link.end.on_closed = lambda: self._end(link)
        if not self._adopt(link):
            self._end(link)

    def _adopt(self, link: Link) -> bool:
        """Make a new connection the peer's link, or keep it for reading only; as `Links` does."""
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is not None and peer.link.theirs.session != link.theirs.session:
            self._lose(peer)
            peer = None
        if link.losses != self._losses.get(link.contact.id, 0):
            return False
        if peer is None:
            peer = self._peers.setdefault(link.contact.id, Peer(link.contact))
        old = peer.link
        if old is not None and old.opened_by != link.opened_by and old.opened_by < link.opened_by:
            self._retire(link)
            return True
        if old is not None:
            self._retire(old)
        peer.link = link
        self.counters["links_opened"] += 1
        if peer.queue:
            self._flush_soon(peer)
        self._on_open(peer.contact)
        return True

    def _retire(self, link: Link) -> None:
        self._loop.call_later(SUPERSEDED_S, self._end, link, context=self._context)

    def _read(self, link: Link, data: bytes) -> None:
        link.heard_ms = self._clock()
        self.counters["frames_in"] += 1
        self.counters["bytes_in"] += len(data)
        try:
            for part in _decoder.decode(data):
                message = decode(part)
                if not isinstance(message, Ping):
                    link.used_ms = link.heard_ms
                    self._on_message(link.contact, message)
        except RemoteProtocolError:
            self.counters["links_refused"] += 1
            self._end(link)

    def _end(self, link: Link) -> None:
        """End one connection; its peer is lost if this was its link."""
        if self._ends.pop(link.end, None) is None:
            return
        link.end.close()
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is link:
            self._lose(peer)

    def _lose(self, peer: Peer) -> None:
        """Forget a peer with all that is queued for it, and tell."""
        if self._peers.get(peer.contact.id) is not peer:
            return
        del self._peers[peer.contact.id]
        self._losses[peer.contact.id] = self._losses.get(peer.contact.id, 0) + 1
        link, peer.link = peer.link, None
        peer.queue.clear()
        if link is not None:
            self.counters["links_lost"] += 1
            self._end(link)
        if not self._stopping:
            self._on_lost(peer.contact)

    def _watch_in(self, wait_ms: float) -> None:
        self._watch_timer = self._loop.call_later(wait_ms / 1000, self._watch, context=self._context)

    def _watch(self) -> None:
        """Say something on quiet links, end silent and idle ones."""
        now_ms = self._clock()
        for peer in list(self._peers.values()):
            link = peer.link
            if link is None:
                continue
            idle = now_ms - link.used_ms > IDLE_MS and not peer.queue
            if idle or now_ms - link.heard_ms > self._lease_ms:
                self._lose(peer)
            elif now_ms - link.said_ms >= self._heartbeat_ms:
                self.send(peer.contact, _PING)
        if not self._stopping:
            self._watch_in(self._heartbeat_ms)


_PING = Ping()
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[bytes])
