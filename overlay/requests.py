"""Requests on their way: hop by hop toward a key, or straight to one agent, and the answers back.

Owns request ids, deadlines and the choice of the next hop; asks the runtime's handler at each hop. Shell. An answer
travels back over the same hops, each of which waits for its own successor, so no node needs to know the way.

Each hop is strictly closer to the key, so a way ends; hop limit and path stop peers that do not keep to that. Who knows
nobody closer looks the key up before it says that nobody answers: thin tables end ways early (OVERLAY section 3). A hop
that cannot be reached, or is silent, is passed by. The asker gets one answer or one error; a handler may still be asked
twice (its answer was lost on the way), so requests that change something must bear repetition. DESIGN section 7.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from elf.overlay.contract import PAYLOAD_BYTES_MAX, Answer
from elf.overlay.errors import NotFoundError, OverlayError, UnreachableError
from elf.overlay.ids import Contact
from elf.overlay.messages import HOPS_MAX, Reply, Request
from elf.overlay.routing import View, closer

log = logging.getLogger(__name__)

FOUND, NOT_FOUND, UNREACHABLE, ACCEPTED = 0, 1, 2, 3
#: Requests of others handled at a time, of all and of one of them; more are refused at once, so that a flood cannot
#: fill memory and one neighbour cannot keep out the others.
SERVED_MAX, SERVED_OF_ONE_MAX = 1_024, 256
#: Closer contacts tried when the first cannot be reached.
TRIES = 3
#: A hop that has no answer yet says so after the first time; one that was not heard of after the second is passed by,
#: if there is another. Long enough for a link to be opened over any network, and half of a link's lease.
ACCEPT_S, SILENT_S = 0.25, 1.0
#: With less time left than this, nobody else is tried: the asker would not see the answer.
RETRY_S_MIN = 0.1
#: Lookups at a time for keys for which we know nobody closer.
LOOKUPS_MAX = 16
#: Taken off the time a hop gives its successor, so that its "unreachable" arrives before our own timeout.
HOP_MS = 20

Ask = Callable[[bytes, bytes, Sequence[str]], Awaitable[bytes | Contact | None]]
Find = Callable[[bytes], Awaitable[Sequence[Contact]]]


@dataclass(eq=False, slots=True)
class _Waiting:
    """A request we sent: to whom, the answer, and the first sign of life (the answer, or that it will take a while)."""

    to: Contact
    reply: asyncio.Future[Reply]
    heard: asyncio.Future[None]

    def settle(self, reply: Reply) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)
        self.hear()

    def hear(self) -> None:
        if not self.heard.done():
            self.heard.set_result(None)


class Requests:
    """The requests a node asked, passes on or answers.

    Args:
        me: this node.
        closer: contacts strictly closer to a key than we are, nearest first.
        find: looks up the agents closest to a key, nearest first.
        ask: the runtime's `on_route`.
        send: puts a message on the link to a contact.
    """

    def __init__(
        self,
        me: Contact,
        closer: View,
        find: Find,
        ask: Ask,
        send: Callable[[Contact, Request | Reply], None],
        rng: random.Random,
    ) -> None:
        self.me = me
        self.served = 0
        self._closer = closer
        self._find = find
        self._ask = ask
        self._send = send
        self._rng = rng
        self._waiting: dict[bytes, _Waiting] = {}
        self._tasks: dict[asyncio.Task[None], Contact] = {}
        self._served_of: Counter[Contact] = Counter()
        self._lookups = asyncio.Semaphore(LOOKUPS_MAX)

    async def route(self, key: bytes, body: bytes, timeout_ms: int) -> Answer:
        """Send a request of our own toward a key; see `OverlayNode.route`."""
        _check(body)
        return _answer(await self._bounded(key, body, (), timeout_ms, direct=False))

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int) -> bytes:
        """Send a request of our own to one agent; see `OverlayNode.ask`."""
        _check(body)
        if contact == self.me:
            return _answer(await self._bounded(self.me.id, body, (), timeout_ms, direct=True)).body
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        return _answer(await self._forward(contact, contact.id, body, (), until_s, direct=True)).body

    # ---- the network

    def on_request(self, sender: Contact, request: Request) -> None:
        """Serve a request of another agent, in a task of its own."""
        if len(self._tasks) >= SERVED_MAX or self._served_of[sender] >= SERVED_OF_ONE_MAX:
            self._send(sender, Reply(request.id, UNREACHABLE, b"this agent is too busy", ()))
            return
        self.served += 1
        self._served_of[sender] += 1
        task = asyncio.get_running_loop().create_task(self._serve(sender, request))
        self._tasks[task] = sender
        task.add_done_callback(self._done)

    def on_reply(self, sender: Contact, reply: Reply) -> None:
        """Hand an answer to whoever waits for it; only the agent that was asked may answer."""
        waiting = self._waiting.get(reply.id)
        if waiting is None or waiting.to != sender:
            return
        if reply.status == ACCEPTED:
            waiting.hear()
        else:
            waiting.settle(reply)

    def on_lost(self, peer: Contact) -> None:
        """The link to a peer is gone, and with it the answers we expected over it."""
        self._give_up(f"the link to {peer.address} closed", peer)

    async def stop(self) -> None:
        """End everything under way; who waits for an answer learns that none will come."""
        self._give_up("this agent is stopping", None)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _give_up(self, why: str, peer: Contact | None) -> None:
        for waiting in self._waiting.values():
            if peer is None or waiting.to == peer:
                waiting.settle(Reply(b"", UNREACHABLE, why.encode(), ()))

    def _done(self, task: asyncio.Task[None]) -> None:
        sender = self._tasks.pop(task)
        self._served_of[sender] -= 1
        if not self._served_of[sender]:
            del self._served_of[sender]

    # ---- one hop

    async def _serve(self, sender: Contact, request: Request) -> None:
        accepted = Reply(request.id, ACCEPTED, b"", ())
        timer = asyncio.get_running_loop().call_later(ACCEPT_S, self._send, sender, accepted)
        try:
            key, path = request.key, request.path
            reply = await self._bounded(key, request.body, path, request.timeout_ms, direct=request.direct)
        finally:
            timer.cancel()
        self._send(sender, Reply(request.id, reply.status, reply.body, reply.path))

    async def _bounded(self, key: bytes, body: bytes, path: Sequence[str], timeout_ms: int, *, direct: bool) -> Reply:
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(until_s):
                return await self._hop(key, body, path, until_s, direct=direct)
        except TimeoutError:
            return _unreachable(f"no answer within {timeout_ms} ms", path)

    async def _hop(self, key: bytes, body: bytes, path: Sequence[str], until_s: float, *, direct: bool) -> Reply:
        """Let our own handler answer; else go where it points; else a step closer to the key."""
        try:
            # Before whoever asks gives up, so that it hears what keeps us.
            async with asyncio.timeout_at(until_s - HOP_MS / 2_000):
                answer = await self._ask(key, body, path)
        except TimeoutError:
            return _unreachable(f"{self.me.address} is busy: it has not answered in time", path)
        except OverlayError as error:
            return _unreachable(str(error)[:1024], path)
        except Exception:
            log.exception("the handler failed on a request")
            return _unreachable("the agent that was asked failed on the request", path)
        if isinstance(answer, bytes):
            if len(answer) > PAYLOAD_BYTES_MAX:
                return _unreachable("the answer is too large; ask for less", path)
            return Reply(b"", FOUND, answer, tuple(path))
        if answer == self.me or (answer is None and direct):
            return Reply(b"", NOT_FOUND, b"", tuple(path))
        if len(path) >= HOPS_MAX:
            return _unreachable(f"no answer after {HOPS_MAX} hops", path)
        if answer is not None:
            if answer.address in path:
                return _unreachable(f"{self.me.address} and {answer.address} each say that the other knows", path)
            return await self._forward(answer, key, body, path, until_s, direct=True)
        return await self._step(key, body, path, until_s)

    async def _step(self, key: bytes, body: bytes, path: Sequence[str], until_s: float) -> Reply:
        """Go to the closest contact that can be reached; without a closer one, to the closest that a lookup finds."""
        candidates = [contact for contact in self._closer(key) if contact.address not in path][:TRIES]
        if not candidates:
            candidates = [contact for contact in await self._look_up(key) if contact.address not in path][:TRIES]
        reply = Reply(b"", NOT_FOUND, b"", tuple(path))
        for contact in candidates:
            last = contact is candidates[-1]
            reply = await self._forward(contact, key, body, path, until_s, direct=False, patient=last)
            if reply.status != UNREACHABLE or until_s - asyncio.get_running_loop().time() < RETRY_S_MIN:
                break
        return reply

    async def _look_up(self, key: bytes) -> list[Contact]:
        try:
            async with self._lookups:
                return closer(await self._find(key), self.me.id, key)
        except OverlayError as error:
            log.debug("lookup for a request failed: %s", error)
            return []

    async def _forward(
        self,
        to: Contact,
        key: bytes,
        body: bytes,
        path: Sequence[str],
        until_s: float,
        *,
        direct: bool,
        patient: bool = True,
    ) -> Reply:
        loop = asyncio.get_running_loop()
        request_id = self._rng.randbytes(8)
        further = (*path, to.address)
        left_ms = int((until_s - loop.time()) * 1000)
        waiting = self._waiting[request_id] = _Waiting(to, loop.create_future(), loop.create_future())
        try:
            self._send(to, Request(request_id, key, body, further, direct, max(left_ms - HOP_MS, 1)))
            async with asyncio.timeout_at(until_s):
                if not patient:
                    async with asyncio.timeout(SILENT_S):
                        await waiting.heard
                return await waiting.reply
        except TimeoutError:
            # Who has said that it has the question is there, whatever keeps it.
            is_there = waiting.heard.done() and not waiting.heard.cancelled()
            busy = f"{to.address} is busy: it has taken the question, and not answered in time"
            return _unreachable(busy if is_there else f"no answer from {to.address} in time", further)
        finally:
            del self._waiting[request_id]


def _unreachable(why: str, path: Sequence[str]) -> Reply:
    return Reply(b"", UNREACHABLE, why.encode(), tuple(path))


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
