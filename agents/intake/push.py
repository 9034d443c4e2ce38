"""Pushed events, durable before they are acknowledged (ECOSYSTEM I3): a log file that the source tails like any other.

Appends of callers that arrive together share one fsync (group commit), so many small pushes cost few syncs. What is not
durable yet is not there for the tail (`readable`): so a push that could not be made durable, which its caller sends
again, can be taken back, and a checkpoint never knows of lines that a power failure takes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import threading

from elf.agents.archive.disk import sync_folders
from elf.agents.errors import ConfigError, UnavailableError

#: A fully read spool beyond this size is removed; the next push begins a new file.
TRIM_BYTES = 64 << 20
#: Unread bytes beyond which pushes are refused: the caller keeps the events and comes again (back-pressure).
UNREAD_BYTES_MAX = 512 << 20
#: When the caller should come again: once some of it was read, or somebody has looked after the disk.
FULL_S, UNWRITABLE_S = 5, 30
#: Looked through at a time for the end of the last whole line.
_PEEK_BYTES = 1 << 20


class PushLog:
    """The spool of one source; methods may be called from any thread.

    Args:
        path: its file.
        lingers: what was read may stay until there is much of it; else it goes as soon as it is checkpointed.
    """

    def __init__(self, path: pathlib.Path, *, lingers: bool = True) -> None:
        self.path = path
        self._lingers = lingers
        self._lock = threading.Lock()
        self._synced = threading.Condition()
        #: Pushes appended, and those whose fate is known; both only rise.
        self._appended = self._settled = 0
        #: Pushes that could not be made durable and whose callers have not been told yet.
        self._refused: set[int] = set()
        self._syncing = False
        #: Whose name is known to be durable.
        self._named: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = self._open(path)
            #: Bytes of whole pushes; what the file has beyond them goes before the next.
            self._bytes = _whole_lines(self._descriptor)
            os.ftruncate(self._descriptor, self._bytes)
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise ConfigError(f"{path}: the spool of pushed events cannot be opened: {error.strerror}") from None
        self._durable_bytes = self._bytes

    def readable(self) -> int:
        """Return how many bytes of the file may be read."""
        return self._durable_bytes

    def append(self, ndjson: bytes) -> int:
        """Append lines and return how many, once they are on disk; the last one ends with the push.

        Raises:
            UnavailableError: too much is unread, or the disk is full or fails; nothing of these lines will be read.
        """
        if ndjson and not ndjson.endswith(b"\n"):
            ndjson += b"\n"
        try:
            with self._lock:
                if self._bytes > UNREAD_BYTES_MAX:
                    why = "the source is behind by more than its spool may hold; come again later"
                    raise UnavailableError(why, retry_after_s=FULL_S)
                self._write(ndjson)
                self._appended += 1
                mine = self._appended
            self._settle(mine)
        except OSError as error:
            why = f"the spool cannot be written: {error.strerror or error}"
            raise UnavailableError(why, retry_after_s=UNWRITABLE_S) from None
        return ndjson.count(b"\n")

    def trim(self, read_bytes: int) -> None:
        """Begin a new spool when this is large enough, and all of it was read and checkpointed (`read_bytes` of it)."""
        with self._lock:
            if self._bytes < (TRIM_BYTES if self._lingers else 1) or read_bytes < self._bytes:
                return
            # While the old file is open its inode cannot be the new one's: the tail tells them by that.
            fresh = self.path.with_name(self.path.name + ".new")
            fresh.unlink(missing_ok=True)
            descriptor = self._open(fresh)
            fresh.replace(self.path)
            os.close(self._descriptor)
            self._descriptor = descriptor
            self._bytes = 0
            self._durable_bytes = 0
            self._named = None  # its number may be an earlier one's

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _open(self, path: pathlib.Path) -> int:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write(self, data: bytes) -> None:
        """Append all of it, or, to what counts, nothing."""
        if os.fstat(self._descriptor).st_size != self._bytes:
            os.ftruncate(self._descriptor, self._bytes)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            os.ftruncate(self._descriptor, self._bytes)
            raise
        self._bytes += len(data)

    def _settle(self, mine: int) -> None:
        """Return once a push is durable; raise OSError once it was taken back. One thread syncs for all that wait."""
        with self._synced:
            while self._settled < mine and self._syncing:
                self._synced.wait()
            if self._settled < mine:
                self._syncing = True
            elif mine in self._refused:
                self._refused.remove(mine)
                raise OSError(errno.EIO, "what came together could not be made durable")
            else:
                return
        try:
            self._sync()
        finally:
            with self._synced:
                self._syncing = False
                self._refused.discard(mine)
                self._synced.notify_all()

    def _sync(self) -> None:
        with self._lock:
            upto, size, current = self._appended, self._bytes, self._descriptor
            descriptor = os.dup(current)
        try:
            os.fdatasync(descriptor)
            if self._named != current:
                # Of a file without a durable name a power failure leaves nothing, or the one that had the name before.
                sync_folders([self.path.parent, self.path.parent.parent])
                self._named = current
        except BaseException:
            # A second sync might succeed and mean nothing: the kernel reports a failure once and drops the pages.
            with self._lock:
                refused = range(self._settled + 1, self._appended + 1)
                self._bytes = self._durable_bytes
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._bytes)
                self._refused.update(refused)
                self._settled = self._appended
            raise
        finally:
            os.close(descriptor)
        self._durable_bytes = size
        self._settled = upto


def _whole_lines(descriptor: int) -> int:
    """Return the size of a file without the half line at its end, of a push that was never acknowledged."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _PEEK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
