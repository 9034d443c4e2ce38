"""For whom a candidate holds a job that is just being published, so that two publishers never place it twice. Pure.

The publisher's side is `elf.agents.publications.candidates`. OVERLAY section 5.
"""

from __future__ import annotations

from elf.agents.wire.placement import Weigh

#: How long a candidate holds a job for a publisher that says nothing more: longer than weighing and installing take
#: together. One that knows what came of it lets go at once.
HOLD_MS = 8_000
#: Jobs held at a time; above it the oldest is let go.
HOLDS_MAX = 1_024


class Holds:
    """The jobs for which this agent was asked for its load just now, and by whom; at most `HOLDS_MAX`."""

    def __init__(self) -> None:
        #: Job -> publisher and end; oldest first.
        self._held: dict[bytes, tuple[str, int]] = {}

    def take(self, request: Weigh, now_ms: int) -> str | None:
        """Hold a job for its publisher, or let it go; return who else has it."""
        holder, until_ms = self._held.get(request.app, (request.publisher, 0))
        if holder != request.publisher and now_ms < until_ms:
            return holder
        self._held.pop(request.app, None)
        if request.hold:
            self._held[request.app] = request.publisher, now_ms + HOLD_MS
            while len(self._held) > HOLDS_MAX:
                del self._held[next(iter(self._held))]
        return None
