"""The two queues of a link's sender, and how its receiver puts messages together again.

Owns how messages are cut and batched into bodies of frames; pure. The bulk lane needs the receiver's credit; the urgent
lane does not, so that what ends a jam (verdicts, repair, heartbeats of edges) is never stuck behind it. Order holds
within a lane. DESIGN section 8: memory is bounded on both sides.
"""

from __future__ import annotations

from elf.overlay.contract import MESSAGE_BYTES_MAX
from elf.overlay.errors import DecodeError
from elf.overlay.links.wire import BODY_BYTES_MAX, Buffer
from elf.overlay.messages import Announce, Contribution, Message, Presence, Records, Reply, Request, Retire, Settle

#: Most that msgpack adds to a batch, and to each message in it.
HEAD_BYTES = 5
#: What a waiting message, or a part of one, costs us beside its bytes.
ENTRY_BYTES = 64
#: Parts of one message: the largest in whole bodies, with some to spare; a peer that sends crumbs gets here sooner.
PARTS_BYTES_MAX = MESSAGE_BYTES_MAX + (64 << 10)


#: What may be large or many, and what must keep its order with those: a farewell must not overtake what is owed.
_BULK = (Contribution, Announce, Presence, Retire, Records, Request, Reply)


def is_bulk(message: Message) -> bool:
    """Tell which lane a message belongs to."""
    return isinstance(message, _BULK)


def is_patient(message: Message) -> bool:
    """Tell whether a message may wait for others to the same peer: a verdict that names nobody only lets go."""
    return isinstance(message, Settle) and not message.missing and not message.retired


class Outbox:
    """Messages of one lane that wait to be sent, oldest first."""

    # Every link has two, nearly always empty: no dictionary, and no deque, which takes 1.2 kB.
    __slots__ = ("_cut", "_queue", "bytes")

    def __init__(self) -> None:
        self._queue: list[bytes] = []
        #: How much of the oldest message is sent already.
        self._cut = 0
        #: What waits, each message counted with its ENTRY_BYTES; a message partly sent counts whole.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, message: bytes) -> None:
        """Queue a message."""
        self._queue.append(message)
        self.bytes += len(message) + ENTRY_BYTES

    def take(self, room_bytes: int) -> tuple[list[bytes], bool]:
        """Take a batch of at most `room_bytes` as a body; True if its last message goes on in the next batch.

        Only a message that no body can hold is cut, and only into whole bodies; any other waits for room.
        """
        if len(self._queue) == 1 and self.bytes <= room_bytes and not self._cut:
            self.bytes = 0
            return [self._queue.pop()], False  # the usual case, quickly
        batch: list[bytes] = []
        size, partial = HEAD_BYTES, False
        whole = 0
        for message in self._queue:
            left = len(message) - self._cut + HEAD_BYTES
            if size + left > room_bytes:
                if batch or HEAD_BYTES + left <= BODY_BYTES_MAX or room_bytes < BODY_BYTES_MAX:
                    break
                end = self._cut + BODY_BYTES_MAX - 2 * HEAD_BYTES
                batch.append(message[self._cut : end])
                self._cut = end
                partial = True
                break
            batch.append(message[self._cut :] if self._cut else message)
            size += left
            self._cut = 0
            whole += 1
            self.bytes -= len(message) + ENTRY_BYTES
        del self._queue[:whole]
        return batch, partial

    def drain(self) -> list[bytes]:
        """Take everything that is not sent whole; what was sent of a message is sent again elsewhere."""
        messages = self._queue
        self._queue = []
        self._cut = self.bytes = 0
        return messages


class Inbox:
    """Puts the messages of one lane together again."""

    __slots__ = ("_bytes", "_parts")

    def __init__(self) -> None:
        self._parts: list[Buffer] = []
        self._bytes = 0

    def join(self, batch: list[Buffer], partial: bool) -> list[Buffer]:
        """Return the messages that a batch completes; it may be changed.

        Raises:
            DecodeError: a message grows over the limit; the peer is at fault.
        """
        if not self._parts and not partial:
            return batch
        if self._parts:
            self._add(batch[0])
            if partial and len(batch) == 1:
                return []
            batch[0] = b"".join(self._parts)
            self._parts.clear()
            self._bytes = 0
        if partial:
            self._add(batch.pop())
        return batch

    def _add(self, part: Buffer) -> None:
        self._bytes += len(part) + ENTRY_BYTES
        if self._bytes > PARTS_BYTES_MAX:
            raise DecodeError(f"a message in parts is over the limit of {MESSAGE_BYTES_MAX} bytes")
        self._parts.append(part)
