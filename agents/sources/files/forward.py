"""Text that can only be made from the front on: decompressed, transcoded, or out of a pipe.

Each keeps the text from the last asked offset on, so memory stays near the size of one read; asking for earlier text
starts again at the front, which a pipe cannot. What is still being written ends, for now, where its data end.
"""

from __future__ import annotations

import codecs
import io
import os
from typing import Protocol

from elf.agents.sources.files.compression import (
    HEADER_BYTES,
    BrokenError,
    Compression,
    Member,
    compression_of_front,
    skippable_bytes,
)

_PIECE_BYTES = 64 << 10
#: Logs compress 10 to 40 times, and what was made to hurt 1,000 times and more.
RATIO_MAX = 200
#: A file may have any ratio up to so much text, a second's work.
RATIO_FREE_BYTES = 256 << 20
#: A byte order mark tells in which order the bytes of UTF-16 come.
BOM_BYTES = 2
#: So much before what was transcoded last must still be there, else the file was truncated and written anew.
_BEFORE_BYTES = 1024


class Source(Protocol):
    """Bytes at offsets, and why there are no more of them; see `elf.agents.sources.files.readers.Reader`."""

    fd: int
    damage: str | None
    is_plain: bool

    @property
    def fault(self) -> str | None:
        """Why what was read is not all."""

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`."""


class Forward:
    """What all have in common. `_next` returns the next piece of text, empty when there is none now."""

    is_plain = False
    is_compressed = False
    is_decided = True

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.damage: str | None = None
        self._start = 0
        self._text = bytearray()

    def _next(self) -> bytes:
        raise NotImplementedError

    def _restart(self) -> None:
        """Begin at the front again."""
        self.damage = None
        self._start = 0
        self._text = bytearray()

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes of text from `offset`."""
        if offset < self._start:
            self._restart()
        while self._start + len(self._text) < offset + count:
            passed = min(offset - self._start, len(self._text))
            del self._text[:passed]
            self._start += passed
            piece = b"" if self.damage else self._next()
            if not piece:
                break
            self._text += piece
        begin = offset - self._start
        return bytes(self._text[begin : begin + count])

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


class PipeReader(Forward):
    """A pipe, or another thing that gives its bytes once: waits for whoever writes."""

    fault = None

    def _next(self) -> bytes:
        return os.read(self.fd, _PIECE_BYTES)

    def _restart(self) -> None:
        raise io.UnsupportedOperation("a pipe can be read once")


class InflatingReader(Forward):
    """Compressed text, of one or many members.

    Args:
        source: the compressed bytes.
        kind: their compression.
        is_capped: what decompresses to more than `RATIO_MAX` times its size counts as damaged.

    Raises:
        RefusedError: this Python cannot read it.
    """

    is_compressed = True

    def __init__(self, source: Source, kind: Compression, *, is_capped: bool) -> None:
        super().__init__(source.fd)
        self._source = source
        self._kind = kind
        self._is_capped = is_capped
        kind.member(is_capped)  # or there is no use in it
        self._rewind()

    def _rewind(self) -> None:
        self._member: Member | None = None
        self._pending = b""
        self._raw_bytes = 0
        self._text_bytes = 0
        self._to_skip = 0

    def _restart(self) -> None:
        super()._restart()
        self._rewind()

    @property
    def fault(self) -> str | None:
        """Why what was read is not all; once there is no more of it."""
        is_cut = self._member is not None or bool(self._pending.strip(b"\0")) or self._to_skip > 0
        cut = f"the {self._kind.name} data end in the middle: the file was cut short"
        return self.damage or self._source.fault or (cut if is_cut else None)

    def _next(self) -> bytes:
        try:
            piece = self._inflate()
        except BrokenError as error:
            self.damage = f"damaged {self._kind.name} data: {error}"
            return b""
        self._text_bytes += len(piece)
        if self._is_capped and self._text_bytes > max(RATIO_FREE_BYTES, RATIO_MAX * self._raw_bytes):
            self.damage = f"more than {RATIO_MAX} times as large once decompressed: no log is"
            return b""
        return piece

    def _inflate(self) -> bytes:
        while True:
            if self._member is None and not self._begin():
                return b""
            assert self._member is not None
            data = self._pending or (self._raw() if self._member.needs_data else b"")
            if not data and self._member.needs_data:
                return b""
            self._pending = b""
            piece = self._member.text(data, _PIECE_BYTES)
            if self._member.is_over:
                self._pending = self._member.behind
                self._member = None
            if piece:
                return piece

    def _begin(self) -> bool:
        """Begin the next member, behind padding with zeros and frames to be skipped; False if there is none now."""
        while True:
            passed = min(self._to_skip, len(self._pending))
            self._to_skip -= passed
            self._pending = self._pending[passed:]
            if not self._to_skip:
                self._pending = self._pending.lstrip(b"\0")
            if len(self._pending) < HEADER_BYTES:
                data = self._raw()
                self._pending += data
                if data:
                    continue
            skipped = skippable_bytes(self._pending) if self._kind.skips else 0
            if not skipped:
                break
            self._to_skip = skipped
        if compression_of_front(self._pending) is not self._kind:
            if len(self._pending) >= HEADER_BYTES:
                raise BrokenError(f"what follows is no {self._kind.name}")
            return False
        self._member = self._kind.member(self._is_capped)
        return True

    def _raw(self) -> bytes:
        data = self._source.read_at(self._raw_bytes, _PIECE_BYTES)
        self._raw_bytes += len(data)
        return data


class Utf16Reader(Forward):
    """UTF-16, as UTF-8; what is none of it becomes U+FFFD.

    Args:
        source: its bytes.
        encoding: in which order they come.
        begin: where the text begins, behind a byte order mark if there is one.
    """

    def __init__(self, source: Source, encoding: str, begin: int = BOM_BYTES) -> None:
        super().__init__(source.fd)
        self._source = source
        self.is_compressed = not source.is_plain
        self._begin = begin
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._rewind()

    def _rewind(self) -> None:
        self._decoder.reset()
        self._offset = self._begin
        self._before = b""

    def _restart(self) -> None:
        super()._restart()
        self._rewind()

    @property
    def fault(self) -> str | None:
        """Why what was read is not all; once there is no more of it."""
        return self._source.fault

    def _next(self) -> bytes:
        # A file may be truncated while it is read; what was decompressed, or came out of a pipe, may not.
        count = len(self._before)
        if self._source.is_plain and self._source.read_at(self._offset - count, count) != self._before:
            self._restart()
        while data := self._source.read_at(self._offset, _PIECE_BYTES):
            self._offset += len(data)
            self._before = (self._before + data)[-_BEFORE_BYTES:]
            if text := self._decoder.decode(data):
                return text.encode()
        self.damage = self._source.damage
        return b""
