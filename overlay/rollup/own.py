"""A member's own snapshots that have no verdict yet: what is handed to the barrier next, and when to rest.

Owns copies in memory only; the runtime keeps them durably until their verdict. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from elf.overlay.contract import NEVER
from elf.overlay.messages import Claim

#: Own snapshots on their way at a time. Enough to fill a round trip while catching up, and small enough that what is
#: sent again to a new parent stays bounded.
WINDOW = 64
#: Own snapshots without a verdict past which the runtime should rest: 68 minutes of a job with intervals of a second
#: whose root is away, at 1 MiB of our memory when they are small.
UNSETTLED_MAX = 4_096
UNSETTLED_BYTES_MAX = 32 << 20


class OwnSnapshots:
    """Claims for our own snapshots, ascending."""

    __slots__ = ("_bytes", "_claims", "_congested", "_fed", "agent", "sealed")

    def __init__(self, agent: str) -> None:
        self.agent = agent
        #: The last interval sealed, verdict or not.
        self.sealed = NEVER
        self._claims: list[Claim] = []
        self._bytes = 0
        self._congested = False
        self._fed = NEVER

    def add(self, after: int, through: int, payload: bytes | None) -> None:
        """Take over a snapshot; `after`: how far verdicts are durable."""
        self._claims.append(Claim(max(self.sealed, after), through, (self.agent,), payload))
        self._bytes += len(payload or b"")
        self.sealed = through

    def clear(self) -> None:
        """Forget all: we are no member any more."""
        self._claims.clear()
        self._bytes = 0
        self.sealed = self._fed = NEVER

    def prune(self, committed: int) -> None:
        """Forget what is committed."""
        count = bisect_right(self._claims, committed, key=lambda claim: claim.through)
        self._bytes -= sum(len(claim.payload or b"") for claim in self._claims[:count])
        del self._claims[:count]

    def rewind(self) -> None:
        """Hand everything over again."""
        self._fed = NEVER

    def due(self) -> Iterator[Claim]:
        """Yield what is to be handed over now, at most a window ahead of the verdicts."""
        for claim in self._claims[:WINDOW]:
            if claim.through > self._fed:
                self._fed = claim.through
                yield claim

    @property
    def congested(self) -> bool:
        """Whether there are so many that no more should be made; with a half as hysteresis."""
        share = 2 if self._congested else 1
        self._congested = len(self._claims) * share > UNSETTLED_MAX or self._bytes * share > UNSETTLED_BYTES_MAX
        return self._congested
