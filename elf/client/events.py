"""Server-sent events, read: bytes in, events out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from elf.agents.errors import UnavailableError

#: A result of a million short rows fits; what is larger was not sent by an agent of ours.
EVENT_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    kind: str
    data: bytes
    id: str | None


class EventReader:
    """Collects bytes until events are whole; comments (heartbeats) are dropped."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises:
            UnavailableError: an event is larger than the limit.
        """
        # The end of an event may be split over two feeds: look again from the last byte held.
        searched = max(0, len(self._held) - 1)
        self._held += data
        events = []
        while (end := self._held.find(b"\n\n", searched)) >= 0:
            event = _parse(bytes(self._held[:end]))
            if event is not None:
                events.append(event)
            del self._held[: end + 2]
            searched = 0
        if len(self._held) > self._bytes_max:
            raise UnavailableError(f"the agent sent an event of more than {self._bytes_max} bytes")
        return events


def _parse(block: bytes) -> Event | None:
    kind, identity, data = "message", None, []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                kind = value.decode("utf-8", "replace")
            case b"id":
                identity = value.decode("utf-8", "replace")
            case b"data":
                data.append(value)
    return Event(kind, b"\n".join(data), identity) if data else None
