"""Bytes of many sizes and lifetimes in pages of one size.

The compressed blocks of a tree live long and lie, in an ordinary heap, between the short-lived arrays of merging,
which keeps most of that heap from being used again: a tree of 6 bytes a key then takes ten times that. Here a block
lies in as many pages as it needs, wherever they are; pages of blocks that are gone are taken first.
"""

from __future__ import annotations

import mmap

PAGE_BYTES = mmap.PAGESIZE
#: A segment has as many pages as all before it, within these bounds.
_SEGMENT_PAGES_MIN = 8
_SEGMENT_PAGES_MAX = 256
#: Pages that may lie idle, and the share of those in use that may besides: asking the kernel for one anew costs more
#: than copying it.
_IDLE_PAGES = 64
_IDLE_SHARE = 32

#: A page: the segment's memory, and the place of its first byte.
Page = tuple[mmap.mmap, int]


class Slot:
    """Where some bytes are."""

    __slots__ = ("length", "pages")

    def __init__(self, length: int, pages: tuple[Page, ...]) -> None:
        self.length = length
        self.pages = pages


class Arena:
    """Not safe for use from several threads at once."""

    def __init__(self) -> None:
        self._pages = self._used = 0
        #: Free pages: those the kernel still holds for us, and those it took back.
        self._idle: list[Page] = []
        self._bare: list[Page] = []

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory held, used or not."""
        return (self._used + len(self._idle)) * PAGE_BYTES

    @property
    def used_bytes(self) -> int:
        """Bytes of the pages in use."""
        return self._used * PAGE_BYTES

    def put(self, data: bytes) -> Slot:
        """Copy bytes in."""
        pages: list[Page] = []
        view = memoryview(data)
        for start in range(0, len(data), PAGE_BYTES):
            part = view[start : start + PAGE_BYTES]
            memory, at = page = self._take()
            memory[at : at + len(part)] = part
            pages.append(page)
        return Slot(len(data), tuple(pages))

    def get(self, slot: Slot) -> bytes:
        """Copy the bytes of a slot out."""
        if len(slot.pages) == 1:
            memory, at = slot.pages[0]
            return memory[at : at + slot.length]
        parts = [memory[at : at + PAGE_BYTES] for memory, at in slot.pages]
        return b"".join(parts)[: slot.length]

    def free(self, slot: Slot) -> None:
        """Give a slot's pages back."""
        self._used -= len(slot.pages)
        self._idle += slot.pages
        room = _IDLE_PAGES + self._used // _IDLE_SHARE
        for memory, at in self._idle[room:]:
            memory.madvise(mmap.MADV_DONTNEED, at, PAGE_BYTES)
        self._bare += self._idle[room:]
        del self._idle[room:]
        if not self._used:
            # The last reference to a segment unmaps it.
            self._idle = []
            self._bare = []
            self._pages = 0

    def _take(self) -> Page:
        if not self._idle and not self._bare:
            pages = min(max(self._pages, _SEGMENT_PAGES_MIN), _SEGMENT_PAGES_MAX)
            memory = mmap.mmap(-1, pages * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._bare = [(memory, at) for at in range((pages - 1) * PAGE_BYTES, -1, -PAGE_BYTES)]
            self._pages += pages
        self._used += 1
        return (self._idle or self._bare).pop()
