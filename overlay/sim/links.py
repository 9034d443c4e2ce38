"""`SimLinks`: the links of one simulated node, by callbacks instead of a task per connection.

Owns queues, greeting and liveness over `streams`, with the surface and the promises of `overlay.links.websocket.Links`
(its docstring says which): every message is encoded, every frame is a real `Channel`'s, greetings are the real ones.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from overlay.dht.auth import Secret
from overlay.errors import RemoteProtocolError
from overlay.ids import Contact
from overlay.links import handshake, wire
from overlay.links.channel import Channel, ChannelSettings
from overlay.links.door import GREETING_S
from overlay.links.handshake import Hello
from overlay.links.lanes import is_bulk
from overlay.links.peers import COUNTERS, QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX
from overlay.links.websocket import IDLE_MS, SUPERSEDED_S
from overlay.messages import Message, decode, encode
from overlay.sim.streams import StreamEnd, Streams


@dataclass(eq=False, slots=True)
class Link:
    """One connection after its greeting."""

    contact: Contact
    theirs: Hello
    opened_by: bytes
    losses: int
    end: StreamEnd
    channel: Channel
    used_ms: int
    messages: int = 0
    over: bool = False


@dataclass(eq=False, slots=True)
class Peer:
    """What waits for one agent, and the connection it goes out on, if there is one."""

    contact: Contact
    link: Link | None = None
    #: What waits for a link, with its lane; empty while there is one.
    waiting: list[tuple[bytes, bool]] = field(default_factory=list)
    waiting_bytes: int = 0
    calling: bool = False
    held: bool = False
    #: Whether it is among those that are written to after the work at hand.
    due: bool = False


class SimLinks:
    """All links of one node; see `overlay.links.websocket.Links`.

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
        on_congested: Callable[[list[Contact]], None] = lambda _: None,
        heartbeat_ms: int,
        lease_ms: int,
        streams: Streams,
        clock: Callable[[], int],
    ) -> None:
        self.me, self.agent = me, agent
        self.counters = dict.fromkeys(COUNTERS, 0)
        #: Messages sent, by the name of their type.
        self.sent: Counter[str] = Counter()
        self._secret, self._rng = secret, rng
        self._on_message, self._on_open, self._on_lost = on_message, on_open, on_lost
        self._on_congested, self._slow = on_congested, False
        self._settings = ChannelSettings(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)
        self._pause_s, self._woken_ms = heartbeat_ms / 2000, clock()
        self._streams, self._clock, self._loop = streams, clock, streams.loop
        self._context = contextvars.copy_context()
        self._address = (me.host, me.port)
        self._incarnation = rng.getrandbits(62)
        self._peers: dict[bytes, Peer] = {}
        self._ends: dict[StreamEnd, Link | None] = {}
        self._losses: dict[bytes, int] = {}
        self._due: list[Peer] = []
        self._watch_timer: asyncio.TimerHandle | None = None
        self._stopping = False

    # ---- life

    async def start(self, bound: object) -> None:
        """Take calls; there is no socket."""
        self._streams.listen(self._address, self._accept)
        # Agents that were started together do not look after their links together.
        self._watch_in(self._pause_s * self._rng.random())

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
        self.sent[type(message).__name__] += 1
        self.counters["messages_out"] += 1
        data, bulk, link = encode(message), is_bulk(message), peer.link
        if link is not None:
            link.channel.offer(data, bulk=bulk)
            self._write_soon(peer)
            if link.channel.failure is not None:
                self._loop.call_soon(self._lose, peer, context=self._context)
            return
        peer.waiting.append((data, bulk))
        peer.waiting_bytes += len(data)
        if peer.waiting_bytes > QUEUE_BYTES_MAX or len(peer.waiting) > QUEUE_MESSAGES_MAX:
            self._loop.call_soon(self._lose, peer, context=self._context)
        elif not peer.calling:
            peer.calling = True
            self._context.copy().run(self._streams.connect, self._address, (to.host, to.port), self._caller(peer))

    def congested(self) -> list[Contact]:
        """Return the peers that take less than they are sent."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None and peer.link.channel.congested]

    def hold(self, contacts: Iterable[Contact]) -> None:
        """Take bulk messages of these peers at a trickle, of all others freely; replaces the last call."""
        held = {contact.id for contact in contacts}
        for peer in self._peers.values():
            peer.held = peer.contact.id in held
            if peer.link is not None:
                peer.link.channel.hold(peer.held)
                self._write_soon(peer)

    def connected(self) -> list[Contact]:
        """Return the peers with a link."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None]

    def agent_of(self, contact: Contact) -> str | None:
        """Return the name of the agent at the other end of a link."""
        peer = self._peers.get(contact.id)
        return peer.link.theirs.agent if peer is not None and peer.link is not None else None

    def _write_soon(self, peer: Peer) -> None:
        # Once for all peers and after the work at hand, as a writer task would: what is said together travels together.
        if not peer.due:
            peer.due = True
            if not self._due:
                self._loop.call_soon(self._write, context=self._context)
            self._due.append(peer)

    def _write(self) -> None:
        due, self._due = self._due, []
        now_ms = self._clock()
        counters = self.counters
        for peer in due:
            peer.due = False
            link = peer.link
            if link is None:
                continue
            for frame in link.channel.frames(now_ms):
                counters["frames_out"] += 1
                counters["bytes_out"] += len(frame)
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
            end.send(handshake.greet(self._secret, mine))

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
        framer = handshake.framer(self._secret, mine, theirs, calling=True)
        self._run(self._link(peer.contact, theirs, self.me.id, mine.losses, end, framer))

    def _accept(self, end: StreamEnd) -> None:
        """Answer a call."""
        if self._stopping:
            end.close()
        else:
            self._greet(end, lambda data: self._on_hello(end, data), lambda: None)

    def _on_hello(self, end: StreamEnd, data: bytes) -> None:
        theirs = handshake.read_hello(self._secret, data)
        if theirs.contact == self.me:
            raise RemoteProtocolError("a greeting with our own address")
        mine = self._hello(theirs.contact.id)
        end.send(handshake.answer(self._secret, theirs, mine))

        def proven(proof: bytes) -> None:
            handshake.check_proof(self._secret, theirs, mine, proof)
            framer = handshake.framer(self._secret, theirs, mine, calling=False)
            self._run(self._link(theirs.contact, theirs, theirs.contact.id, mine.losses, end, framer))

        self._greet(end, proven, lambda: None)

    def _link(
        self, contact: Contact, theirs: Hello, opened_by: bytes, losses: int, end: StreamEnd, framer: wire.Framer
    ) -> Link:
        now_ms = self._clock()
        return Link(contact, theirs, opened_by, losses, end, Channel(framer, self._settings, now_ms), now_ms)

    # ---- one link of each peer

    def _run(self, link: Link) -> None:
        """Use a connection from now on, if it is not void already."""
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
            urgent, bulk = old.channel.drain()
            peer.waiting = [(message, False) for message in urgent] + [(message, True) for message in bulk]
        peer.link = link
        for message, is_bulk_message in peer.waiting:
            link.channel.offer(message, bulk=is_bulk_message)
        peer.waiting, peer.waiting_bytes = [], 0
        link.channel.hold(peer.held)
        self._write_soon(peer)
        self.counters["links_opened"] += 1
        self._on_open(peer.contact)
        return True

    def _retire(self, link: Link) -> None:
        self._loop.call_later(SUPERSEDED_S, self._end, link, context=self._context)

    def _read(self, link: Link, data: bytes) -> None:
        channel = link.channel
        self.counters["frames_in"] += 1
        self.counters["bytes_in"] += len(data)
        try:
            for message in channel.received(data, self._clock()):
                if link.over:
                    return  # lost by what came before; nothing may come after `on_lost`
                self.counters["messages_in"] += 1
                self._on_message(link.contact, decode(message))
            if channel.failure is not None:
                raise RemoteProtocolError(channel.failure)
        except RemoteProtocolError:
            self.counters["links_refused"] += 1
            self._end(link)
            return
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is link and channel.ready:
            self._write_soon(peer)

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
        peer.waiting.clear()
        if link is not None:
            link.over = True
            self.counters["links_lost"] += 1
            self._end(link)
        if not self._stopping:
            self._on_lost(peer.contact)

    def _watch_in(self, wait_s: float) -> None:
        self._watch_timer = self._loop.call_later(wait_s, self._watch, context=self._context)

    def _watch(self) -> None:
        """Let quiet channels speak, end silent and idle ones; as `Links` does."""
        now_ms = self._clock()
        slept, self._woken_ms = now_ms - self._woken_ms > 4000 * self._pause_s, now_ms
        congested: list[Contact] = []
        for peer in list(self._peers.values()):
            link = peer.link
            if link is None:
                continue
            channel = link.channel
            channel.tick(now_ms)
            if channel.congested:
                congested.append(peer.contact)
            if channel.messages != link.messages:
                link.messages, link.used_ms = channel.messages, now_ms
            idle = now_ms - link.used_ms > IDLE_MS and not channel.queued_bytes
            if idle or (channel.is_lost(now_ms) and not slept):
                self._lose(peer)
            elif channel.ready or now_ms >= channel.due_ms:
                self._write_soon(peer)
        if self._slow or congested:
            self._slow = bool(congested)
            self._on_congested(congested)
        if not self._stopping:
            self._watch_in(self._pause_s)
