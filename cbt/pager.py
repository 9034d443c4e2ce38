"""Where a tree's blocks live: in memory up to a bound, beyond it on disk.

A block's bytes never change, so whoever holds a block may read it at any time, from any thread, whatever happens to
the tree meanwhile; its memory or disk space is given back when nobody holds it any more.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading
import weakref

from elf.cbt.arena import Arena, Slot
from elf.cbt.settings import TreeSettings
from elf.cbt.spill import Ref, SpillError, SpillStore

#: The disk's space is given back segment by segment, so a bound is some segments.
_SEGMENTS = 16
_SEGMENT_BYTES_MIN, _SEGMENT_BYTES_MAX = 256 << 10, 64 << 20


class Block:
    """Packed rows of one node.

    Attributes:
        number: counts a tree's blocks from the oldest on.
        rows: how many.
        low: the lowest order among them.
        size: compressed bytes.
        place: in memory, or on disk; the pager's business.
    """

    __slots__ = ("__weakref__", "_pager", "low", "number", "place", "rows", "size")

    def __init__(self, number: int, size: int, rows: int, low: int, place: Slot, pager: Pager) -> None:
        self.number = number
        self.size = size
        self.rows = rows
        self.low = low
        self.place: Slot | Ref = place
        self._pager = pager

    def load(self) -> bytes:
        """Return the bytes, from memory or disk.

        Raises:
            SpillCorrupt: the disk did not keep what was spilled.
            SpillError: it cannot be read just now, or the tree is closed.
        """
        return self._pager.get(self)

    def __del__(self) -> None:
        self._pager.forget(self.number, self.place)


class Pager:
    """Keeps count of blocks, and spills the oldest when they outgrow the bound."""

    def __init__(self, settings: TreeSettings) -> None:
        self._bytes_max = settings.memory_bytes_max
        self._store: SpillStore | None = None
        if settings.spill_folder is not None and self._bytes_max is not None:
            segment_bytes = min(max(self._bytes_max // _SEGMENTS, _SEGMENT_BYTES_MIN), _SEGMENT_BYTES_MAX)
            self._store = SpillStore(settings.spill_folder, segment_bytes=segment_bytes)
        self._closed = False
        self._arena = Arena()
        self._numbers = itertools.count()
        #: By number, so the oldest come first.
        self._in_memory: dict[int, weakref.ref[Block]] = {}
        self._on_disk: dict[Ref, weakref.ref[Block]] = {}
        # What blocks gave back since last asked: they may die at any moment, in any thread, even under our own lock.
        self._given_back: collections.deque[tuple[int, Slot | Ref]] = collections.deque()
        self._lock = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory held for blocks."""
        with self._lock:
            self._take_back()
            return self._arena.memory_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes of living blocks on disk."""
        with self._lock:
            self._take_back()
            return 0 if self._store is None else self._store.statistics().live_bytes

    def put(self, data: bytes, rows: int, low: int) -> Block:
        """Keep a block.

        Raises:
            SpillFull: there was no room on disk for what does not fit into memory.
        """
        with self._lock:
            self._take_back()
            if self._store is not None and self._bytes_max is not None:
                while self._in_memory and self._arena.used_bytes + len(data) > self._bytes_max:
                    number, oldest = next(iter(self._in_memory.items()))
                    self._spill(self._store, oldest())
                    del self._in_memory[number]
                self._compact(self._store)
            block = Block(next(self._numbers), len(data), rows, low, self._arena.put(data), self)
            if self._store is not None:
                self._in_memory[block.number] = weakref.ref(block)
        return block

    def get(self, block: Block) -> bytes:
        """Return a block's bytes."""
        while True:
            with self._lock:
                place = block.place
                if isinstance(place, Slot):
                    return self._arena.get(place)
            assert self._store is not None
            try:
                return self._store.read(place)
            except SpillError as error:
                if self._closed:
                    raise SpillError("the tree is closed, and what it had on disk is gone") from error
                # Compaction may have moved it meanwhile; if not, it is gone.
                if block.place is place:
                    raise

    def forget(self, number: int, place: Slot | Ref) -> None:
        """A block is gone: take its space back, later."""
        self._given_back.append((number, place))

    def close(self) -> None:
        """Delete what was spilled. Blocks that are in memory can still be read."""
        self._closed = True
        if self._store is not None:
            self._store.close()

    def _spill(self, store: SpillStore, block: Block | None) -> None:
        if block is not None and isinstance(block.place, Slot):
            slot = block.place
            block.place = store.write(self._arena.get(slot))
            self._on_disk[block.place] = weakref.ref(block)
            self._arena.free(slot)

    def _compact(self, store: SpillStore) -> None:
        """Keep garbage on disk below what lives there."""
        statistics = store.statistics()
        if statistics.garbage_bytes > statistics.live_bytes + _SEGMENT_BYTES_MIN:
            # What cannot be moved stays where it is; what cannot be read is reported to whom it matters, its reader.
            with contextlib.suppress(SpillError, LookupError):
                store.compact(self._moved)

    def _moved(self, old: Ref, new: Ref) -> None:
        block = self._on_disk[old]()
        if block is None:
            raise LookupError("the block is gone, and its space about to be given back")
        self._on_disk[new] = self._on_disk.pop(old)
        block.place = new

    def _take_back(self) -> None:
        while self._given_back:
            number, place = self._given_back.popleft()
            if isinstance(place, Slot):
                self._in_memory.pop(number, None)
                self._arena.free(place)
            elif self._store is not None:
                self._on_disk.pop(place, None)
                self._store.free(place)
