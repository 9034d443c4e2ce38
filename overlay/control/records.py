"""The control records of one application: a map in which the newest wins, alike on all agents that heard the same.

Owns what is held. Durability is the runtime's: it re-adds records at start; `elf.overlay.control.flood` exchanges them.
Pure. Beyond the limits the greatest keys go, whoever came first: every agent then keeps the same ones, and an agent's
announcement goes before a job's definition (DESIGN section 4).
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable

import msgspec

from elf.overlay.contract import Record
from elf.overlay.messages import RECORD_BYTES_MAX, RecordMark

#: Most records of one application, and most bytes in their bodies: about 8,000 job definitions of 8 KiB.
RECORDS_MAX = 8_192
BODIES_BYTES_MAX = 64 << 20
#: Bodies from which on it is worth while to have equal ones once.
SHARED_BYTES_MIN = 256
#: A summary is the sum of one hash a record, modulo this: changed in O(1), equal for equal maps in any order.
_MODULUS = 1 << 128


def record_digest(record: Record) -> bytes:
    """Return what breaks the tie between two bodies of one version, the same on every agent."""
    return hashlib.blake2b(record.body, digest_size=16).digest()


class RecordMap:
    """Last-writer-wins records by key, ordered by (version, digest of body)."""

    __slots__ = ("_bodies_bytes", "_records", "_sum", "refused")

    def __init__(self) -> None:
        # Most trees have one to three: they are put in order when they are asked for.
        self._records: dict[str, tuple[tuple[int, bytes], Record]] = {}
        self._bodies_bytes = 0
        self._sum = 0
        #: Records that found no room or lost it to lower keys.
        self.refused = 0

    @property
    def summary(self) -> bytes:
        """A number of 16 bytes that is equal on two nodes if they hold the same."""
        return self._sum.to_bytes(16, "big")

    def is_new(self, record: Record) -> bool:
        """Tell whether ours is older, or there is none."""
        held = self._records.get(record.key)
        return held is None or held[0] < (record.version, record_digest(record))

    def apply(self, record: Record) -> bool:
        """Take a record; False if ours is the same or newer, or it finds no room; O(1) without evictions."""
        if not self.is_new(record):
            return False
        rank = (record.version, record_digest(record))
        held = self._records.get(record.key)
        if len(record.body) > RECORD_BYTES_MAX:
            self.refused += 1
            return False
        if held is not None:
            self._remove(record.key)
        self._records[record.key] = (rank, _with_shared_body(record, rank[1]))
        self._bodies_bytes += len(record.body)
        self._sum = (self._sum + _hash(record.key, rank)) % _MODULUS
        while len(self._records) > RECORDS_MAX or self._bodies_bytes > BODIES_BYTES_MAX:
            self._remove(max(self._records))
            self.refused += 1
        return record.key in self._records

    def forget(self, key: str) -> None:
        """Hold a record no more; a neighbour that has it may bring it back."""
        if key in self._records:
            self._remove(key)

    def all(self) -> list[Record]:
        """Return all records by key."""
        return [record for _, (_, record) in sorted(self._records.items())]

    def marks(self) -> tuple[RecordMark, ...]:
        """Return what we hold, without bodies."""
        return tuple(RecordMark(key, *rank) for key, (rank, _) in sorted(self._records.items()))

    def newer_than(self, marks: Iterable[RecordMark]) -> tuple[Record, ...]:
        """Return the records that the owner of these marks lacks or holds in an older form."""
        theirs = {mark.key: (mark.version, mark.digest) for mark in marks}
        ours = sorted(self._records.items())
        return tuple(record for key, (rank, record) in ours if key not in theirs or theirs[key] < rank)

    def lacks(self, marks: Iterable[RecordMark]) -> bool:
        """Tell whether the owner of these marks holds something that we lack or hold in an older form."""
        for mark in marks:
            held = self._records.get(mark.key)
            if held is None or held[0] < (mark.version, mark.digest):
                return True
        return False

    def _remove(self, key: str) -> None:
        rank, record = self._records.pop(key)
        self._bodies_bytes -= len(record.body)
        self._sum = (self._sum - _hash(key, rank)) % _MODULUS


def _with_shared_body(record: Record, digest: bytes) -> Record:
    """Return the record with the body that another one has already: a job's is told in several trees."""
    if len(record.body) < SHARED_BYTES_MIN:
        return record
    same = _bodies.setdefault(digest, record)
    return record if same is record else msgspec.structs.replace(record, body=same.body)


#: Digest -> a record with such a body, for as long as somebody has it.
_bodies: weakref.WeakValueDictionary[bytes, Record] = weakref.WeakValueDictionary()


def _hash(key: str, rank: tuple[int, bytes]) -> int:
    text = b"%d %s %s" % (rank[0], rank[1], key.encode())
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
