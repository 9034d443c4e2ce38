"""Which compression a file has, told by its first bytes, and decompressors that all work alike.

Knows bytes only, opens nothing. What was compressed in one go is a *member* (gzip's word; elsewhere stream or frame); a
file is one or more of them. zlib's own format is not among the compressions: its first bytes may begin a text.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Protocol

import msgspec

#: So many bytes at a file's front tell what it is: tar says so at 257.
FRONT_BYTES = 512
#: A member begins with fewer bytes than these, or a skippable frame's length is in them.
HEADER_BYTES = 16
#: Frames of zstd and lz4 that hold something else than text: 16 numbers, then the length behind them, in four bytes.
_SKIPPABLE, _SKIPPABLE_BYTES = b"\x2a\x4d\x18", 8
#: Skippable frames longer than this at a file's front are zstd's, whatever is behind them.
_SKIPPED_BYTES_MAX = 64 << 10
#: What xz may take for its dictionary where it reads what strangers may have written; `xz -9` takes 65 MiB.
_XZ_BYTES_MAX = 256 << 20
#: zlib's code for "a gzip header is expected".
_GZIP = 31


class BrokenError(Exception):
    """The data are no member, or are damaged; the text says how."""


class RefusedError(OSError):
    """A file is there and can be no log, or none that this machine can read; the text says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.strerror = message


class UnsupportedError(RefusedError):
    """A file could be read if something was installed; the text has the command."""


class Decompressor(Protocol):
    """Decompresses one member; those of `bz2` are such."""

    @property
    def eof(self) -> bool:
        """Whether the member's end was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether there is no more text without more data."""

    @property
    def unused_data(self) -> bytes | None:
        """What was given and lies behind the member's end; lz4's says None where there is nothing."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Take more data and return some text, at most so many bytes."""


class Compression(msgspec.Struct, frozen=True):
    """One way to compress.

    Attributes:
        name: what people call it.
        begin: makes a decompressor of one member, and tells what it raises if data are damaged; True if the file may be
            made to hurt. ImportError where this Python has none.
        skips: whether there are frames to be skipped among the members.
    """

    name: str
    begin: Callable[[bool], tuple[Decompressor, type[Exception]]]
    skips: bool = False

    def member(self, is_capped: bool) -> Member:
        """Begin a member.

        Raises:
            UnsupportedError: this Python cannot read it.
        """
        try:
            return Member(*self.begin(is_capped))
        except ImportError:
            mend = "pip install 'elf-stream[zstd]'" if self is ZSTD else f"use a Python that was built with {self.name}"
            raise UnsupportedError(f"compressed with {self.name}, which this Python cannot read: {mend}") from None


class Member:
    """Decompresses one member; whatever is wrong with its data is a `BrokenError`."""

    def __init__(self, decompressor: Decompressor, error: type[Exception]) -> None:
        self._decompressor = decompressor
        self._error = error

    @property
    def is_over(self) -> bool:
        """Whether the member's end was reached."""
        return self._decompressor.eof

    @property
    def needs_data(self) -> bool:
        """Whether there is no more text without more data."""
        return self._decompressor.needs_input

    @property
    def behind(self) -> bytes:
        """What was given and lies behind the member's end."""
        return self._decompressor.unused_data or b""

    def text(self, data: bytes, bytes_max: int) -> bytes:
        """Take more data and return the text that comes next, at most so many bytes."""
        try:
            return self._decompressor.decompress(data, bytes_max)
        except self._error as error:
            raise BrokenError(str(error)) from None


