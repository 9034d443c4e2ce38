"""Requests on their way: hop by hop toward a key, or straight to one agent, and the answers back.

Owns request ids, deadlines and the choice of the next hop; asks the runtime's handler at each hop. Shell. An answer
travels back over the same hops, each of which waits for its own successor, so no node needs to know the way.
OVERLAY section 3; DESIGN section 7 (`route`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from overlay.contract import Answer
from overlay.errors import NotFoundError, OverlayError, UnreachableError
from overlay.ids import Contact
from overlay.messages import HOPS_MAX, PAYLOAD_BYTES_MAX, Reply, Request
from overlay.routing import View

log = logging.getLogger(__name__)

FOUND, NOT_FOUND, UNREACHABLE = 0, 1, 2
#: Requests of others handled at a time; more are refused at once, so a flood cannot fill memory.
SERVED_MAX = 1_024
#: Closer contacts tried when the first cannot be reached.
TRIES = 3
#: Taken off the time a hop gives its successor, so that its "unreachable" arrives before our own timeout.
HOP_MS = 20

Ask = Callable[[bytes, bytes, Sequence[str]], Awaitable[bytes | Contact | None]]


class Requests:
    """The requests a node asked, passes on or answers.

    Args:
        me: this node.
        closer: contacts strictly closer to a key than we are, nearest first.
        ask: the runtime's `on_route`.
        send: puts a message on the link to a contact.
    """

    def __init__(
        self,
        me: Contact,
        closer: View,
        ask: Ask,
        send: Callable[[Contact, Request | Reply], None],
        rng: random.Random,
    ) -> None:
        self.me = me
        self.served = 0
        self._closer, self._ask, self._send, self._rng = closer, ask, send, rng
        self._waiting: dict[bytes, tuple[Contact, asyncio.Future[Reply]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def route(self, key: bytes, body: bytes, timeout_ms: int) -> Answer:
        """Send a request of our own toward a key; see `contract.Overlay.route`."""
        _check(body)
        return _answer(await self._bounded(key, body, (), timeout_ms, direct=False))

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int) -> bytes:
        """Send a request of our own to one agent; see `contract.Overlay.ask`."""
        _check(body)
        if contact == self.me:
            return _answer(await self._bounded(self.me.id, body, (), timeout_ms, direct=True)).body
        return _answer(await self._forward(contact, contact.id, body, (), timeout_ms, direct=True)).body

    # ---- the network

    def on_request(self, sender: Contact, request: Request) -> None:
        """Serve a request of another agent, in a task of its own."""
        if len(self._tasks) >= SERVED_MAX or len(request.path) >= HOPS_MAX:
            self._send(sender, Reply(request.id, UNREACHABLE, b"this agent is too busy", ()))
            return
        self.served += 1
        task = asyncio.get_running_loop().create_task(self._serve(sender, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def on_reply(self, sender: Contact, reply: Reply) -> None:
        """Hand an answer to whoever waits for it; only the agent that was asked may answer."""
        asked, future = self._waiting.get(reply.id, (None, None))
        if future is not None and asked == sender and not future.done():
            future.set_result(reply)

    def on_lost(self, peer: Contact) -> None:
        """The link to a peer is gone, and with it the answers we expected over it."""
        for asked, future in self._waiting.values():
            if asked == peer and not future.done():
                future.set_result(Reply(b"", UNREACHABLE, f"the link to {peer.address} closed".encode(), ()))

    async def stop(self) -> None:
        """End everything under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- one hop

    async def _serve(self, sender: Contact, request: Request) -> None:
        reply = await self._bounded(request.key, request.body, request.path, request.timeout_ms, direct=request.direct)
        self._send(sender, Reply(request.id, reply.status, reply.body, reply.path))

    async def _bounded(self, key: bytes, body: bytes, path: Sequence[str], timeout_ms: int, *, direct: bool) -> Reply:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._hop(key, body, path, timeout_ms, direct=direct)
        except TimeoutError:
            return Reply(b"", UNREACHABLE, f"no answer within {timeout_ms} ms".encode(), tuple(path))

    async def _hop(self, key: bytes, body: bytes, path: Sequence[str], timeout_ms: int, *, direct: bool) -> Reply:
        """Let our own handler answer; else go where it points; else a step closer to the key."""
        try:
            answer = await self._ask(key, body, path)
        except OverlayError as error:
            return Reply(b"", UNREACHABLE, str(error).encode()[:1024], tuple(path))
        except Exception:
            log.exception("the handler failed on a request")
            return Reply(b"", UNREACHABLE, b"the agent that was asked failed on the request", tuple(path))
        if isinstance(answer, bytes):
            if len(answer) > PAYLOAD_BYTES_MAX:
                return Reply(b"", UNREACHABLE, b"the answer is too large; ask for less", tuple(path))
            return Reply(b"", FOUND, answer, tuple(path))
        if isinstance(answer, Contact):
            if answer == self.me or len(path) >= HOPS_MAX:
                return Reply(b"", NOT_FOUND, b"", tuple(path))
            return await self._forward(answer, key, body, path, timeout_ms, direct=True)
        if not direct and len(path) < HOPS_MAX:
            reply = None
            for contact in self._closer(key)[:TRIES]:
                reply = await self._forward(contact, key, body, path, timeout_ms, direct=False)
                if reply.status != UNREACHABLE:
                    break
            if reply is not None:
                return reply
        return Reply(b"", NOT_FOUND, b"", tuple(path))

    async def _forward(
        self, to: Contact, key: bytes, body: bytes, path: Sequence[str], timeout_ms: int, *, direct: bool
    ) -> Reply:
        request_id = self._rng.randbytes(8)
        further = (*path, to.address)
        inner_ms = max(timeout_ms - HOP_MS, 1)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = to, future
        try:
            self._send(to, Request(request_id, key, body, further, direct, inner_ms))
            async with asyncio.timeout(timeout_ms / 1000):
                return await future
        except TimeoutError:
            text = f"no answer from {to.address} within {timeout_ms} ms"
            return Reply(request_id, UNREACHABLE, text.encode(), further)
        finally:
            del self._waiting[request_id]


def _check(body: bytes) -> None:
    if len(body) > PAYLOAD_BYTES_MAX:
        raise OverlayError(f"a request of {len(body)} bytes is over the limit of {PAYLOAD_BYTES_MAX}")


def _answer(reply: Reply) -> Answer:
    if reply.status == FOUND:
        return Answer(reply.body, reply.path)
    if reply.status == NOT_FOUND:
        way = " -> ".join(reply.path) or "this agent"
        raise NotFoundError(f"nobody answers for this key (asked: {way})")
    raise UnreachableError(reply.body.decode("utf-8", "replace") or "no answer")
