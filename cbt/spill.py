"""The spill store: cold blocks of a tree on disk, each either as it was written or an error.

It owns the segments and the account of what is alive in them; the tree owns the refs. `elf.cbt.spill_block` has the
form of a block, `elf.cbt.spill_folder` the names of files and who may remove them.

Spilled blocks are scratch (the checkpoint has the durable copy): nothing is synced, `close` deletes the files, and
those of a killed process go when the next store opens the folder. Files are opened per block, which costs 3 us: so no
store keeps more than one descriptor, that of its lock, and a file that was removed or replaced is noticed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import threading
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from elf.cbt import spill_block, spill_folder
from elf.cbt.spill_block import HEADER_BYTES, PAYLOAD_BYTES_MAX, Ref, SpillCorrupt, SpillError, SpillFull
from elf.cbt.spill_folder import FLAGS, sweep

__all__ = ["Ref", "SpillCorrupt", "SpillError", "SpillFull", "SpillStatistics", "SpillStore", "sweep"]

#: What the machine lacks for the moment; says nothing about the block.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN)


class SpillStatistics(NamedTuple):
    """Bytes include the blocks' headers; `disk_bytes` is the sum of the other two and of blocks being written."""

    live_bytes: int
    garbage_bytes: int
    disk_bytes: int
    blocks: int
    segments: int


@dataclasses.dataclass(eq=False)
class _Segment:
    number: int
    path: Path
    #: The next block's offset.
    size: int = 0
    live: dict[int, Ref] = dataclasses.field(default_factory=dict)
    live_bytes: int = 0
    #: Bytes of blocks that threads are writing right now.
    pending_bytes: int = 0
    #: Not to be compacted: it is being, or has a block that cannot be read.
    aside: bool = False

    @property
    def garbage_bytes(self) -> int:
        return self.size - self.live_bytes - self.pending_bytes


