"""Links to other agents: one WebSocket per pair, used both ways, opened when first needed.

Owns sockets and tasks; no decision about trees, and what is said when is `overlay.links.channel`'s. A link is lost as a
whole: when it closes, falls silent, carries something illegal or its queue overflows, everything queued is dropped and
`on_lost` is called once; the machines above then send again what matters. Within a lane of one link nothing is lost,
repeated or reordered. OVERLAY 6.1.

Two agents may call each other at the same moment. Both then prefer the connection that the agent with the lower id
opened, and the other is closed after a while. Greetings carry how often their sender has lost the receiver, so an end
that still trusts an old connection learns that its edges are void, and starts afresh.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import aiohttp
from aiohttp import web

from overlay.clock import now_ms
from overlay.dht.auth import Secret
from overlay.errors import RemoteProtocolError
from overlay.ids import Contact
from overlay.links import greeting, handshake, wire
from overlay.links.binding import Bound
from overlay.links.channel import Channel, ChannelSettings
from overlay.links.door import Door
from overlay.links.handshake import Hello
from overlay.links.lanes import is_bulk
from overlay.links.peers import COUNTERS, Link, Peer, Socket
from overlay.links.tls import Tls, is_refusal, refusal
from overlay.messages import Message, decode, encode

log = logging.getLogger(__name__)

#: Refusals remembered, so that each is said once.
REFUSALS_MAX = 1_024
#: Frames made in one go; more are made when the socket has taken these, so what waits can still be overtaken.
WRITE_BYTES = 256 << 10
#: A link without any message but pings for this long is closed.
IDLE_MS = 120_000
#: A superseded connection may still deliver for this long.
SUPERSEDED_S = 1.0


class Links:
    """All links of one node.

    Args:
        me: this node; `agent`: its name.
        on_message: called on the loop with each message, in order per link.
        on_open: called when a link to a peer is up.
        on_lost: called once when a peer's link is gone, or could not be opened.
        on_congested: called now and then while links are congested, with their peers, and once when none is any more.
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
    ) -> None:
        self.me, self.agent = me, agent
        self.counters = dict.fromkeys(COUNTERS, 0)
        self._secret, self._rng = secret, rng
        self._on_message, self._on_open, self._on_lost = on_message, on_open, on_lost
        self._on_congested = on_congested
        self._settings = ChannelSettings(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)
        self._incarnation = rng.getrandbits(62)
        self._peers: dict[bytes, Peer] = {}
        self._open: set[Link] = set()
        self._losses: dict[bytes, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._tls: Tls | None = None
        self._frame_secret = secret
        #: Who was refused, and why, as last said.
        self._refusals: dict[str, str] = {}
        self._runner: web.AppRunner | None = None
        self._door: Door | None = None
        self._client: aiohttp.ClientSession | None = None
        self._stopping = False

    # ---- life

    async def start(self, bound: Bound) -> None:
        """Serve on a bound TCP socket, which is ours from now on."""
        assert bound.tcp is not None
        self._tls = bound.tls
        # TLS protects frames as well as tags would.
        self._frame_secret = None if bound.tls is not None else self._secret
        app = web.Application()
        app.router.add_get(greeting.PATH, self._serve)
        app.on_response_prepare.append(_say_little)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        assert self._runner.server is not None
        self._door = Door(bound.tcp, self._runner.server, self._tls.server if self._tls else None, self._refuse)
        self._door.open()
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._spawn(self._watch())

    async def stop(self) -> None:
        """Close all links and the server."""
        self._stopping = True
        for link in list(self._open):
            self._spawn(self._close(link), "close")
        closing = [task for task in self._tasks if task.get_name() == "close"]
        if closing:
            await asyncio.wait(closing, timeout=2.0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        if self._door is not None:
            await self._door.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._peers.clear()

    # ---- sending

    def send(self, to: Contact, message: Message) -> None:
        """Queue a message; opens a link if there is none. A failure is told by `on_lost`."""
        if self._stopping:
            return
        peer = self._peers.get(to.id)
        if peer is None:
            peer = self._peers[to.id] = Peer(to)
        self.counters["messages_out"] += 1
        trouble = peer.offer(encode(message), bulk=is_bulk(message))
        if trouble is not None:
            log.warning("link to %s is given up: %s", to.address, trouble)
            # Not from inside a machine's effects: losing the peer is an input of its own.
            asyncio.get_running_loop().call_soon(self._lose, peer)
        elif peer.link is None and not peer.calling:
            peer.calling = True
            self._spawn(self._call(peer))

    def congested(self) -> list[Contact]:
        """Return the peers that take less than they are sent: whoever produces for them should rest."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None and peer.link.channel.congested]

    def hold(self, contacts: Iterable[Contact]) -> None:
        """Take bulk messages of these peers at a trickle, of all others freely; replaces the last call."""
        held = {contact.id for contact in contacts}
        for peer in self._peers.values():
            peer.held = peer.contact.id in held
            if peer.link is not None:
                peer.link.channel.hold(peer.held)
                self._wake(peer.link)

    def connected(self) -> list[Contact]:
        """Return the peers with a link."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None]

    def agent_of(self, contact: Contact) -> str | None:
        """Return the name of the agent at the other end of a link."""
        peer = self._peers.get(contact.id)
        return peer.link.theirs.agent if peer is not None and peer.link is not None else None

    async def _write(self, peer: Peer, link: Link) -> None:
        """Send what the channel has to say as long as this is the peer's link."""
        channel, counters = link.channel, self.counters
        try:
            while peer.link is link:
                await link.wake.wait()
                link.wake.clear()
                for frame in channel.frames(now_ms(), WRITE_BYTES):
                    counters["frames_out"] += 1
                    counters["bytes_out"] += len(frame)
                    await link.socket.send_bytes(frame)
                if channel.ready:
                    link.wake.set()
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            log.debug("link to %s: %s", link.contact.address, error)
            self._drop(link)

    def _wake(self, link: Link) -> None:
        if link.channel.ready:
            link.wake.set()

    # ---- opening

    def _hello(self, other: bytes) -> Hello:
        nonce = self._rng.randbytes(handshake.NONCE_BYTES)
        losses = self._losses.get(other, 0)
        return Hello(wire.VERSION, self.me.address, self.agent, self._incarnation, losses, nonce)

    async def _call(self, peer: Peer) -> None:
        """Open a connection, greet, and read it until it closes."""
        assert self._client is not None
        link = None
        try:
            mine = self._hello(peer.contact.id)
            ws, theirs = await greeting.call(self._client, peer.contact, self._secret, self._tls, mine)
            framer = handshake.framer(self._frame_secret, mine, theirs, calling=True)
            link = self._link(peer.contact, theirs, self.me.id, mine.losses, ws, framer)
            self._refusals.pop(peer.contact.address, None)
        except RemoteProtocolError as error:
            self._refuse(peer.contact.address, str(error))
        except greeting.UNREACHABLE as error:
            if is_refusal(error):
                self._refuse(peer.contact.address, refusal(error))
            else:
                log.debug("calling %s: %s", peer.contact.address, refusal(error))
        finally:
            peer.calling = False
        if link is None:
            if peer.link is None:
                self._lose(peer)
            return
        await self._run(link)

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        """Answer a call."""
        assert self._door is not None
        ws = web.WebSocketResponse(compress=False, max_msg_size=wire.FRAME_BYTES_MAX, timeout=1.0)
        await ws.prepare(request)
        who = request.remote or "a caller"
        try:
            theirs, mine = await greeting.answer(request, ws, self._secret, self.me, self._hello)
        except (RemoteProtocolError, *greeting.UNREACHABLE) as error:
            self._refuse(who, refusal(error))
            await ws.close(code=aiohttp.WSCloseCode.POLICY_VIOLATION)
            return ws
        self._door.admit(request.transport)
        self._refusals.pop(who, None)
        framer = handshake.framer(self._frame_secret, theirs, mine, calling=False)
        contact = theirs.contact
        await self._run(self._link(contact, theirs, contact.id, mine.losses, ws, framer))
        return ws

    def _refuse(self, who: str, why: str) -> None:
        """Count a refusal, and say it once until it changes: whoever is refused comes again every second."""
        self.counters["links_refused"] += 1
        if self._refusals.get(who) != why:
            if len(self._refusals) >= REFUSALS_MAX:
                self._refusals.clear()
            self._refusals[who] = why
            log.warning("no link with %s: %s", who, why)

    def _link(
        self, contact: Contact, theirs: Hello, opened_by: bytes, losses: int, ws: Socket, framer: wire.Framer
    ) -> Link:
        now = now_ms()
        return Link(contact, theirs, opened_by, losses, ws, Channel(framer, self._settings, now), now)

    def _adopt(self, link: Link) -> bool:
        """Make a new connection the peer's link, or keep it for reading only; False if it is void already."""
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is not None and peer.link.theirs.session != link.theirs.session:
            self._lose(peer)
            peer = None
        if link.losses != self._losses.get(link.contact.id, 0):
            return False  # we lost this peer while the greeting was under way; it must not take us for unchanged
        if peer is None:
            peer = self._peers.setdefault(link.contact.id, Peer(link.contact))
        old = peer.link
        if old is not None and old.opened_by != link.opened_by and old.opened_by < link.opened_by:
            self._retire(link)
            return True
        if old is not None:
            self._retire(old)
            peer.take_back(old)
            old.wake.set()  # its writer ends
        peer.link = link
        peer.hand_over()
        link.channel.hold(peer.held)
        link.wake.set()
        self.counters["links_opened"] += 1
        self._spawn(self._write(peer, link))
        self._on_open(peer.contact)
        return True

    def _retire(self, link: Link) -> None:
        asyncio.get_running_loop().call_later(SUPERSEDED_S, self._drop, link)

    # ---- reading and closing

    async def _run(self, link: Link) -> None:
        """Read a connection until it ends, whoever ends it."""
        self._open.add(link)
        try:
            if not self._stopping and self._adopt(link):
                await self._read(link)
        except (RemoteProtocolError, ConnectionError, aiohttp.ClientError) as error:
            self.counters["links_refused"] += isinstance(error, RemoteProtocolError)
            log.warning("link with %s ends: %s", link.contact.address, error)
        finally:
            self._open.discard(link)
            link.count(self.counters, now_ms())
            peer = self._peers.get(link.contact.id)
            if peer is not None and peer.link is link:
                self._lose(peer)
            await link.socket.close()

    async def _read(self, link: Link) -> None:
        channel, counters = link.channel, self.counters
        while True:
            received = await link.socket.receive()
            if received.type is not aiohttp.WSMsgType.BINARY:
                if received.type is aiohttp.WSMsgType.TEXT:
                    raise RemoteProtocolError("text on a binary link")
                return
            counters["frames_in"] += 1
            counters["bytes_in"] += len(received.data)
            for data in channel.received(received.data, now_ms()):
                if link.over:
                    return  # lost by what came before; nothing may come after `on_lost`
                counters["messages_in"] += 1
                self._on_message(link.contact, decode(data))
            if channel.failure is not None:
                raise RemoteProtocolError(channel.failure)
            self._wake(link)

    def _drop(self, link: Link) -> None:
        """End one connection; its peer is lost if this was its link."""
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is link:
            self._lose(peer)
        elif link in self._open:
            self._spawn(self._close(link), "close")

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
            link.wake.set()  # its writer ends
            self.counters["links_lost"] += 1
            self._spawn(self._close(link), "close")
        if not self._stopping:
            self._on_lost(peer.contact)

    async def _close(self, link: Link) -> None:
        try:
            await link.socket.close()
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            log.debug("closing the link with %s: %s", link.contact.address, error)

    async def _watch(self) -> None:
        """Let quiet channels speak, end silent and idle ones."""
        pause_ms = self._settings.heartbeat_ms // 2
        woken, slow = now_ms(), False
        while True:
            await asyncio.sleep(pause_ms / 1000)
            now = now_ms()
            # After a pause of our own, what was sent to us meanwhile must be read before anybody is called silent.
            slept, woken = now - woken > 2 * pause_ms, now
            if slow or self.congested():
                slow = bool(congested := self.congested())
                self._on_congested(congested)
            for peer in list(self._peers.values()):
                link = peer.link
                if link is None:
                    continue
                channel = link.channel
                channel.tick(now)
                link.count(self.counters, now)
                if channel.is_lost(now) and not slept:
                    trouble = channel.failure or f"silent for {now - channel.heard_ms} ms"
                    log.info("link with %s is lost: %s", link.contact.address, trouble)
                    self._lose(peer)
                elif now - link.used_ms > IDLE_MS and not channel.queued_bytes:
                    self._lose(peer)
                elif channel.ready or now >= channel.due_ms:
                    link.wake.set()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _say_little(request: web.Request, response: web.StreamResponse) -> None:
    """Tell strangers no versions."""
    response.headers["Server"] = "elf"
