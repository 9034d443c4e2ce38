"""The datagrams of one agent: calls and their timeouts out, requests answered, contacts noted as they are heard.

Owns the UDP side; which contacts are kept is decided by `table`, which hints by `hints`, what is authentic by `auth`.
Whatever bytes arrive: they are dropped and counted, nothing is raised. OVERLAY section 1.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from kademlia.node import Node
from kademlia.protocol import KademliaProtocol

from elf.overlay.dht.auth import UNLIKE, Gate
from elf.overlay.dht.hints import Hint, Hints
from elf.overlay.dht.messages import (
    CALL_BYTES,
    DATAGRAM_BYTES_MAX,
    REPLY_TO,
    Fetch,
    Fetched,
    Find,
    Found,
    Message,
    Ping,
    Pong,
    Reply,
    Request,
    Store,
    Stored,
    decode,
    encode,
    pack,
    unpack,
)
from elf.overlay.dht.pace import DhtTimes
from elf.overlay.dht.table import Table
from elf.overlay.errors import RemoteProtocolError
from elf.overlay.ids import Contact, canonical_host, format_address
from elf.overlay.unheard import Unheard

log = logging.getLogger(__name__)

#: A kind of those that are not heard; only members can be: they have the secret.
_CLOCKS = "their clocks are apart from ours"
Answer = asyncio.Future[Reply | None]


@dataclass(slots=True)
class Counters:
    """What became of the datagrams of one agent since its start."""

    sent: int = 0
    received: int = 0
    #: Not sealed with a live key for us, out of time, or replayed.
    rejected: int = 0
    #: Of these, sealed by a member of the cluster whose clock is too far from ours.
    out_of_time: int = 0
    #: Not a message.
    malformed: int = 0
    #: Sent from another address than the one it names, or of the other family: answered, never admitted to the table.
    refused: int = 0
    #: Replies nobody waits for (any more), or from another agent than the one asked.
    unmatched: int = 0
    #: Calls sent a second time because the first was not answered quickly.
    repeated: int = 0
    #: Calls without an answer.
    timeouts: int = 0
    #: Contacts given up.
    evicted: int = 0
    #: Errors that the socket reported.
    socket_errors: int = 0
    #: Files of known contacts that were damaged.
    contacts_damaged: int = 0


@dataclass(slots=True)
class _Call:
    """A request under way."""

    contact: Contact
    request: Request
    answer: Answer
    timer: asyncio.TimerHandle


class DhtProtocol(KademliaProtocol):  # type: ignore[misc]  # kademlia has no types
    """The library's protocol with the wire form, the timing and the admission of contacts replaced.

    Args:
        own: our contact; datagrams must be addressed to exactly this address when a secret is set.
        table: the contacts.
        hints: the hints held for others.
        gate: seals and opens datagrams.
        rng: source of call ids; hand in a `random.SystemRandom` where strangers can send datagrams.
        clock: wall clock in ms, for the gate only.
        on_change: called after the set of contacts changed.
        times: how long a call waits for its answer, and when it is sent again.
    """

    router: Table
    storage: Hints
    transport: asyncio.DatagramTransport | None
    _outstanding: dict[bytes, _Call]

    def __init__(
        self,
        own: Contact,
        table: Table,
        hints: Hints,
        *,
        gate: Gate,
        rng: random.Random,
        clock: Callable[[], int],
        on_change: Callable[[], None],
        times: DhtTimes,
    ) -> None:
        super().__init__(Node(own.id, own.host, own.port), hints, table.ksize)
        self.router = table
        self.own = own
        self.counters = Counters()
        self._address = pack(own)
        self._gate = gate
        self._rng = rng
        self._clock = clock
        self._on_change = on_change
        self._request_s = times.request_ms / 1000
        self._hedge_s = times.hedge_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._mapped = False
        #: Who sends us what we do not take, and why.
        self.unheard = Unheard(_CLOCKS, *UNLIKE)

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse unknown names: the library turns every typo into a remote call."""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    # -- the socket

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        """Take the socket; an IPv6 one reaches IPv4 agents by their mapped addresses."""
        super().connection_made(transport)
        self._mapped = ":" in transport.get_extra_info("sockname")[0]

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every call under way."""
        self.close()

    def _note_unheard(self, addr: tuple[str, int]) -> None:
        """Remember, and say once in a while, that we do not hear an agent: for its clock, or ours, or its secret."""
        self.counters.rejected += 1
        host, gate, now_ms = canonical_host(addr[0]), self._gate, self._clock()
        if gate.apart_ms is not None:
            self.counters.out_of_time += 1
            where = "ahead of" if gate.apart_ms > 0 else "behind"
            why = f"the clock of {host} is {abs(gate.apart_ms) // 1_000} s {where} ours: it is not heard"
            is_new = self.unheard.note(_CLOCKS, host, why, now_ms)
        elif gate.unlike is not None:
            sender = format_address(host, addr[1])
            why = f"datagrams from {sender} are not heard: {gate.unlike}"
            is_new = self.unheard.note(gate.unlike, sender, why, now_ms)
        else:
            return
        if is_new:
            log.warning("%s", why)

    def error_received(self, exc: OSError) -> None:
        """Count it: the call's timeout tells which contact it concerns."""
        self.counters.socket_errors += 1

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Handle one datagram, whatever it holds."""
        self.counters.received += 1
        if len(data) > DATAGRAM_BYTES_MAX:
            self.counters.rejected += 1
            return
        body = self._gate.open(data, self._clock(), canonical_host(addr[0]))
        if body is None:
            self._note_unheard(addr)
            return
        try:
            message = decode(body)
        except RemoteProtocolError:
            self.counters.malformed += 1
            return
        sender = unpack(message.sender)
        if not self._gate.speaks_for(sender):
            self.counters.rejected += 1
            return
        genuine = sender.port == addr[1] and sender.host == canonical_host(addr[0])
        if isinstance(message, Request):
            self._note(sender, genuine)
            self._send(self.respond(message, sender), canonical_host(addr[0]), addr[1])
        else:
            self._on_reply(message, sender, genuine)

    def close(self) -> None:
        """Fail every call under way."""
        for call in list(self._outstanding.values()):
            call.timer.cancel()
            if not call.answer.done():
                call.answer.set_result(None)
        self._outstanding.clear()

    # -- requests of others

    def respond(self, request: Request, sender: Contact) -> Reply:
        """Return the reply to a valid request."""
        match request:
            case Ping(call):
                return Pong(call, self._address)
            case Find(call, _, target):
                near = self.router.nearest(target, exclude=sender)
                return Found(call, self._address, tuple(pack(contact) for contact in near))
            case Fetch(call, _, key):
                hint = self.storage.fetch(key, self.now_ms())
                return Fetched(call, self._address, hint.version if hint else 0, hint.value if hint else None)
            case Store(call, _, key, version, value):
                return Stored(call, self._address, self.storage.put(key, Hint(version, value), self.now_ms()))

    # -- our calls; the future gives the reply, or None when there was none in time

    def call_ping(self, contact: Contact) -> Answer:
        """Ask whether `contact` is there."""
        return self._ask(contact, Ping(self._call_id(), self._address))

    def call_find_node(self, contact: Contact, target: bytes) -> Answer:
        """Ask for the contacts nearest to `target`."""
        return self._ask(contact, Find(self._call_id(), self._address, target))

    def call_find_value(self, contact: Contact, key: bytes) -> Answer:
        """Ask for the hint under `key`."""
        return self._ask(contact, Fetch(self._call_id(), self._address, key))

    def call_store(self, contact: Contact, key: bytes, hint: Hint) -> Answer:
        """Ask `contact` to hold a hint."""
        return self._ask(contact, Store(self._call_id(), self._address, key, hint.version, hint.value))

    # -- contacts

    def reaches(self, contact: Contact) -> bool:
        """Tell whether `contact` is an IP address of our own family.

        A cluster is all IPv4 or all IPv6: members of one family would pass those of the other on as dead ends.
        """
        try:
            return len(pack(contact)) == len(self._address)
        except (ValueError, OverflowError):
            return False

    def welcome_if_new(self, contact: Contact) -> None:
        """Take note of a contact that was heard at its own address."""
        if self.router.saw(contact, self.now_ms()):
            self._on_change()

    def strike(self, contact: Contact) -> None:
        """Take note that a contact was silent when it was asked."""
        if self.router.strike(contact):
            self.counters.evicted += 1
            self._on_change()

    def now_ms(self) -> int:
        """Return the loop's time; it only ever grows."""
        return int(self._loop.time() * 1000)

    # -- inside

    def _call_id(self) -> bytes:
        return self._rng.randbytes(CALL_BYTES)

    def _note(self, sender: Contact, genuine: bool) -> None:
        if genuine and self.reaches(sender):
            self.welcome_if_new(sender)
        else:
            self.counters.refused += 1

    def _ask(self, contact: Contact, request: Request) -> Answer:
        answer: Answer = self._loop.create_future()
        if self.transport is None or self.transport.is_closing():
            answer.set_result(None)
            return answer
        timer = self._loop.call_later(self._hedge_s, self._repeat, request.call)
        self._outstanding[request.call] = _Call(contact, request, answer, timer)
        self._send(request, contact.host, contact.port)
        return answer

    def _repeat(self, call_id: bytes) -> None:
        call = self._outstanding[call_id]
        self.counters.repeated += 1
        call.timer = self._loop.call_later(self._request_s - self._hedge_s, self._timeout, call_id)
        self._send(call.request, call.contact.host, call.contact.port)

    def _timeout(self, call_id: bytes) -> None:
        call = self._outstanding.pop(call_id)
        self.counters.timeouts += 1
        self.strike(call.contact)
        if not call.answer.done():
            call.answer.set_result(None)

    def _on_reply(self, reply: Reply, sender: Contact, genuine: bool) -> None:
        call = self._outstanding.get(reply.call)
        expected = call is not None and sender == call.contact and isinstance(reply, REPLY_TO[type(call.request)])
        if call is None or not expected:
            self.counters.unmatched += 1
            return
        del self._outstanding[reply.call]
        call.timer.cancel()
        self._note(sender, genuine)
        if not call.answer.done():
            call.answer.set_result(reply)

    def _send(self, message: Message, host: str, port: int) -> None:
        if self.transport is None:
            return
        self.counters.sent += 1
        mapped = f"::ffff:{host}" if self._mapped and ":" not in host else host
        self.transport.sendto(
            self._gate.seal(encode(message), format_address(host, port), self._clock()), (mapped, port)
        )
