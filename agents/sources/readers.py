"""Random access to a log file's text: plain files, and gzip files at offsets of the decompressed text."""

from __future__ import annotations

import os
import zlib
from typing import Protocol

from elf.agents.sources.rotation import Seen

_PIECE_BYTES = 64 << 10
_CUT = "the gzip data end in the middle: the file was cut short"
#: zlib's code for "a gzip header is expected".
_GZIP = 31


class Reader(Protocol):
    """An open file; offsets count bytes of text, whatever the file's encoding on disk."""

    fd: int
    #: Why there is no more text, if that is not the end of the file but damage.
    damage: str | None

    @property
    def fault(self) -> str | None:
        """Why what was read, of a file that nobody writes any more, is not all: damage, or it has no end."""

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end of what can be read now."""

    def close(self) -> None:
        """Close the file; reading it is a bug from here on."""


def open_reader(path: str) -> Reader:
    """Open a file for reading by its name's ending.

    Raises:
        OSError: it cannot be opened.
    """
    # Without waiting: if the file was replaced by a FIFO, an open would wait for a writer, maybe for ever.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    return GzipReader(fd) if path.endswith(".gz") else PlainReader(fd)


def look_at(path: str) -> Seen:
    """Return what the system says of a file.

    Raises:
        OSError: it is not there, or out of reach.
    """
    status = os.stat(path)
    device, inode = key_of(status)
    return Seen(path=path, device=device, inode=inode, size=status.st_size, mtime_ns=status.st_mtime_ns)


def key_of(status: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from others whatever its name: device and inode."""
    return status.st_dev, status.st_ino


def key_of_open(reader: Reader) -> tuple[int, int]:
    """Return `key_of` an open file."""
    return key_of(os.fstat(reader.fd))


class PlainReader:
    """A file read as it is."""

    fault = None

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.damage: str | None = None

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`."""
        return os.pread(self.fd, count, offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


class GzipReader:
    """A gzip file, of one or many members, decompressed forward.

    Keeps the text from the last asked offset on, so memory stays near the size of one read; asking for earlier text
    starts again at the front. A file that is still being written ends, for now, where its data end.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._rewind()

    def _rewind(self) -> None:
        self._raw_offset = 0
        self._inflater = zlib.decompressobj(_GZIP)
        self._pending = b""
        self.damage: str | None = None
        self._start = 0
        self._text = bytearray()

    @property
    def fault(self) -> str | None:
        """Why what was read is not all; once there is no more of it."""
        is_cut = self._raw_offset > 0 and not self._inflater.eof
        return self.damage or (_CUT if is_cut else None)

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes of text from `offset`."""
        if offset < self._start:
            self._rewind()
        while self._start + len(self._text) < offset + count:
            passed = min(offset - self._start, len(self._text))
            del self._text[:passed]
            self._start += passed
            try:
                piece = b"" if self.damage else self._inflate()
            except zlib.error as error:
                self.damage = f"damaged gzip data: {error}"
                piece = b""
            if not piece:
                break
            self._text += piece
        begin = offset - self._start
        return bytes(self._text[begin : begin + count])

    def _inflate(self) -> bytes:
        """Return the next piece of text; empty when there is no more data."""
        while True:
            if self._inflater.eof:
                # The next member follows, maybe after padding with zeros.
                member = (self._inflater.unused_data or self._raw()).lstrip(b"\0")
                if not member:
                    return b""
                self._inflater = zlib.decompressobj(_GZIP)
                self._pending = member
            data = self._pending or self._raw()
            if not data:
                return b""
            piece = self._inflater.decompress(data, _PIECE_BYTES)
            self._pending = self._inflater.unconsumed_tail
            if piece:
                return piece

    def _raw(self) -> bytes:
        data = os.pread(self.fd, _PIECE_BYTES, self._raw_offset)
        self._raw_offset += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)