class _Gzip:
    """zlib's decompressor with the manners of the others."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP)

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflater.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inflater.decompress(self._inflater.unconsumed_tail + data, max_length)


def _gzip(_: bool) -> tuple[Decompressor, type[Exception]]:
    return _Gzip(), zlib.error


# The libraries of the others are loaded by those who meet such a file.
def _bzip2(_: bool) -> tuple[Decompressor, type[Exception]]:
    import bz2

    return bz2.BZ2Decompressor(), OSError


def _xz(is_capped: bool) -> tuple[Decompressor, type[Exception]]:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_BYTES_MAX if is_capped else None), lzma.LZMAError


def _lz4(_: bool) -> tuple[Decompressor, type[Exception]]:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor(), RuntimeError


def _zstd(_: bool) -> tuple[Decompressor, type[Exception]]:
    # The library itself takes no more than 128 MiB for what a file refers back to.
    try:
        library = importlib.import_module("compression.zstd")  # from Python 3.14 on
    except ImportError:
        library = importlib.import_module("backports.zstd")
    return library.ZstdDecompressor(), library.ZstdError


GZIP = Compression("gzip", _gzip)
BZIP2 = Compression("bzip2", _bzip2)
XZ = Compression("xz", _xz)
LZ4 = Compression("lz4", _lz4, skips=True)
ZSTD = Compression("zstd", _zstd, skips=True)
_MAGIC = {b"\x1f\x8b": GZIP, b"\xfd7zXZ\0": XZ, b"\x28\xb5\x2f\xfd": ZSTD, b"\x04\x22\x4d\x18": LZ4}
#: Behind `BZh` and a digit: a block, or the end of a file that has none.
_BZIP2_BLOCKS = b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"


#: What files begin with that hold no lines, or lines that nothing here can decompress; and what to do with them.
_REFUSED = {
    b"PK\x03\x04": "a zip archive, not a log: unpack it with unzip",
    b"PK\x05\x06": "a zip archive, not a log: unpack it with unzip",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive, not a log: unpack it with 7z x",
    b"Rar!\x1a\x07": "a rar archive, not a log: unpack it with unrar",
    b"\x1f\x9d": "compressed with compress, which is not read here: decompress it with gzip -d",
    b"\x1f\x1e": "compressed with pack, which is not read here: decompress it with gzip -d",
    b"\x1f\xa0": "compressed with lzh, which is not read here: decompress it with gzip -d",
    b"\x5d\x00\x00": "compressed with lzma, which is not read here: decompress it with xz -d",
    b"LZIP\x01": "compressed with lzip, which is not read here: decompress it with lzip -d",
    b"PAR1": "a Parquet file, not a log",
    b"SQLite format 3\x00": "an SQLite database, not a log",
}


def compression_of(read_at: Callable[[int, int], bytes]) -> Compression | None:
    """Return the compression of a file whose bytes `read_at(offset, count)` returns; None if it has none."""
    front = read_at(0, FRONT_BYTES)
    if length := skippable_bytes(front):
        front = read_at(0, _SKIPPED_BYTES_MAX)
        while length and length < len(front):
            front = front[length:]
            length = skippable_bytes(front)
        return ZSTD if length else compression_of_front(front)
    return compression_of_front(front)


def compression_of_front(front: bytes) -> Compression | None:
    """Return the compression of what begins with these bytes, `FRONT_BYTES` or all there are."""
    if front.startswith(b"BZh") and front[3:4].isdigit() and front[4:10] in _BZIP2_BLOCKS:
        # A block's first bytes are letters, with which a visitor's line may begin. What follows in a block is none.
        return BZIP2 if _is_binary(front) else None
    return next((kind for magic, kind in _MAGIC.items() if front.startswith(magic)), None)


def skippable_bytes(data: bytes) -> int:
    """Return the length of the skippable frame that data begin with; 0 if it is none."""
    if data[1:4] != _SKIPPABLE or data[0] & 0xF0 != 0x50:
        return 0
    return _SKIPPABLE_BYTES + int.from_bytes(data[4:_SKIPPABLE_BYTES], "little")


def refuse_archive(front: bytes) -> None:
    """Raise RefusedError if what begins with these bytes holds files, and not lines."""
    if front[257:].startswith((b"ustar\0", b"ustar  \0")):
        raise RefusedError("a tar archive, not a log: unpack it with tar -x")
    found = next((said for magic, said in _REFUSED.items() if front.startswith(magic)), None)
    # Some begin with letters, with which a visitor's line may begin.
    if found is not None and _is_binary(front):
        raise RefusedError(found)


def refuse_packed_again(front: bytes) -> None:
    """Raise RefusedError if what was decompressed already begins with these bytes, and is compressed still."""
    kind = compression_of_front(front)
    if kind is not None:
        raise RefusedError(f"compressed twice: what is in it is {kind.name} again; decompress it once")


def _is_binary(data: bytes) -> bool:
    """Tell whether data hold bytes that no line of text holds."""
    return len(data.translate(None, bytes({*range(32)} - set(b"\t\n\r\x1b")))) < len(data)