class SpillStore:
    """Blocks on disk, by ref. Any thread may `read` and `write`; one at a time calls `free` and `compact`.

    A ref is readable from `write` until `free`; the caller sees to it that nobody reads a ref that is being freed.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = 64 << 20) -> None:
        """Touch nothing yet: most trees never spill.

        Args:
            folder: made at the first write, owner-only; other stores may use it too.
            segment_bytes: a segment takes no more blocks above this. Smaller ones give space back sooner, larger ones
                make fewer files.
        """
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._token = os.urandom(8)
        self._lock = threading.Lock()
        self._segments: dict[int, _Segment] = {}
        self._current: _Segment | None = None
        self._numbers = 0
        self._holder: weakref.finalize[..., SpillStore] | None = None
        self._holder_descriptor = -1
        self._closed = False

    def write(self, data: bytes) -> Ref:
        """Append a block. O(bytes).

        Raises:
            SpillFull: the disk is full or refuses; the store is as before.
        """
        if len(data) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"a block of {len(data)} bytes; at most {PAYLOAD_BYTES_MAX} can be spilled at once")
        checksum = zlib.crc32(data)
        while True:
            segment, ref = self._reserve(len(data), checksum)
            try:
                self._put(segment, ref, data)
            except BaseException as error:
                self._abandon(segment, ref)
                if isinstance(error, FileNotFoundError) and ref.offset:
                    continue  # Somebody removed the segment: its blocks are lost, this one goes to a new segment.
                if isinstance(error, OSError):
                    raise SpillFull(f"{segment.path}: {ref.disk_bytes} bytes cannot be written: {error}") from error
                raise
            with self._lock:
                segment.pending_bytes -= ref.disk_bytes
                segment.live[ref.offset] = ref
                segment.live_bytes += ref.disk_bytes
            return ref

    def read(self, ref: Ref) -> bytes:
        """Return the block exactly as it was written. O(bytes).

        Raises:
            SpillCorrupt: it is not there or not as it was written.
            SpillError: it cannot be read just now, for example for want of descriptors.
        """
        with self._lock:
            segment = self._live_segment(ref)
        if segment is None:
            raise SpillCorrupt(f"{self._path(ref.segment)} at {ref.offset}: a stale ref; no such block is alive")
        where = f"{segment.path} at {ref.offset}"
        try:
            descriptor = os.open(segment.path, os.O_RDONLY | FLAGS)
            try:
                head = os.pread(descriptor, HEADER_BYTES, ref.offset)
                data = os.pread(descriptor, ref.length, ref.offset + HEADER_BYTES)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            raise SpillCorrupt(f"{where}: the file is missing") from None
        except OSError as error:
            kind = SpillError if error.errno in _PASSING else SpillCorrupt
            raise kind(f"{where}: {ref.disk_bytes} bytes cannot be read: {error}") from error
        try:
            spill_block.verify(self._token, ref, head, data)
        except SpillCorrupt as error:
            raise SpillCorrupt(f"{where}: {error}") from None
        return data

    def free(self, ref: Ref) -> None:
        """Give a block up; the last one of a segment takes the file with it. O(1). After `close`, do nothing.

        Raises:
            ValueError: the block is not alive: a bug of the caller's.
        """
        with self._lock:
            if self._closed:
                return
            segment = self._live_segment(ref)
            if segment is None:
                raise ValueError(f"{ref} is not a live block")
            del segment.live[ref.offset]
            segment.live_bytes -= ref.disk_bytes
            self._drop_garbage(segment)

    def compact(self, move: Callable[[Ref, Ref], None], *, bytes_max: int = 8 << 20) -> int:
        """Move blocks out of the segment with the most garbage, if that is half of it; its file goes with the last one.

        All calls together move no more bytes than were freed. Call it until it returns 0.

        Args:
            move: called with the old and the new ref of each block while both can be read; then the old is freed.
            bytes_max: stop after this many, or after one block.

        Returns:
            Bytes moved; 0 if no segment is worth it.

        Raises:
            SpillCorrupt: a block cannot be read. Its segment stays and is not tried again.
            SpillFull: a block cannot be written. It stays where it was.
        """
        with self._lock:
            worth = (s for s in self._segments.values() if not s.aside and not s.pending_bytes)
            segment = max(worth, key=lambda s: s.garbage_bytes / s.size, default=None)
            if segment is None or 2 * segment.garbage_bytes < segment.size:
                return 0
            segment.aside = True
            if segment is self._current:
                self._current = None
            blocks = list(segment.live.values())
        moved = 0
        corrupt = False
        try:
            for old in blocks:
                new = self.write(self.read(old))
                try:
                    move(old, new)
                except BaseException:
                    self.free(new)
                    raise
                self.free(old)
                moved += old.disk_bytes
                if moved >= bytes_max:
                    break
        except SpillCorrupt:
            corrupt = True
            raise
        finally:
            segment.aside = corrupt
        return moved

    def statistics(self) -> SpillStatistics:
        """Count; O(segments)."""
        with self._lock:
            segments = self._segments.values()
            return SpillStatistics(
                live_bytes=sum(s.live_bytes for s in segments),
                garbage_bytes=sum(s.garbage_bytes for s in segments),
                disk_bytes=sum(s.size for s in segments),
                blocks=sum(len(s.live) for s in segments),
                segments=len(segments),
            )

    def close(self) -> None:
        """Delete all blocks; O(segments). Twice is once; a store that nobody holds any more closes itself."""
        with self._lock:
            self._closed = True
            self._segments.clear()
            self._current = None
            if self._holder is not None:
                self._holder()

    def _reserve(self, length: int, checksum: int) -> tuple[_Segment, Ref]:
        """Give a block its place, in a new segment if need be."""
        need = HEADER_BYTES + length
        with self._lock:
            if self._closed:
                raise SpillError(f"{self.folder}: the spill store is closed")
            segment = self._current
            if segment is None or (segment.size and segment.size + need > self.segment_bytes):
                segment = self._begin_segment()
            ref = Ref(segment.number, segment.size, length, checksum)
            segment.size += need
            segment.pending_bytes += need
            return segment, ref

    def _begin_segment(self) -> _Segment:
        path = self._path(self._numbers)
        try:
            if not spill_folder.holds(self._holder_descriptor, spill_folder.lock_path(self.folder, self._token)):
                self._claim()
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS, 0o600))
        except OSError as error:
            raise SpillFull(f"{path}: the file cannot be made: {error}") from error
        segment = _Segment(self._numbers, path)
        self._numbers += 1
        self._segments[segment.number] = self._current = segment
        return segment

    def _claim(self) -> None:
        """Take the folder for the first time, or again after somebody removed it."""
        descriptor = spill_folder.claim(self.folder, self._token)
        if self._holder is not None:
            self._holder.detach()
            os.close(self._holder_descriptor)
        self._holder_descriptor = descriptor
        self._holder = weakref.finalize(self, _remove, self.folder, self._token, descriptor, os.getpid())

    def _put(self, segment: _Segment, ref: Ref, data: bytes) -> None:
        descriptor = os.open(segment.path, os.O_WRONLY | FLAGS)
        try:
            parts = [memoryview(spill_block.header(self._token, ref)), memoryview(data)]
            place = ref.offset
            while parts:
                written = os.pwritev(descriptor, parts, place)
                place += written
                while parts and written >= len(parts[0]):
                    written -= len(parts.pop(0))
                if parts:
                    parts[0] = parts[0][written:]
        finally:
            os.close(descriptor)

    def _abandon(self, segment: _Segment, ref: Ref) -> None:
        """Take back the place of a block that was not written: its bytes, or garbage if others lie behind it."""
        with self._lock:
            segment.pending_bytes -= ref.disk_bytes
            if segment.size == ref.offset + ref.disk_bytes:
                segment.size = ref.offset
                with contextlib.suppress(OSError):
                    _truncate(segment.path, ref.offset)
            if segment is self._current and not segment.path.exists():
                self._current = None
            self._drop_garbage(segment)

    def _drop_garbage(self, segment: _Segment) -> None:
        if segment.live or segment.pending_bytes or self._segments.get(segment.number) is not segment:
            return
        del self._segments[segment.number]
        if segment is self._current:
            self._current = None
        with contextlib.suppress(OSError):
            segment.path.unlink()

    def _live_segment(self, ref: Ref) -> _Segment | None:
        segment = self._segments.get(ref.segment)
        return segment if segment is not None and segment.live.get(ref.offset) == ref else None

    def _path(self, number: int) -> Path:
        return spill_folder.segment_path(self.folder, self._token, number)


def _remove(folder: Path, token: bytes, descriptor: int, process: int) -> None:
    """Delete a store's files and let its lock go; not in a child process that merely inherited the store."""
    if os.getpid() == process:
        spill_folder.remove(folder, token)
    os.close(descriptor)


def _truncate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | FLAGS)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)
