"""The control records of one application: a map in which the newest wins, spread over the tree's edges.

Owns what is applied, what is forwarded to whom, and the exchange of digests when an edge comes up, so that two parts of
a tree that were apart end up equal. Durability is the runtime's: it re-adds records at start (DESIGN section 4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from overlay.contract import Record
from overlay.messages import RECORD_BYTES_MAX, RecordMark

#: Most records of one application, and most bytes in their bodies: about 8,000 job definitions of 8 KiB.
RECORDS_MAX = 8_192
BODIES_BYTES_MAX = 64 << 20


def record_digest(record: Record) -> bytes:
    """Return what breaks the tie between two bodies of one version, the same on every agent."""
    return hashlib.blake2b(record.body, digest_size=16).digest()


class RecordMap:
    """Last-writer-wins records by key, ordered by (version, digest of body)."""

    def __init__(self) -> None:
        self._records: dict[str, tuple[tuple[int, bytes], Record]] = {}
        self._bodies_bytes = 0
        self.refused = 0

    def apply(self, record: Record) -> bool:
        """Take a record; False if ours is the same or newer, or a limit would be passed (counted in `refused`)."""
        rank = (record.version, record_digest(record))
        held = self._records.get(record.key)
        if held is not None and held[0] >= rank:
            return False
        grown = self._bodies_bytes + len(record.body) - (len(held[1].body) if held else 0)
        full = held is None and len(self._records) >= RECORDS_MAX
        if full or grown > BODIES_BYTES_MAX or len(record.body) > RECORD_BYTES_MAX:
            self.refused += 1
            return False
        self._records[record.key] = (rank, record)
        self._bodies_bytes = grown
        return True

    def all(self) -> list[Record]:
        """Return all records by key."""
        return [self._records[key][1] for key in sorted(self._records)]

    def marks(self) -> tuple[RecordMark, ...]:
        """Return what we hold, without bodies."""
        return tuple(RecordMark(key, *self._records[key][0]) for key in sorted(self._records))

    def newer_than(self, marks: Iterable[RecordMark]) -> tuple[Record, ...]:
        """Return the records that the owner of these marks lacks or holds in an older form."""
        theirs = {mark.key: (mark.version, mark.digest) for mark in marks}
        return tuple(
            record for key, (rank, record) in sorted(self._records.items()) if key not in theirs or theirs[key] < rank
        )
