"""One link's conversation: batches, serial numbers, acknowledgements, repeats, credit, heartbeats and the lease.

Owns what is said when on one connection, both directions; pure, no socket and no clock: bytes and `now_ms` come in,
frames and messages go out. Real links and simulated ones drive this very class. OVERLAY 6.1, DESIGN section 6.

Invariants: within a lane (`elf.overlay.links.lanes`) messages come out exactly once and in order, whatever the
transport drops, damages or repeats, or the channel is lost. No more bulk bytes are under way than the receiver has
granted. All that is kept is bounded: what waits, what is not acknowledged, what is put together.

Repair is the receiver's business: a damaged frame, or a number that shows that one is missing, makes it ask for all
from the serial it wants (go-back-N). The sender needs no timer, because a heartbeat, too, names its next serial.
"""

from __future__ import annotations

import msgspec

from elf.overlay.errors import DamagedError, OverlayError, RemoteProtocolError
from elf.overlay.links.lanes import Inbox, Outbox
from elf.overlay.links.wire import BODY_BYTES_MAX, BULK, DATA, PARTIAL, RESEND, Buffer, Frame, Framer, pack, unpack

#: Frames after which an acknowledgement goes out at once; light traffic is acknowledged by the next heartbeat.
ACK_FRAMES = 256
#: Frames kept for repeats at most.
UNACKED_FRAMES_MAX = 16 * ACK_FRAMES
#: What either end may send before it has heard the other's grant.
CREDIT_BYTES_MIN = 2 * BODY_BYTES_MAX


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one channel behaves; both ends may differ."""

    #: Something is said at least this often.
    heartbeat_ms: int = 500
    #: Silent for this long, the other end is lost; four heartbeats, so repair of a tree begins within 2 s.
    lease_ms: int = 2_000
    #: Bulk bytes the other end may have under way to us: throughput is at most this per round trip.
    credit_bytes: int = 4 << 20
    #: While we hold the other end back it still gets this much per heartbeat. Trees share links, so links that wait for
    #: each other in a ring are possible; a trickle keeps every ring moving.
    trickle_bytes: int = 256 << 10
    #: What may wait to be sent, message by message with their ENTRY_BYTES; past it the channel is lost.
    queue_bytes_max: int = 64 << 20
    #: With this much waiting the channel is congested, until half of it is gone.
    congested_bytes: int = 1 << 20
    #: Requests for the same serial without success before the channel is lost; also how many we put up with.
    tries_max: int = 8

    def __post_init__(self) -> None:
        if self.credit_bytes < CREDIT_BYTES_MIN or self.trickle_bytes < BODY_BYTES_MAX:
            raise OverlayError(f"credit_bytes must be {CREDIT_BYTES_MIN} at least, trickle_bytes {BODY_BYTES_MAX}")
        if self.heartbeat_ms * 2 > self.lease_ms:
            raise OverlayError(f"lease_ms = {self.lease_ms} must be two heartbeats of {self.heartbeat_ms} ms or more")


class _Sent(msgspec.Struct, frozen=True, gc=False):
    serial: int
    flags: int
    body: bytes


class Channel:
    """One end of a link, from the moment its peer is known.

    Args:
        framer: makes and checks the bytes of frames.
        settings: limits and times.
        now_ms: the time now; counts as the last sign of life.
    """

    # An instance with as many attributes takes four times as much without.
    __slots__ = (
        "_acked",
        "_ask",
        "_asked_ms",
        "_bulk",
        "_congested",
        "_cursor",
        "_framer",
        "_grant",
        "_granted",
        "_heard",
        "_held",
        "_inboxes",
        "_keep_bytes_max",
        "_next",
        "_number",
        "_requests",
        "_settings",
        "_speak",
        "_spent",
        "_taken",
        "_trickled_ms",
        "_tries",
        "_unacked",
        "_unacked_bytes",
        "_unconfirmed_bytes",
        "_unconfirmed_frames",
        "_urgent",
        "_wanted",
        "damaged",
        "failure",
        "heard_ms",
        "messages",
        "patient",
        "repeated",
        "resent",
        "said_ms",
    )

    def __init__(self, framer: Framer, settings: ChannelSettings, now_ms: int) -> None:
        self._framer = framer
        self._settings = settings
        #: When the other end was last heard, and when we last spoke.
        self.heard_ms = self.said_ms = now_ms
        #: Why the channel is lost, once it is for another reason than silence.
        self.failure: str | None = None
        #: Frames that arrived damaged, arrived again, and that we sent again.
        self.damaged = self.repeated = self.resent = 0
        #: Messages offered and received: shows whether the link is in use.
        self.messages = 0
        self._urgent = Outbox()
        self._bulk = Outbox()
        self._inboxes = {False: Inbox(), True: Inbox()}
        self._congested = False
        #: All that waits may go on waiting until something else is said.
        self.patient = False
        # Sending: transmissions so far, next new serial, next to transmit, next to be acknowledged, and what is kept.
        self._number = self._next = self._cursor = self._acked = 0
        self._unacked: list[_Sent] = []
        self._unacked_bytes = 0
        self._keep_bytes_max = 2 * settings.credit_bytes
        self._spent = 0
        self._granted = CREDIT_BYTES_MIN
        self._requests = 0
        # Receiving: last transmission, next serial, bulk bytes taken and granted.
        self._heard = self._wanted = self._taken = 0
        self._grant = CREDIT_BYTES_MIN
        self._held = False
        self._trickled_ms = now_ms
        self._unconfirmed_bytes = self._unconfirmed_frames = 0
        self._asked_ms: int | None = None
        self._tries = 0
        # What the next frame must say.
        self._speak = self._ask = False

    # ---- what the owner asks

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait to be sent for the first time."""
        return self._urgent.bytes + self._bulk.bytes

    @property
    def congested(self) -> bool:
        """Whether the other end takes less than it is offered, so that whoever produces should rest."""
        bound = self._settings.congested_bytes
        self._congested = self.queued_bytes > (bound // 2 if self._congested else bound)
        return self._congested

    @property
    def unacked_bytes(self) -> int:
        """Bytes sent and kept until the other end has them."""
        return self._unacked_bytes

    @property
    def ready(self) -> bool:
        """Whether `frames` has something to say before `due_ms`, other than what is patient."""
        return self._speak or self._ask or self._cursor < self._next or (not self.patient and self._can_send())

    @property
    def due_ms(self) -> int:
        """When `tick` and `frames` are to be called at the latest."""
        settings = self._settings
        due = min(self.said_ms + settings.heartbeat_ms, self.heard_ms + settings.lease_ms + 1)
        if self._held:
            due = min(due, self._trickled_ms + settings.heartbeat_ms)
        return due if self._asked_ms is None else min(due, self._asked_ms + settings.heartbeat_ms)

    def is_lost(self, now_ms: int) -> bool:
        """Tell whether to give the link up: silence, hopeless repair, or a queue that is full."""
        return self.failure is not None or now_ms - self.heard_ms > self._settings.lease_ms

    # ---- sending

    def offer(self, message: bytes, *, bulk: bool = True, patient: bool = False) -> None:
        """Queue a message, which with `patient` may wait; the channel is lost if too much waits already."""
        self.patient = patient and (self.patient or not self.queued_bytes)
        lane = self._bulk if bulk else self._urgent
        lane.add(message)
        self.messages += 1
        if lane.bytes > self._settings.queue_bytes_max:
            self.failure = f"{self.queued_bytes} bytes wait for a peer that is too slow"

    def drain(self) -> tuple[list[bytes], list[bytes]]:
        """Take back what was not sent: urgent messages and bulk messages."""
        return self._urgent.drain(), self._bulk.drain()

    def hold(self, held: bool) -> None:
        """Stop granting what we take (but for a trickle), or go on."""
        if self._held != held:
            self._held = held
            self._speak = self._speak or not held

    def frames(self, now_ms: int, bytes_max: int | None = None) -> list[bytes]:
        """Return what is to be sent now, in this order; call again after `bytes_max` bytes, if that is given.

        What is returned counts as said: a transport that drops it is one that loses frames.
        """
        made: list[bytes] = []
        size = 0
        self.patient = False
        while bytes_max is None or size < bytes_max:
            if self._cursor < self._next:
                sent = self._unacked[self._cursor - self._unacked[0].serial]
                self.resent += 1
            elif self._can_send():
                sent = self._new()
            else:
                break
            self._cursor += 1
            made.append(self._wrap(sent.flags, sent.serial, sent.body))
            size += len(sent.body)
        if not made and (self._speak or self._ask or now_ms - self.said_ms >= self._settings.heartbeat_ms):
            made.append(self._wrap(0, self._next, b""))
        if made:
            self.said_ms = now_ms
        return made

    def _wrap(self, flags: int, serial: int, body: bytes) -> bytes:
        if not self._held:
            self._grant = self._taken + self._settings.credit_bytes
        self._number += 1
        flags |= RESEND if self._ask else 0
        self._ask = self._speak = False
        self._unconfirmed_bytes = self._unconfirmed_frames = 0
        return self._framer.wrap(Frame(flags, self._number, serial, self._wanted, self._grant, body))

    def _can_send(self) -> bool:
        """Whether a new frame may go: the peer has room for it, and we for keeping it until it is acknowledged."""
        if not self._urgent.bytes and (not self._bulk.bytes or self._granted - self._spent < BODY_BYTES_MAX):
            return False
        return self._unacked_bytes < self._keep_bytes_max and len(self._unacked) < UNACKED_FRAMES_MAX

    def _new(self) -> _Sent:
        """Make the next frame of what waits, and keep it for repeats."""
        lane, flags = (self._urgent, DATA) if self._urgent.bytes else (self._bulk, DATA | BULK)
        batch, partial = lane.take(BODY_BYTES_MAX)
        body, packing, size = pack(batch)
        if flags & BULK:
            self._spent += size
        flags |= packing
        sent = _Sent(self._next, flags | PARTIAL if partial else flags, body)
        self._unacked.append(sent)
        self._unacked_bytes += len(body)
        self._next += 1
        return sent

    # ---- receiving

    def received(self, data: bytes, now_ms: int) -> list[Buffer]:
        """Take what arrived as one frame; return the messages that it completes, in order per lane.

        Raises:
            RemoteProtocolError: the peer breaks the rules; the link must end.
        """
        try:
            frame = self._framer.unwrap(data)
        except DamagedError:
            self.damaged += 1
            self._request(now_ms)
            return []
        if frame.number <= self._heard:
            self.repeated += 1
            return []
        self._heard = frame.number
        self.heard_ms = now_ms
        if frame.grant > self._granted:
            self._granted = frame.grant
        if frame.ack != self._acked:
            self._on_ack(frame.ack)
        if frame.flags & RESEND:
            self._on_request(frame.ack)
        if frame.serial > self._wanted:
            self._request(now_ms)
            return []
        if not frame.flags & DATA:
            self._asked_ms = None
            self._tries = 0
            return []
        if frame.serial < self._wanted:
            self.repeated += 1
            self._speak = True
            return []
        return self._take(frame)

    def _take(self, frame: Frame) -> list[Buffer]:
        messages, size = unpack(frame)
        bulk = bool(frame.flags & BULK)
        if bulk:
            self._taken += size
            if self._taken > self._grant:
                raise RemoteProtocolError(f"{self._taken - self._grant} bytes more than were granted")
        self._wanted += 1
        if self._tries:
            self._asked_ms = None
            self._tries = 0
        self._unconfirmed_bytes += size
        self._unconfirmed_frames += 1
        credit = self._settings.credit_bytes
        due = self._unconfirmed_bytes >= credit // 2 or self._unconfirmed_frames >= ACK_FRAMES
        if due or (not self._held and self._grant - self._taken <= credit // 2):
            self._speak = True
        self.messages += len(messages)
        return self._inboxes[bulk].join(messages, bool(frame.flags & PARTIAL))

    def _on_ack(self, ack: int) -> None:
        if ack > self._next:
            raise RemoteProtocolError(f"frame {ack - 1} is acknowledged but was never sent")
        over = max(ack - self._unacked[0].serial, 0) if self._unacked else 0
        if over:
            self._unacked_bytes -= sum(len(sent.body) for sent in self._unacked[:over])
            del self._unacked[:over]
            self._requests = 0
        self._acked = max(self._acked, ack)
        self._cursor = max(self._cursor, ack)

    def _on_request(self, serial: int) -> None:
        """Go back to the serial that the other end wants; say where we are if it lacks nothing."""
        self._speak = True
        if self._unacked:
            self._cursor = self._unacked[0].serial
            self._requests += 1
            if self._requests > 2 * self._settings.tries_max:
                self.failure = f"frame {serial} does not arrive, however often it is sent"

    def _request(self, now_ms: int) -> None:
        """Ask for what is missing, unless we did so within a heartbeat: the answer may be under way."""
        if self._asked_ms is not None and now_ms - self._asked_ms < self._settings.heartbeat_ms:
            return
        self._asked_ms = now_ms
        self._ask = True
        self._tries += 1
        if self._tries > self._settings.tries_max:
            self.failure = f"frame {self._wanted} does not arrive, however often it is asked for"

    def tick(self, now_ms: int) -> None:
        """Time passed: repeat a request that brought nothing, and grant a trickle to a peer that is held back."""
        if self._asked_ms is not None:
            self._request(now_ms)
        if self._held and now_ms - self._trickled_ms >= self._settings.heartbeat_ms:
            self._trickled_ms = now_ms
            if self._grant < self._taken + self._settings.trickle_bytes:
                self._grant = self._taken + self._settings.trickle_bytes
                self._speak = True
