"""Links over WebSockets: one per pair of agents, used both ways, opened when first needed.

Owns sockets and tasks; which connection counts and when a link is lost is `elf.overlay.links.layer`'s. Shell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from elf.overlay.errors import RemoteProtocolError
from elf.overlay.links import greeting, wire
from elf.overlay.links.binding import Bound
from elf.overlay.links.door import Door, admit
from elf.overlay.links.layer import LinkLayer
from elf.overlay.links.peers import Link, Peer
from elf.overlay.links.tls import Tls, is_hang_up, is_refusal, refusal
from elf.overlay.unheard import Unheard

log = logging.getLogger(__name__)

_CALLS = "calls of strangers"

#: Refused agents remembered, so that each reason is said once, and reasons said of one: some name what was received.
REFUSALS_MAX = 1_024
REASONS_MAX = 8
#: An agent that is stopped hangs up once on whoever calls it then; one that does not want us always does.
HANG_UPS_MIN = 3
#: Frames made in one go; more are made when the socket has taken these, so what waits can still be overtaken.
WRITE_BYTES = 256 << 10

Socket: TypeAlias = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


@dataclass(eq=False, slots=True)
class End:
    """Our end of a connection; `due`: its channel may have something to say, `writing`: somebody sends that."""

    socket: Socket
    due: bool = False
    writing: bool = False


class Links(LinkLayer[End]):
    """All links of one node; see `LinkLayer`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._open: set[Link[End]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tls: Tls | None = None
        #: Callers that were refused.
        self._strangers = Unheard(_CALLS)
        #: Agents that refused us, and the reasons that were said.
        self._refusals: dict[str, set[str]] = {}
        #: How often somebody hung up on us without a word since we last heard of it otherwise.
        self._hung_up: dict[str, int] = {}
        self._runner: web.AppRunner | None = None
        self._door: Door | None = None
        self._client: aiohttp.ClientSession | None = None

    # ---- life

    async def start(self, bound: Bound) -> None:
        """Serve on a bound TCP socket, which is ours from now on."""
        assert bound.tcp is not None
        self._tls = bound.tls
        # TLS protects frames as well as tags would.
        self._frame_secret = None if bound.tls is not None else self._secret
        app = web.Application()
        app.router.add_get(greeting.PATH, self._serve)
        app.router.add_get(greeting.FORMER_PATH, self._serve)
        app.on_response_prepare.append(_say_little)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        assert self._runner.server is not None
        self._door = Door(bound.tcp, self._runner.server, self._tls.server if self._tls else None, self._note_stranger)
        self._door.open()
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._spawn(self._watch())

    def certify(self, tls: Tls) -> None:
        """See `LinkLayer.certify`."""
        before = self._tls
        self._tls = tls
        if self._door is not None:
            self._door.tls = tls.server
        if before is not None and _revoked(tls) - _revoked(before):
            # Whoever has a certificate that is worth something is back in a moment.
            for peer in list(self._peers.values()):
                self._lose(peer)

    async def stop(self) -> None:
        """Close all links and the server."""
        self._stopping = True
        for link in list(self._open):
            self._hang_up(link)
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

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            self._look_after_links()

    # ---- opening

    def _call(self, peer: Peer[End]) -> None:
        self._spawn(self._call_and_run(peer))

    async def _call_and_run(self, peer: Peer[End]) -> None:
        """Open a connection, greet, and read it until it closes."""
        assert self._client is not None
        link = None
        try:
            hello = partial(self._hello, peer.contact.id)
            ws, mine, theirs = await greeting.call(self._client, peer.contact, self._secret, self._tls, hello)
            link = self._link(End(ws), mine, theirs, calling=True)
            self._refusals.pop(peer.contact.address, None)
            self._hung_up.pop(peer.contact.address, None)
        except (RemoteProtocolError, *greeting.UNREACHABLE) as error:
            self._on_call_failed(peer.contact.address, error)
        finally:
            peer.calling = False
        if link is None:
            self._give_up(peer)
        else:
            await self._run(link)

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        """Answer a call."""
        assert self._door is not None
        ws = web.WebSocketResponse(compress=False, max_msg_size=wire.FRAME_BYTES_MAX, timeout=1.0)
        await ws.prepare(request)
        who = request.remote or "a caller"
        try:
            theirs, mine = await greeting.answer(request, ws, self._secret, self._tls, self.me, self._hello)
        except (RemoteProtocolError, *greeting.UNREACHABLE) as error:
            if not self._may_be_stopping(who, error):
                self._note_stranger(who, refusal(error))
            await ws.close(code=aiohttp.WSCloseCode.POLICY_VIOLATION)
            return ws
        admit(request.transport)
        self._hung_up.pop(who, None)
        await self._run(self._link(End(ws), mine, theirs, calling=False))
        return ws

    def _on_call_failed(self, address: str, error: Exception) -> None:
        """Tell an agent that does not want our call from one that is not there, or goes just now."""
        if self._may_be_stopping(address, error):
            log.debug("calling %s: it hangs up", address)
        elif isinstance(error, RemoteProtocolError) or is_refusal(error):
            self._turned_away(address, refusal(error))
        else:
            self._hung_up.pop(address, None)
            self.refused.pop(address, None)
            log.debug("calling %s: %s", address, refusal(error))

    def _may_be_stopping(self, who: str, error: Exception) -> bool:
        """Tell whether somebody hung up on us without a word, which means nothing until it happens time after time."""
        if not (isinstance(error, greeting.HungUpError) or is_hang_up(error)):
            return False
        if len(self._hung_up) >= REFUSALS_MAX:
            self._hung_up.clear()
        self._hung_up[who] = self._hung_up.get(who, 0) + 1
        return self._hung_up[who] < HANG_UPS_MIN

    def _turned_away(self, address: str, why: str) -> None:
        """Note that an agent does not want our call; what is noted is bounded by the agents there are to call."""
        if len(self.refused) < REFUSALS_MAX:
            self.refused[address] = why
        self._refuse(address, why)

    def _note_stranger(self, who: str, why: str) -> None:
        """Count a caller who is none of us, and say so now and then: callers have as many addresses as they like."""
        self.counters["links_refused"] += 1
        if self._strangers.note(_CALLS, f"{who}: {why}", why, self._clock()):
            log.warning("no link with %s: %s", who, why)

    def _refuse(self, who: str, why: str) -> None:
        """Count a refusal, and say each reason once until it is over: whoever is refused comes again every second."""
        self.counters["links_refused"] += 1
        if len(self._refusals) >= REFUSALS_MAX:
            self._refusals.clear()
        said = self._refusals.setdefault(who, set())
        if why not in said and len(said) < REASONS_MAX:
            said.add(why)
            log.warning("no link with %s: %s", who, why)

    # ---- reading, writing, closing

    async def _run(self, link: Link[End]) -> None:
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
            link.count(self.counters, self._clock())
            if self._is_current(link):
                self._drop(link)
            await link.end.socket.close()

    async def _read(self, link: Link[End]) -> None:
        while True:
            received = await link.end.socket.receive()
            if received.type is not aiohttp.WSMsgType.BINARY:
                if received.type is aiohttp.WSMsgType.TEXT:
                    raise RemoteProtocolError("text on a binary link")
                return
            self._receive(link, received.data)

    async def _write(self, link: Link[End]) -> None:
        """Send what the channel has to say as long as this is the peer's link; ends with nothing left to send."""
        channel, counters, end = link.channel, self.counters, link.end
        try:
            while end.due and self._is_current(link):
                end.due = False
                for frame in channel.frames(self._clock(), WRITE_BYTES):
                    counters["frames_out"] += 1
                    counters["bytes_out"] += len(frame)
                    await end.socket.send_bytes(frame)
                self._write_if_ready(link)
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            log.debug("link to %s: %s", link.contact.address, error)
            self._drop(link)
        finally:
            end.writing = False

    def _write_soon(self, link: Link[End]) -> None:
        end = link.end
        end.due = True
        # A task for as long as there is something to send: one that waits takes 2 kB, and most links are at rest.
        if not end.writing and not self._stopping:
            end.writing = True
            self._spawn(self._write(link))

    def _hang_up(self, link: Link[End]) -> None:
        if link in self._open:
            self._spawn(self._close(link), "close")

    async def _close(self, link: Link[End]) -> None:
        try:
            await link.end.socket.close()
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            log.debug("closing the link with %s: %s", link.contact.address, error)

    def _later(self, wait_s: float, function: Callable[..., None], *args: Any) -> None:
        loop = asyncio.get_running_loop()
        if wait_s:
            loop.call_later(wait_s, function, *args)
        else:
            loop.call_soon(function, *args)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _revoked(tls: Tls) -> frozenset[int]:
    return frozenset() if tls.notary is None else tls.notary.revoked


async def _say_little(request: web.Request, response: web.StreamResponse) -> None:
    """Tell strangers no versions."""
    response.headers["Server"] = "elf"
