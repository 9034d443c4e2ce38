"""The hints this agent holds for others: small versioned values under 160-bit keys.

Owns which hint is kept and for how long; hints are never the truth (that is the job's control log), so losing one
costs a search, not an answer. Pure: the caller hands in the time.
"""

from __future__ import annotations

from typing import NamedTuple

from elf.overlay.dht.messages import HINT_BYTES_MAX
from elf.overlay.ids import distance

#: 16 MB of values at most.
HINTS_MAX = 4096
#: Whoever set a hint sets it again well within a day; one whose owner is gone should not outlive it by much.
HINT_TTL_MS = 24 * 3600 * 1000


class Hint(NamedTuple):
    """A value and its place in the order of values: the higher version wins, then the higher bytes."""

    version: int
    value: bytes


class Hints:
    """A bounded map of hints; when it is full, the keys farthest from this agent go first.

    Differs from kademlia's storage: the newest version wins instead of the last arrival, nothing is republished (that
    kept dead values alive for ever) and a hint expires by its own age.
    """

    def __init__(self, own_id: bytes, *, most: int = HINTS_MAX, ttl_ms: int = HINT_TTL_MS) -> None:
        self._own_id = own_id
        self._most = most
        self._ttl_ms = ttl_ms
        self._hints: dict[bytes, tuple[Hint, int]] = {}

    def __len__(self) -> int:
        return len(self._hints)

    def put(self, key: bytes, hint: Hint, now_ms: int) -> bool:
        """Keep `hint` unless a newer one is here; return whether this value is now held. O(n) when full."""
        if len(hint.value) > HINT_BYTES_MAX:
            return False
        held = self.fetch(key, now_ms)
        if held is not None and held > hint:
            return False
        self._hints[key] = (hint, now_ms)
        if len(self._hints) > self._most:
            self._make_room(now_ms)
        return key in self._hints

    def fetch(self, key: bytes, now_ms: int) -> Hint | None:
        """Return the hint under `key`, if there is one young enough."""
        hint, since_ms = self._hints.get(key, (None, 0))
        return hint if now_ms - since_ms < self._ttl_ms else None

    def _make_room(self, now_ms: int) -> None:
        for key in [key for key in self._hints if self.fetch(key, now_ms) is None]:
            del self._hints[key]
        while len(self._hints) > self._most:
            del self._hints[max(self._hints, key=lambda key: distance(key, self._own_id))]
