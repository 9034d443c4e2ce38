"""Pushes that are remembered by their `Idempotency-Key`, so that one that is sent again counts once.

A journal beside the spool, synced before it: a push whose key is durable and whose lines are not was never
acknowledged, and is forgotten at the next start. Once a spool is begun anew all that is left was read, and the journal
is written anew, too; it also says which file the spool is: that tells ours from one that somebody put in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from elf.agents.host.disk import open_log, sync_folders, write_all
from elf.agents.sources.files.rotation import GONE_MAX

log = logging.getLogger(__name__)

#: How long a push is remembered, and how many of one source are, the newest ones; docs/RESULTS.md says so.
REMEMBER_MS = 60 * 60 * 1000
KEYS_MAX = 100_000
#: The journal is written anew when it has this many lines more than there are keys.
_STALE_MAX = 2 * KEYS_MAX


class PushKey(NamedTuple):
    """What a push is known by when it is sent again.

    Attributes:
        text: the key of one push, or the name of a client that numbers its pushes and sends one after the other.
        serial: the number, which rises; None: the key is of one push.
    """

    text: str
    serial: int | None = None

    @property
    def digest(self) -> bytes:
        """The key's hash; a client is not mistaken for a push."""
        return digest(("" if self.serial is None else "serial ").encode() + self.text.encode())


