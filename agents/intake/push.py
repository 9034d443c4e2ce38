"""Pushed events, durable before they are acknowledged (ECOSYSTEM I3): a log file that the source tails like any other.

Appends of callers that arrive together share one fsync (group commit), so many small pushes cost few syncs. What is not
durable yet is not there for the tail (`readable`): so a push that could not be made durable, which its caller sends
again, can be taken back, and a checkpoint never knows of lines that a power failure takes.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pathlib
import threading
from collections.abc import Callable
from typing import NamedTuple

from elf.agents.errors import ConfigError, KeyReusedError, UnavailableError
from elf.agents.host.disk import open_log, sync_folders, write_all
from elf.agents.intake.push_keys import PushKey, PushKeys, digest
from elf.agents.sources.files import readers
from elf.agents.sources.machine_time import wall_clock_ms
from elf.agents.store.quarantine import name_aside

log = logging.getLogger(__name__)

#: A fully read spool beyond this size is removed; the next push begins a new file.
TRIM_BYTES = 64 << 20
#: Unread bytes beyond which pushes are refused: the caller keeps the events and comes again (back-pressure).
UNREAD_BYTES_MAX = 512 << 20
#: When the caller should come again: once some of it was read, or somebody has looked after the disk.
FULL_S, UNWRITABLE_S = 5, 30
#: Looked through at a time for the end of the last whole line.
_PEEK_BYTES = 1 << 20


class Appended(NamedTuple):
    """A push that is on disk.

    Attributes:
        lines: how many it has.
        duplicate: it was there already, under its key.
    """

    lines: int
    duplicate: bool


class PushLog:
    """The spool of one source; methods may be called from any thread.

    Args:
        path: of the spool; what is remembered of pushes lies beside it, as `.keys`.
        now_ms: the clock, ms since the epoch.
        lingers: what was read may stay until there is much of it; else it goes as soon as it is checkpointed.
    """

    def __init__(self, path: pathlib.Path, now_ms: Callable[[], int] = wall_clock_ms, *, lingers: bool = True) -> None:
        self.path = path
        #: Whether what was read may stay; may be set from any thread.
        self.lingers = lingers
        self._lock = threading.Lock()
        self._synced = threading.Condition()
        #: Pushes appended, and those whose fate is known; both only rise.
        self._appended = self._settled = 0
        #: Pushes that could not be made durable and whose callers have not been told yet.
        self._refused: set[int] = set()
        self._syncing = False
        #: Whose name is known to be durable.
        self._named: int | None = None
        #: Inode -> bytes, of spools that were set aside: none of what was not read of them will be.
        self._aside: dict[int, int] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = open_log(path)
            #: Bytes of whole pushes; what the file has beyond them goes before the next.
            self._bytes = _whole_lines(self._descriptor)
            os.ftruncate(self._descriptor, self._bytes)
            os.fdatasync(self._descriptor)
            self._keys = PushKeys(path.with_suffix(".keys"), now_ms)
            self._keys.recover(self._bytes)
            if not self._bytes or self._keys.spool is None:
                self._keys.begin(self._inode())
        except OSError as error:
            raise ConfigError(f"{path}: the spool of pushed events cannot be opened: {error.strerror}") from None
        self._durable_bytes = self._bytes

    def readable(self) -> int:
        """Return how many bytes of the file may be read."""
        return self._durable_bytes

    def is_ours(self, inode: int) -> bool:
        """Tell whether we began the file; one that somebody has put in its place is none of ours."""
        with self._lock:
            return inode == self._keys.spool

    def is_read(self, inode: int) -> bool:
        """Tell whether a spool was one of ours before this, and went because all of it was read and checkpointed."""
        with self._lock:
            return inode in self._keys.read

    def unread(self, inode: int, offset: int) -> int | None:
        """Return how many bytes of a spool that was set aside were never read up to a place; None if it was not."""
        with self._lock:
            return None if inode not in self._aside else max(0, self._aside[inode] - offset)

    @property
    def is_replaced(self) -> bool:
        """Whether the file is not the one that we began: a copy of it, say; then `adopt` it, or `set_aside`."""
        return not self.is_ours(self._inode())

    def adopt(self) -> None:
        """Take a file for our own: it holds what was read of it; OSError if that cannot be made durable."""
        with self._lock:
            self._keys.begin(self._inode())

    def set_aside(self, inode: int, why: str) -> None:
        """Put away the file at our path, which is not what we wrote, and begin anew; nothing more of it is read.

        Raises:
            OSError: that cannot be done now; it may be tried again.
        """
        with self._lock, contextlib.suppress(FileNotFoundError):
            if _inode_of(os.stat(self.path, follow_symlinks=False)) == inode:
                self._set_aside(why)

    def append(self, ndjson: bytes, key: PushKey | None = None) -> Appended:
        """Append lines, once for a key, and return once they are on disk; the last one ends with the push.

        Of a client that numbers its pushes one with a number that it has come to, or passed, is there already.

        Raises:
            KeyReusedError: the key is remembered with other lines.
            UnavailableError: too much is unread, or the disk is full or fails; nothing of these lines will be read.
        """
        if ndjson and not ndjson.endswith(b"\n"):
            ndjson += b"\n"
        count = ndjson.count(b"\n")
        try:
            while True:
                with self._lock:
                    known = None if key is None else self._keys.find(key)
                    if known is None:
                        self._append(ndjson, key, count)
                    elif key is not None and known.serial == key.serial and known.body != digest(ndjson):
                        what = f"Idempotency-Key {key.text!r}"
                        what += "" if key.serial is None else f" with Push-Serial {key.serial}"
                        raise KeyReusedError(f"{what} was sent with other lines before; each push needs its own")
                    mine = self._appended
                self._settle(mine)
                # Whom it repeats may just have been refused: then it is the first.
                if known is None or key is None or self._remembers(key):
                    is_passed = known is not None and key is not None and known.serial != key.serial
                    return Appended(count if known is None or is_passed else known.lines, known is not None)
        except OSError as error:
            why = f"the spool cannot be written: {error.strerror or error}"
            raise UnavailableError(why, retry_after_s=UNWRITABLE_S) from None

    def _append(self, ndjson: bytes, key: PushKey | None, count: int) -> None:
        """Write a push and what is remembered of it, or neither."""
        if self._bytes > UNREAD_BYTES_MAX:
            why = "the source is behind by more than its spool may hold; come again later"
            raise UnavailableError(why, retry_after_s=FULL_S)
        self._write(ndjson)
        if key is not None:
            try:
                self._keys.add(key, ndjson, count, durable=self._durable_bytes, end=self._bytes)
            except OSError:
                self._bytes -= len(ndjson)
                os.ftruncate(self._descriptor, self._bytes)
                raise
        self._appended += 1

    def _remembers(self, key: PushKey) -> bool:
        with self._lock:
            return self._keys.find(key) is not None

    def trim(self, read_bytes: int, inode: int | None = None) -> None:
        """Begin a new spool when this is large enough, and all of it was read and checkpointed (`read_bytes` of it).

        `inode`: of which file that was read; of another than there is, nothing is said of this one.
        """
        with self._lock:
            if inode not in (None, self._inode()):
                return
            if self._bytes < (TRIM_BYTES if self.lingers else 1) or read_bytes < self._bytes:
                return
            self._begin_anew(read=self._inode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
        self._keys.close()

    def _inode(self) -> int:
        return _inode_of(os.fstat(self._descriptor))

    def _begin_anew(self, read: int | None = None) -> None:
        # While the old file is open its inode cannot be the new one's: the tail tells them by that.
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.unlink(missing_ok=True)
        descriptor = open_log(fresh)
        try:
            self._keys.begin(_inode_of(os.fstat(descriptor)), read)
            fresh.replace(self.path)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._bytes = 0
        self._durable_bytes = 0
        self._named = None  # its number may be an earlier one's

    def _set_aside(self, why: str) -> None:
        aside = name_aside(self.path)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(aside)
        inode, durable = self._inode(), self._durable_bytes
        self._refuse_unsettled()
        self._begin_anew()
        self._aside[inode] = durable
        log.error("%s %s; what is left of it is kept as %s, and what was not read of it is lost", self.path, why, aside)

    def _write(self, data: bytes) -> None:
        """Append all of it, or, to what counts, nothing."""
        status = os.fstat(self._descriptor)
        if status.st_size < self._bytes:
            self._set_aside("was shortened by somebody else")
        elif not self._is_at_path(status):
            self._set_aside("was replaced by somebody else")
        elif status.st_size > self._bytes:
            os.ftruncate(self._descriptor, self._bytes)
        try:
            write_all(self._descriptor, data)
        except OSError:
            os.ftruncate(self._descriptor, self._bytes)
            raise
        self._bytes += len(data)

    def _is_at_path(self, ours: os.stat_result) -> bool:
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self.path, follow_symlinks=False)
            return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
        return False

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
            descriptor, journal = os.dup(current), self._keys.unsynced()
        try:
            if journal is not None:
                # Before the lines: they must not be there without it, and without them it is forgotten.
                os.fdatasync(journal[0])
            os.fdatasync(descriptor)
            if self._named != current:
                # Of a file without a durable name a power failure leaves nothing, or the one that had the name before.
                sync_folders([self.path.parent, self.path.parent.parent])
                self._named = current
        except BaseException:
            # A second sync might succeed and mean nothing: the kernel reports a failure once and drops the pages.
            with self._lock:
                self._refuse_unsettled()
            raise
        finally:
            os.close(descriptor)
            if journal is not None:
                os.close(journal[0])
        with self._lock:
            if self._settled >= upto:
                return  # it was set aside meanwhile
            self._durable_bytes = size
            self._settled = upto
            if journal is not None:
                self._keys.note_synced(journal[1])
            if self._keys.is_stale and self._settled == self._appended:
                with contextlib.suppress(OSError):  # it is whole as it is, and will be tried again
                    self._keys.begin(self._inode())

    def _refuse_unsettled(self) -> None:
        """Take back all pushes that are not known to be durable."""
        self._refused.update(range(self._settled + 1, self._appended + 1))
        self._bytes = self._durable_bytes
        with contextlib.suppress(OSError):
            if os.fstat(self._descriptor).st_size > self._bytes:
                os.ftruncate(self._descriptor, self._bytes)
        self._keys.take_back(self._bytes)
        self._settled = self._appended


def _inode_of(status: os.stat_result) -> int:
    """Return what the tail knows a file by, too."""
    return readers.key_of(status)[1]


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
