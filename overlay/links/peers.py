"""What a link layer keeps of each agent: the connection in use, or what waits for one.

Owns the queue of a peer and the bookkeeping of use; which connection counts is decided in `elf.overlay.links.layer`.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from elf.overlay.ids import Contact
from elf.overlay.links.channel import Channel
from elf.overlay.links.handshake import Hello

#: What may wait for a peer that is being called; past it the call is given up. Later the channel's own limit holds.
QUEUE_BYTES_MAX = 64 << 20
QUEUE_MESSAGES_MAX = 20_000

COUNTERS = (
    "frames_in", "frames_out", "bytes_in", "bytes_out", "messages_in", "messages_out",
    "frames_damaged", "frames_repeated", "frames_resent", "links_opened", "links_lost", "links_refused",
)  # fmt: skip

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Link(Generic[T]):
    """One connection after its greeting; `end` is what it is made of, `over` says that it was given up."""

    contact: Contact
    theirs: Hello
    opened_by: bytes
    losses: int
    end: T
    channel: Channel
    used_ms: int
    messages: int = 0
    over: bool = False

    def count(self, counters: dict[str, int], now_ms: int) -> None:
        """Move the channel's own counters into those of all links, and note whether it was used since the last time."""
        channel = self.channel
        if channel.messages != self.messages:
            self.messages = channel.messages
            self.used_ms = now_ms
        counters["frames_damaged"] += channel.damaged
        counters["frames_repeated"] += channel.repeated
        counters["frames_resent"] += channel.resent
        channel.damaged = channel.repeated = channel.resent = 0


@dataclass(eq=False, slots=True)
class Peer(Generic[T]):
    """What waits for one agent, and the connection it goes out on, if there is one."""

    contact: Contact
    link: Link[T] | None = None
    #: What waits for a link, with its lane; empty while there is one.
    waiting: list[tuple[bytes, bool]] = field(default_factory=list)
    waiting_bytes: int = 0
    calling: bool = False
    held: bool = False

    def offer(self, message: bytes, *, bulk: bool, patient: bool = False) -> str | None:
        """Queue a message; returns why the peer is to be given up, if it is."""
        if self.link is not None:
            self.link.channel.offer(message, bulk=bulk, patient=patient)
            return self.link.channel.failure
        self.waiting.append((message, bulk))
        self.waiting_bytes += len(message)
        full = self.waiting_bytes > QUEUE_BYTES_MAX or len(self.waiting) > QUEUE_MESSAGES_MAX
        return f"{self.waiting_bytes} bytes wait for a call" if full else None

    def use(self, link: Link[T]) -> None:
        """Send on this link from now on: first what the one before has not sent, or what waited for one."""
        waiting = self.waiting
        self.waiting = []
        self.waiting_bytes = 0
        if self.link is not None:
            urgent, bulk = self.link.channel.drain()
            waiting = [(message, False) for message in urgent] + [(message, True) for message in bulk]
        self.link = link
        for message, is_bulk in waiting:
            link.channel.offer(message, bulk=is_bulk)
        link.channel.hold(self.held)
