"""Bytes of many sizes and lifetimes in pages of one size.

The compressed blocks of a tree live long and lie, in an ordinary heap, between the short-lived arrays of merging,
which keeps most of that heap from being used again: a tree of 6 bytes a key then takes ten times that. Here a block
lies in as many pages as it needs, wherever they are; pages of blocks that are gone are taken first.
"""

from __future__ import annotations

import mmap

PAGE_BYTES = 4096
#: A segment has as many pages as all before it, within these bounds.
_SEGMENT_PAGES_MIN = 8
_SEGMENT_PAGES_MAX = 256

#: A page: the segment, and the place of its first byte.
Page = tuple["Segment", int]


class Segment:
    """Neighbouring pages."""

    __slots__ = ("free", "memory", "pages")

    def __init__(self, pages: int) -> None:
        self.memory = mmap.mmap(-1, pages * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.pages = pages
        self.free = list(range((pages - 1) * PAGE_BYTES, -1, -PAGE_BYTES))


class Slot:
    """Where some bytes are."""

    __slots__ = ("length", "pages")

    def __init__(self, length: int, pages: tuple[Page, ...]) -> None:
        self.length, self.pages = length, pages


class Arena:
    """Not safe for use from several threads at once."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        #: Those with free pages, the one to take from last.
        self._open: list[Segment] = []
        self._pages = self._free = 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of all segments, used or not."""
        return self._pages * PAGE_BYTES

    @property
    def used_bytes(self) -> int:
        """Bytes of the pages in use."""
        return (self._pages - self._free) * PAGE_BYTES

    def put(self, data: bytes) -> Slot:
        """Copy bytes in."""
        pages: list[Page] = []
        view = memoryview(data)
        for start in range(0, len(data), PAGE_BYTES):
            part = view[start : start + PAGE_BYTES]
            segment, at = page = self._take()
            segment.memory[at : at + len(part)] = part
            pages.append(page)
        return Slot(len(data), tuple(pages))

    def get(self, slot: Slot) -> bytes:
        """Copy the bytes of a slot out."""
        if len(slot.pages) == 1:
            segment, at = slot.pages[0]
            return segment.memory[at : at + slot.length]
        parts = [segment.memory[at : at + PAGE_BYTES] for segment, at in slot.pages]
        return b"".join(parts)[: slot.length]

    def free(self, slot: Slot) -> None:
        """Give a slot's pages back."""
        for segment, at in slot.pages:
            if not segment.free:
                self._open.append(segment)
            segment.free.append(at)
            self._free += 1
            # A quarter of the memory may lie idle: it costs more to ask the kernel for it again.
            if len(segment.free) == segment.pages and self._free - segment.pages > self._pages // 4:
                self._drop(segment)

    def _take(self) -> Page:
        if not self._open:
            pages = min(max(self._pages, _SEGMENT_PAGES_MIN), _SEGMENT_PAGES_MAX)
            segment = Segment(pages)
            self._segments.append(segment)
            self._open.append(segment)
            self._pages += pages
            self._free += pages
        segment = self._open[-1]
        at = segment.free.pop()
        self._free -= 1
        if not segment.free:
            self._open.pop()
        return segment, at

    def _drop(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._open.remove(segment)
        self._pages -= segment.pages
        self._free -= segment.pages
