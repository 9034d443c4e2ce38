"""Pushed events, durable before they are acknowledged (ECOSYSTEM I3): a log file that the source tails like any other.

Appends of callers that arrive together share one fsync (group commit), so many small pushes cost few syncs.
"""

from __future__ import annotations

import os
import pathlib
import threading

from agents.errors import UnavailableError

#: A fully read spool beyond this size is removed; the next push begins a new file.
TRIM_BYTES = 64 << 20
#: Unread bytes beyond which pushes are refused: the caller keeps the events and comes again (back-pressure).
UNREAD_BYTES_MAX = 512 << 20


class PushLog:
    """The spool of one source; methods may be called from any thread."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._synced = threading.Condition()
        self._written = self._durable = 0
        self._syncing = False
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = self._open()

    def append(self, ndjson: bytes) -> int:
        """Append whole lines and return how many, once they are on disk.

        Raises:
            UnavailableError: too much is unread, or the disk is full.
        """
        try:
            with self._lock:
                size = os.fstat(self._descriptor).st_size
                if size > UNREAD_BYTES_MAX:
                    raise UnavailableError("the source is behind by more than its spool may hold; come again later")
                self._write_all(ndjson, size)
                self._written += 1
                mine = self._written
            self._sync(mine)
        except OSError as error:
            raise UnavailableError(f"the spool cannot be written: {error.strerror or error}") from None
        return ndjson.count(b"\n")

    def trim(self, read_bytes: int) -> None:
        """Remove the spool when it is large and everything in it was read and checkpointed (`read_bytes` of it)."""
        with self._lock:
            size = os.fstat(self._descriptor).st_size
            if size >= TRIM_BYTES and read_bytes >= size:
                self.path.unlink()
                os.close(self._descriptor)
                self._descriptor = self._open()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write_all(self, data: bytes, size: int) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # A half-written push was not acknowledged: take it back, or its resend would count twice.
            os.ftruncate(self._descriptor, size)
            raise

    def _sync(self, mine: int) -> None:
        with self._synced:
            while self._durable < mine and self._syncing:
                self._synced.wait()
            if self._durable >= mine:
                return
            self._syncing = True
        done = self._durable
        try:
            with self._lock:
                done, descriptor = self._written, os.dup(self._descriptor)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            done = self._durable
            raise
        finally:
            with self._synced:
                self._syncing, self._durable = False, max(self._durable, done)
                self._synced.notify_all()
