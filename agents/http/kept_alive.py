"""Connections of clients that wait for their next request: so many at most, the one that has waited longest goes first.

Each is a file descriptor, which logs and links need, too. One on which a request is answered is not among them.
"""

from __future__ import annotations

import asyncio

#: Connections that wait at a time.
IDLE_MAX = 256


class KeptAlive:
    """The connections that wait, the oldest first."""

    def __init__(self) -> None:
        self._idle: dict[asyncio.BaseTransport, None] = {}

    def __len__(self) -> int:
        return len(self._idle)

    def begin(self, transport: asyncio.BaseTransport) -> None:
        """A request has come over a connection."""
        self._idle.pop(transport, None)

    def end(self, transport: asyncio.BaseTransport) -> None:
        """It is answered; if that makes one too many, the oldest is closed. O(1), now and then O(waiting)."""
        self._idle[transport] = None
        if len(self._idle) > IDLE_MAX:
            self._idle = {each: None for each in self._idle if not each.is_closing()}
        while len(self._idle) > IDLE_MAX:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.close()
