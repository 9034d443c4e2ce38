"""The snapshots that this agent has handed up lately, for who audits what others made of them. Pure.

They are kept for a moment after their verdict, too: a member that alters what it merges could tell those below it that
they are counted, so that nobody has anything any more to compare with.
"""

from __future__ import annotations

from collections import OrderedDict

#: How long a snapshot is kept, and how many bytes of all.
KEPT_MS = 10_000
KEPT_BYTES_MAX = 4 << 20


class SnapshotMemory:
    """Payloads by tree and interval, the oldest first; what is larger than all may be is left to the disk."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, int], tuple[int, bytes]] = OrderedDict()
        self.bytes = 0

    def keep(self, tree: bytes, through: int, payload: bytes | None, now_ms: int) -> None:
        """Keep a snapshot that has data."""
        if payload is not None and len(payload) <= KEPT_BYTES_MAX:
            self._drop(tree, through)
            self._kept[tree, through] = now_ms, payload
            self.bytes += len(payload)
        while self._kept:
            place, (at_ms, _) = next(iter(self._kept.items()))
            if self.bytes <= KEPT_BYTES_MAX and at_ms > now_ms - KEPT_MS:
                break
            self._drop(*place)

    def find(self, tree: bytes, through: int) -> bytes | None:
        """Return a snapshot, if it is still here."""
        kept = self._kept.get((tree, through))
        return None if kept is None else kept[1]

    def _drop(self, tree: bytes, through: int) -> None:
        kept = self._kept.pop((tree, through), None)
        self.bytes -= 0 if kept is None else len(kept[1])
