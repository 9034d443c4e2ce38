"""Where a tree's blocks live: in memory up to a bound, beyond it on disk.

A block's bytes never change, so whoever holds a block may read it at any time, from any thread, whatever happens to
the tree meanwhile; its memory or disk space is given back when nobody holds it any more.
"""

from __future__ import annotations

import collections
import threading
import weakref

from cbt.arena import Arena, Slot
from cbt.settings import TreeSettings
from cbt.spill import Ref, SpillStore


class Block:
    """Packed rows of one node.

    Attributes:
        rows: how many.
        low: the lowest order among them.
        size: compressed bytes.
    """

    __slots__ = ("__weakref__", "_pager", "low", "place", "rows", "size")

    def __init__(self, size: int, rows: int, low: int, place: Slot, pager: Pager) -> None:
        self.rows = rows
        self.low = low
        self.size = size
        #: In memory, or on disk; the pager's business.
        self.place: Slot | Ref = place
        self._pager = pager

    def load(self) -> bytes | memoryview:
        """Return the bytes, from memory or disk.

        Raises:
            SpillCorrupt: the disk did not keep what was spilled.
        """
        return self._pager.get(self)

    def __del__(self) -> None:
        self._pager.forget(self.place)


class Pager:
    """Keeps count of blocks, and spills the oldest when they outgrow the bound."""

    def __init__(self, settings: TreeSettings) -> None:
        self._bytes_max = settings.memory_bytes_max
        folder = settings.spill_folder
        self._store = SpillStore(folder) if folder is not None and self._bytes_max is not None else None
        self._arena = Arena()
        self._oldest: collections.deque[weakref.ref[Block]] = collections.deque()
        # What blocks gave back since last asked: they may die at any moment, in any thread, even under our own lock.
        self._given_back: collections.deque[Slot | Ref] = collections.deque()
        self._lock = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory held for blocks."""
        with self._lock:
            self._settle()
            return self._arena.memory_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes of living blocks on disk."""
        with self._lock:
            self._settle()
        return 0 if self._store is None else self._store.statistics().live_bytes

    def put(self, data: bytes, rows: int, low: int) -> Block:
        """Keep a block.

        Raises:
            SpillFull: there was no room on disk for what does not fit into memory.
        """
        with self._lock:
            self._settle()
            if self._store is not None and self._bytes_max is not None:
                while self._oldest and self._arena.live_bytes + len(data) > self._bytes_max:
                    self._spill(self._oldest[0]())
                    self._oldest.popleft()
            block = Block(len(data), rows, low, self._arena.put(data), self)
            if self._store is not None:
                self._oldest.append(weakref.ref(block))
        return block

    def get(self, block: Block) -> bytes | memoryview:
        """Return a block's bytes."""
        with self._lock:
            place = block.place
            if isinstance(place, Slot):
                return self._arena.get(place)
        assert self._store is not None
        return self._store.read(place)

    def forget(self, place: Slot | Ref) -> None:
        """A block is gone: take its space back, later."""
        self._given_back.append(place)

    def close(self) -> None:
        """Delete what was spilled."""
        if self._store is not None:
            self._store.close()

    def _spill(self, block: Block | None) -> None:
        if block is not None and isinstance(block.place, Slot):
            assert self._store is not None
            slot = block.place
            block.place = self._store.write(bytes(self._arena.get(slot)))
            self._arena.free(slot)

    def _settle(self) -> None:
        while self._given_back:
            place = self._given_back.popleft()
            if isinstance(place, Slot):
                self._arena.free(place)
            elif self._store is not None:
                self._store.free(place)
