"""Links to other agents: one WebSocket per pair, used both ways, opened when first needed.

Owns sockets, queues and liveness; no decision about trees. A link is lost as a whole: when it closes, falls silent,
carries something illegal or its queue overflows, everything queued is dropped and `on_lost` is called once; the
machines above then send again what matters. Within one link nothing is lost, repeated or reordered. OVERLAY 6.1.

Two agents may call each other at the same moment. Both then prefer the connection that the agent with the lower id
opened, and the other is closed after a while. Greetings carry how often their sender has lost the receiver, so an end
that still trusts an old connection learns that its edges are void, and starts afresh.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from overlay import handshake, wire
from overlay.clock import now_ms
from overlay.dht.auth import Secret
from overlay.errors import RemoteProtocolError
from overlay.handshake import Hello
from overlay.ids import Contact
from overlay.messages import Message, Ping, decode, encode

log = logging.getLogger(__name__)

PATH = "/overlay/v1"
HANDSHAKE_S = 5.0
#: What may wait for a slow peer; past it the link is given up, since its peer would be leapt anyhow.
QUEUE_BYTES_MAX = 64 << 20
QUEUE_MESSAGES_MAX = 20_000
#: A link without any message but pings for this long is closed.
IDLE_MS = 120_000
#: A superseded connection may still deliver for this long.
SUPERSEDED_S = 1.0

_Socket = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


@dataclass(eq=False, slots=True)
class Link:
    """One connection after its greeting."""

    contact: Contact
    theirs: Hello
    opened_by: bytes
    losses: int
    socket: _Socket
    framer: wire.Framer
    heard_ms: int
    said_ms: int = 0
    used_ms: int = 0


@dataclass(eq=False, slots=True)
class Peer:
    """What waits for one agent, and the connection it goes out on, if there is one."""

    contact: Contact
    link: Link | None = None
    queue: deque[bytes] = field(default_factory=deque)
    queue_bytes: int = 0
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    calling: bool = False


class Links:
    """All links of one node.

    Args:
        me: this node; `agent`: its name.
        on_message: called on the loop with each message, in order per link.
        on_open: called when a link to a peer is up.
        on_lost: called once when a peer's link is gone, or could not be opened.
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
    ) -> None:
        self.me, self.agent = me, agent
        self.counters = dict.fromkeys(
            ("frames_in", "frames_out", "bytes_in", "bytes_out", "links_opened", "links_lost", "links_refused"), 0
        )
        self._secret, self._rng = secret, rng
        self._on_message, self._on_open, self._on_lost = on_message, on_open, on_lost
        self._heartbeat_ms, self._lease_ms = heartbeat_ms, lease_ms
        self._incarnation = rng.getrandbits(62)
        self._peers: dict[bytes, Peer] = {}
        self._open: set[Link] = set()
        self._losses: dict[bytes, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._client: aiohttp.ClientSession | None = None
        self._stopping = False

    # ---- life

    async def start(self, listener: socket.socket) -> None:
        """Serve on a bound TCP socket, which is ours from now on."""
        app = web.Application()
        app.router.add_get(PATH, self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, backlog=512).start()
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
        if self._runner is not None:
            await self._runner.cleanup()
        self._peers.clear()

    # ---- sending

    def send(self, to: Contact, message: Message) -> None:
        """Queue a message; opens a link if there is none. A failure is told by `on_lost`."""
        self.send_bytes(to, encode(message))

    def send_bytes(self, to: Contact, data: bytes) -> None:
        """Queue an encoded message."""
        if self._stopping:
            return
        peer = self._peers.get(to.id)
        if peer is None:
            peer = self._peers[to.id] = Peer(to)
        peer.queue.append(data)
        peer.queue_bytes += len(data)
        peer.filled.set()
        if peer.queue_bytes > QUEUE_BYTES_MAX or len(peer.queue) > QUEUE_MESSAGES_MAX:
            log.warning("link to %s is too slow: %d bytes waiting; given up", to.address, peer.queue_bytes)
            # Not from inside a machine's effects: losing the peer is an input of its own.
            asyncio.get_running_loop().call_soon(self._lose, peer)
        elif peer.link is None and not peer.calling:
            peer.calling = True
            self._spawn(self._call(peer))

    def connected(self) -> list[Contact]:
        """Return the peers with a link."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None]

    def agent_of(self, contact: Contact) -> str | None:
        """Return the name of the agent at the other end of a link."""
        peer = self._peers.get(contact.id)
        return peer.link.theirs.agent if peer is not None and peer.link is not None else None

    async def _write(self, peer: Peer, link: Link) -> None:
        """Send what is queued for a peer as long as this is its link."""
        try:
            while peer.link is link:
                if not peer.queue:
                    peer.filled.clear()
                    await peer.filled.wait()
                    continue
                data = peer.queue.popleft()
                peer.queue_bytes -= len(data)
                frame = link.framer.wrap(data)
                link.said_ms = now_ms()
                self.counters["frames_out"] += 1
                self.counters["bytes_out"] += len(frame)
                await link.socket.send_bytes(frame)
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            log.debug("link to %s: %s", link.contact.address, error)
            self._drop(link)

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
            async with asyncio.timeout(HANDSHAKE_S):
                link = await self._greet(self._client, peer.contact)
        except (OSError, aiohttp.ClientError, RemoteProtocolError, TimeoutError) as error:
            log.debug("calling %s: %s", peer.contact.address, error or type(error).__name__)
            self.counters["links_refused"] += isinstance(error, RemoteProtocolError)
        finally:
            peer.calling = False
        if link is None:
            if peer.link is None:
                self._lose(peer)
            return
        await self._run(link)

    async def _greet(self, client: aiohttp.ClientSession, to: Contact) -> Link:
        ws = await client.ws_connect(
            f"http://{to.address}{PATH}",
            compress=0,
            max_msg_size=wire.FRAME_BYTES_MAX,
            timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
        )
        try:
            mine = self._hello(to.id)
            await ws.send_bytes(msgspec.msgpack.encode(mine))
            theirs, proof = handshake.read_answer(self._secret, mine, await ws.receive_bytes())
            if theirs.contact != to:
                raise RemoteProtocolError(f"{to.address} says it is {theirs.address}")
            await ws.send_bytes(proof)
        except TypeError as error:  # aiohttp: "not bytes", the peer closed or sent text
            await ws.close()
            raise RemoteProtocolError(f"{to.address} closed during the greeting") from error
        except BaseException:
            await ws.close()
            raise
        framer = handshake.framer(self._secret, mine, theirs, calling=True)
        return Link(to, theirs, self.me.id, mine.losses, ws, framer, now_ms(), used_ms=now_ms())

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        """Answer a call."""
        ws = web.WebSocketResponse(compress=False, max_msg_size=wire.FRAME_BYTES_MAX, timeout=1.0)
        await ws.prepare(request)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                theirs = handshake.read_hello(await ws.receive_bytes())
                if theirs.contact == self.me:
                    raise RemoteProtocolError("a greeting with our own address")
                mine = self._hello(theirs.contact.id)
                await ws.send_bytes(handshake.answer(self._secret, theirs, mine))
                handshake.check_proof(self._secret, theirs, mine, await ws.receive_bytes())
        except (RemoteProtocolError, TypeError, TimeoutError, ConnectionError, aiohttp.ClientError) as error:
            self.counters["links_refused"] += 1
            log.info("call from %s refused: %s", request.remote, error or type(error).__name__)
            await ws.close(code=aiohttp.WSCloseCode.POLICY_VIOLATION)
            return ws
        framer = handshake.framer(self._secret, theirs, mine, calling=False)
        contact = theirs.contact
        await self._run(Link(contact, theirs, contact.id, mine.losses, ws, framer, now_ms(), used_ms=now_ms()))
        return ws

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
        peer.link = link
        peer.filled.set()  # wakes the old writer, which ends
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
            peer = self._peers.get(link.contact.id)
            if peer is not None and peer.link is link:
                self._lose(peer)
            await link.socket.close()

    async def _read(self, link: Link) -> None:
        async for received in link.socket:
            if received.type is not aiohttp.WSMsgType.BINARY:
                if received.type is aiohttp.WSMsgType.TEXT:
                    raise RemoteProtocolError("text on a binary link")
                return
            link.heard_ms = now_ms()
            self.counters["frames_in"] += 1
            self.counters["bytes_in"] += len(received.data)
            message = decode(link.framer.unwrap(received.data))
            if not isinstance(message, Ping):
                link.used_ms = link.heard_ms
                self._on_message(link.contact, message)

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
        peer.queue.clear()
        peer.filled.set()
        if link is not None:
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
        """Say something on quiet links, end silent and idle ones."""
        ping = encode(Ping())
        while True:
            await asyncio.sleep(self._heartbeat_ms / 1000)
            now = now_ms()
            for peer in list(self._peers.values()):
                link = peer.link
                if link is None:
                    continue
                if now - link.heard_ms > self._lease_ms:
                    log.info("link with %s is silent for %d ms; lost", link.contact.address, now - link.heard_ms)
                    self._lose(peer)
                elif now - link.used_ms > IDLE_MS and not peer.queue:
                    self._lose(peer)
                elif now - link.said_ms >= self._heartbeat_ms:
                    self.send_bytes(peer.contact, ping)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
