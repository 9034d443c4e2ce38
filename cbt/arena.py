"""Bytes of many sizes and lifetimes in a few large segments.

The compressed blocks of a tree live long and lie, in an ordinary heap, between the short-lived arrays of merging,
which keeps most of that heap from being used again: a tree of 6 bytes a key then takes ten times that. Here they lie
side by side, and where too many have gone the rest is moved together.
"""

from __future__ import annotations

import mmap

#: A segment is as large as all before it, within these bounds.
_SEGMENT_BYTES_MIN = 16 << 10
_SEGMENT_BYTES_MAX = 1 << 20


class Slot:
    """Where some bytes are; moves when its segment is compacted."""

    __slots__ = ("length", "offset", "segment")

    def __init__(self, segment: Segment, offset: int, length: int) -> None:
        self.segment, self.offset, self.length = segment, offset, length


class Segment:
    """One piece of memory. It stays while somebody reads from it."""

    __slots__ = ("live", "live_bytes", "memory", "used")

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.used = 0
        self.live: set[Slot] = set()
        self.live_bytes = 0


class Arena:
    """Not safe for use from several threads at once; what `get` returned may be read by any thread at any time."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._held_bytes = 0
        self.live_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of all segments, used or not."""
        return self._held_bytes

    def put(self, data: bytes) -> Slot:
        """Copy bytes in."""
        slot = self._place(data)
        self._compact()
        return slot

    def get(self, slot: Slot) -> memoryview:
        """The bytes of a slot; they stay what they are however the arena changes."""
        return memoryview(slot.segment.memory)[slot.offset : slot.offset + slot.length]

    def free(self, slot: Slot) -> None:
        """Give a slot's bytes back."""
        segment = slot.segment
        segment.live.remove(slot)
        segment.live_bytes -= slot.length
        self.live_bytes -= slot.length
        if not segment.live:
            self._drop(segment)

    def _place(self, data: bytes | memoryview, slot: Slot | None = None) -> Slot:
        length = len(data)
        segment = self._segments[-1] if self._segments else None
        if segment is None or segment.used + length > len(segment.memory):
            size = max(length, min(max(self._held_bytes, _SEGMENT_BYTES_MIN), _SEGMENT_BYTES_MAX))
            segment = Segment(size)
            self._segments.append(segment)
            self._held_bytes += size
        segment.memory[segment.used : segment.used + length] = data
        if slot is None:
            slot = Slot(segment, segment.used, length)
            self.live_bytes += length
        else:
            slot.segment, slot.offset = segment, segment.used
        segment.used += length
        segment.live.add(slot)
        segment.live_bytes += length
        return slot

    def _compact(self) -> None:
        """Empty the segment with the most garbage while garbage is more than a tenth of what lives."""
        full = self._segments[:-1]
        garbage = sum(segment.used - segment.live_bytes for segment in full)
        if garbage <= _SEGMENT_BYTES_MAX // 4 + self.live_bytes // 10:
            return
        worst = max(full, key=lambda segment: segment.used - segment.live_bytes)
        for slot in sorted(worst.live, key=lambda slot: slot.offset):
            self._place(self.get(slot), slot)
        worst.live.clear()
        self._drop(worst)

    def _drop(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._held_bytes -= len(segment.memory)