class Pushed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A push that is remembered.

    Attributes:
        key: hash of its key.
        body: hash of its lines: another push under the same key is a mistake of its sender.
        lines: how many it had.
        end: bytes of the spool with it, as long as it may not be durable; else 0.
        durable: bytes of the spool that were durable before it.
        at_ms: when it came.
        serial: its number among those of the client that the key is, which pushes one after the other; else None.
    """

    key: bytes
    body: bytes
    lines: int
    end: int
    durable: int
    at_ms: int
    serial: int | None = None


class _Spool(msgspec.Struct, frozen=True, array_like=True, tag="spool"):
    """Which file the spool is, and which ones it was before, of which all was read."""

    inode: int
    read: tuple[int, ...] = ()


class _Key(msgspec.Struct, frozen=True, array_like=True, tag="key"):
    """A push, as the journal has it."""

    pushed: Pushed


class PushKeys:
    """The pushes of one source that are remembered; not for several threads at a time.

    Args:
        path: of the journal.
        now_ms: the clock, ms since the epoch.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: pathlib.Path, now_ms: Callable[[], int]) -> None:
        self._path = path
        self._now_ms = now_ms
        #: By hash of the key, oldest first; of a client that numbers its pushes, the last one.
        self._known: dict[bytes, Pushed] = {}
        #: Of such clients, those before the last one as far back as it may be taken back.
        self._earlier: dict[bytes, list[Pushed]] = {}
        #: Inode of the spool; None: from before there was a journal.
        self.spool: int | None = None
        #: Inodes of spools before it that went because all of them was read, the newest last.
        self.read: tuple[int, ...] = ()
        self._lines = 0
        self._descriptor = open_log(path)
        self._read()
        #: Bytes of the journal, and those that are known to be durable.
        self._bytes = self._durable_bytes = os.fstat(self._descriptor).st_size

    def recover(self, spool_bytes: int) -> None:
        """Forget pushes whose lines are not in the spool, which has so many bytes: nobody was told that they are.

        Raises:
            OSError: that cannot be made durable.
        """
        durable = max((pushed.durable for pushed in self._known.values()), default=0)
        if any(pushed.end > max(spool_bytes, durable) for pushed in self._known.values()):
            self._forget_beyond(max(spool_bytes, durable))
            self.begin(self.spool)

    def find(self, key: PushKey) -> Pushed | None:
        """Return the push with a key, or the last one of a client that has come to its number, if it is remembered."""
        pushed = self._known.get(key.digest)
        if pushed is None or pushed.at_ms <= self._now_ms() - REMEMBER_MS:
            return None
        is_new = key.serial is not None and pushed.serial is not None and key.serial > pushed.serial
        return None if is_new else pushed

    def add(self, key: PushKey, lines: bytes, count: int, *, durable: int, end: int) -> None:
        """Remember a push; durable once `unsynced` is synced.

        Raises:
            OSError: it cannot be written; it is not remembered then.
        """
        pushed = Pushed(key.digest, digest(lines), count, end, durable, self._now_ms(), key.serial)
        self._write(_line_of(_Key(pushed)))
        self._remember(pushed)
        self._lines += 1
        for oldest in self._outdated():
            del self._known[oldest]
            self._earlier.pop(oldest, None)

    def unsynced(self) -> tuple[int, int] | None:
        """Return a descriptor, which the caller closes, and how many bytes of it are to be synced; None if all are."""
        return None if self._bytes == self._durable_bytes else (os.dup(self._descriptor), self._bytes)

    def note_synced(self, size: int) -> None:
        """Note that so many bytes of the journal are durable."""
        self._durable_bytes = max(self._durable_bytes, size)

    def take_back(self, end: int) -> None:
        """Forget pushes beyond so many bytes of the spool: they could not be made durable."""
        self._forget_beyond(end)
        self._bytes = self._durable_bytes
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._bytes)

    def _remember(self, pushed: Pushed) -> None:
        before = self._known.pop(pushed.key, None)
        self._known[pushed.key] = pushed
        if before is None or pushed.serial is None:
            return
        earlier = [*self._earlier.get(pushed.key, ()), before]
        # One that is durable is not taken back, so none before it is asked for.
        settled = max((at for at, each in enumerate(earlier) if each.end <= pushed.durable), default=0)
        self._earlier[pushed.key] = earlier[settled:]

    def _forget_beyond(self, end: int) -> None:
        for key in [key for key, pushed in self._known.items() if pushed.end > end]:
            left = [each for each in self._earlier.pop(key, ()) if each.end <= end]
            del self._known[key]
            if left:
                self._known[key] = left[-1]

    def begin(self, inode: int | None, read: int | None = None) -> None:
        """Note that the spool is a new file, and that what was remembered of the one before is durable.

        Durable when this returns; before the file has its name. `read`: the one before, if all of it was read.

        Raises:
            OSError: it cannot be written; the journal is as before.
        """
        known = [msgspec.structs.replace(pushed, end=0, durable=0) for pushed in self._known.values()]
        spools = self.read if read is None else (*self.read, read)[-GONE_MAX:]
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.unlink(missing_ok=True)
        descriptor = open_log(fresh)
        try:
            entries: list[_Spool | _Key] = [] if inode is None else [_Spool(inode, spools)]
            entries += map(_Key, known)
            write_all(descriptor, b"".join(map(_line_of, entries)))
            os.fdatasync(descriptor)
            fresh.replace(self._path)
            sync_folders([self._path.parent])
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._known = {pushed.key: pushed for pushed in known}
        self._earlier = {}
        self._lines = len(known)
        self._bytes = self._durable_bytes = os.fstat(descriptor).st_size
        self.spool = inode
        self.read = spools

    @property
    def is_stale(self) -> bool:
        """Whether most of the journal is about pushes that are forgotten, so that it had better begin anew."""
        return self._lines > len(self._known) + _STALE_MAX

    def close(self) -> None:
        """Close the journal."""
        os.close(self._descriptor)

    def _outdated(self) -> list[bytes]:
        """Return the hashes of keys that are too old or too many, which stand at the front."""
        least_ms = self._now_ms() - REMEMBER_MS
        outdated, excess = [], len(self._known) - KEYS_MAX
        for key, pushed in self._known.items():
            if pushed.at_ms > least_ms and excess <= 0:
                break
            outdated.append(key)
            excess -= 1
        return outdated

    def _read(self) -> None:
        damaged = 0
        text = self._path.read_bytes()
        whole = text.rfind(b"\n") + 1
        os.ftruncate(self._descriptor, whole)  # the half line of a push that was never acknowledged
        for line in text[:whole].splitlines():
            self._lines += 1
            try:
                entry = msgspec.json.decode(line, type=_Spool | _Key)
            except (msgspec.DecodeError, UnicodeDecodeError):
                damaged += 1
                continue
            match entry:
                case _Spool():
                    self.spool = entry.inode
                    self.read = entry.read
                case _Key():
                    self._remember(entry.pushed)
        if damaged:
            log.warning("%s: %d pushes are not remembered, their lines are damaged", self._path, damaged)

    def _write(self, line: bytes) -> None:
        """Append a line, or nothing."""
        try:
            write_all(self._descriptor, line)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._bytes)
            raise
        self._bytes += len(line)


def digest(data: bytes) -> bytes:
    """Hash a key, or the lines of a push, to 128 bits: whoever makes two alike fools only himself. O(bytes)."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _line_of(entry: _Spool | _Key) -> bytes:
    return msgspec.json.encode(entry) + b"\n"
