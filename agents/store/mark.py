"""The mark: how many transactions the state file must hold at least, in a file of its own.

SQLite drops the end of a damaged write-ahead log without a word, and nothing inside the file can tell that it is older
than it was. The mark can. It is written after each transaction and not synced: a killed agent leaves it exact, and
where the power fails it may be behind the state file, never ahead.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import zlib

_COUNT_DIGITS = 20


class Mark:
    """The file beside a state file; what cannot be read is no mark, and a disk that refuses leaves the old one."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def read(self) -> tuple[str, int] | None:
        """Return whose transactions were counted, and how many; None without a mark, ValueError if it is damaged."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        if not text:
            return None
        body, _, crc = text.rstrip(b"\n").rpartition(b" ")
        if crc != b"%08x" % zlib.crc32(body):
            raise ValueError(f"{self.path} is damaged")
        owner, _, count = body.partition(b" ")
        return owner.decode(), int(count)

    def write(self, agent_id: str, count: int) -> None:
        """Note the number of transactions; one small write."""
        body = f"{agent_id} {count:0{_COUNT_DIGITS}d}".encode()
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._descriptor, b"%s %08x\n" % (body, zlib.crc32(body)), 0)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
