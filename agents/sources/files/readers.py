"""Random access to a log file's text, whatever it is on disk: plain, compressed, in UTF-16.

What it is is decided once, when the file is opened, by its first bytes, and never by what a line looks like.
"""

from __future__ import annotations

import codecs
import os
from typing import Protocol

from elf.agents.sources.files.compression import FRONT_BYTES, compression_of, refuse_archive, refuse_packed_again
from elf.agents.sources.files.forward import BOM_BYTES, InflatingReader, PipeReader, Utf16Reader
from elf.agents.sources.files.rotation import Seen, is_compressed_name

_PIECE_BYTES = 1 << 20
#: What is read from where it stands, whatever it is.
STANDARD_INPUT = "-", "/dev/stdin"
_ARCHIVES = (".tar", ".tgz", ".zip", ".7z", ".rar", ".Z", ".z", ".lzma", ".lz")
#: So few characters tell no encoding.
_PAIRS_MIN = 4
#: So many tell one of which not nearly all are ASCII's.
_LETTERS_MIN = 64
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Reader(Protocol):
    """An open file; offsets count bytes of text, whatever the file's encoding on disk."""

    fd: int
    #: Why there is no more text, if that is not the end of the file but damage.
    damage: str | None
    #: Whether the file's bytes are those of the text.
    is_plain: bool
    is_compressed: bool
    #: Whether what it is will not be judged otherwise once there are more bytes.
    is_decided: bool

    @property
    def fault(self) -> str | None:
        """Why what was read, of a file that nobody writes any more, is not all: damage, or it has no end."""

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end of what can be read now."""

    def close(self) -> None:
        """Close the file; reading it is a bug from here on."""


def open_reader(path: str) -> Reader:
    """Open a log file that may be written still, by whoever visits the server, too.

    So only what has a compressed file's name is decompressed, and nothing that grows too much by that; and only what
    has an archive's name, too, is refused as one: the first line of a log begins as its visitor likes.

    Raises:
        RefusedError: it can be no log, or this Python cannot decompress it.
        OSError: it cannot be opened.
    """
    # Without waiting: if the file was replaced by a FIFO, an open would wait for a writer, maybe for ever.
    plain = _open(path, os.O_NONBLOCK)
    try:
        return text_of(plain, may_inflate=_says_packed(path))
    except BaseException:
        plain.close()
        raise


def open_input(path: str) -> Reader:
    """Open a file that somebody asks about once: its first bytes alone say how it is compressed.

    Raises:
        RefusedError: as for `open_reader`.
        OSError: it cannot be opened.
    """
    return _input(_open(path))


def open_stream(path: str) -> Reader:
    """Open what gives its bytes once, from where it stands: a pipe, a terminal, standard input; waits for its writer.

    Raises:
        RefusedError: as for `open_reader`.
        OSError: it cannot be opened.
    """
    descriptor = os.dup(0) if path in STANDARD_INPUT else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return _input(PipeReader(descriptor))


def open_plain(path: str) -> Reader:
    """Open a file of our own, whose bytes are its text; raises OSError if it cannot be opened."""
    return _open(path, os.O_NONBLOCK)


def text_of(source: PlainReader | PipeReader, *, may_inflate: bool, is_capped: bool = True) -> Reader:
    """Return what reads the text of an open file, and closes it.

    Args:
        source: its bytes.
        may_inflate: it is decompressed, or refused, if it begins as compressed files, or archives, do.
        is_capped: what grows too much by that counts as damaged.

    Raises:
        RefusedError: as for `open_reader`; it is open still.
    """
    reader: Reader = source
    kind = compression_of(source.read_at) if may_inflate else None
    if kind is not None:
        reader = InflatingReader(source, kind, is_capped=is_capped)
    front = reader.read_at(0, FRONT_BYTES)
    if may_inflate:
        refuse_archive(front)
    if kind is not None:
        refuse_packed_again(front)
    marked = _UTF_16.get(front[:BOM_BYTES]) if 0 in front else None
    encoding = marked or _unmarked_utf_16(front)
    if encoding is not None:
        reader = Utf16Reader(reader, encoding, BOM_BYTES if marked else 0)
    reader.is_decided = reader is not source or len(front) == FRONT_BYTES
    return reader


def _unmarked_utf_16(front: bytes) -> str | None:
    """Return which UTF-16 text is that has no byte order mark, as its first bytes tell.

    A visitor may write a mark, but no NUL, and of each character that ASCII has, one byte is: here nearly all on one
    side, and none on the other. Where there are more of other letters, all of it has to be text, without a NUL.
    """
    pairs = len(front) // 2
    first, second = front[0 : 2 * pairs : 2].count(0), front[1 : 2 * pairs : 2].count(0)
    few, many = sorted((first, second))
    encoding = "utf-16-be" if first > second else "utf-16-le"
    if pairs < _PAIRS_MIN or not many:
        return None
    if not few and many * 4 >= pairs * 3:
        return encoding
    is_long = pairs >= _LETTERS_MIN and few * 2 <= many
    return encoding if is_long and _is_text(front[: 2 * pairs], encoding) else None


def _is_text(front: bytes, encoding: str) -> bool:
    """Tell whether bytes are text in an encoding, of which one character in eight, or more, is one of ASCII."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(front)
    except UnicodeDecodeError:
        return False
    # What ends lines, and is not half of another letter; one that is, is common.
    are_lines = front.count(b"\n") - text.count("\u4e0a") <= 2 * text.count("\n") + 1
    plain = sum(" " <= letter <= "~" for letter in text)
    return are_lines and plain * 8 >= len(text) and all(letter >= " " or letter in "\t\n\r\x1b" for letter in text)


def renewed(reader: Reader, path: str) -> Reader:
    """Judge anew what an open log file is, of which no text counts yet; it is read through the one returned.

    Raises:
        RefusedError: as for `open_reader`; it is open still.
    """
    return text_of(PlainReader(reader.fd), may_inflate=_says_packed(path))


def text_bytes(reader: Reader) -> int:
    """Return how many bytes of text there are. O(text) unless the file is plain."""
    if reader.is_plain:
        return os.fstat(reader.fd).st_size
    size = 0
    while piece := reader.read_at(size, _PIECE_BYTES):
        size += len(piece)
    return size


def look_at(path: str, *, is_own: bool = False) -> Seen:
    """Return what the system says of a file; `is_own`: nobody but we write it.

    Raises:
        OSError: it is not there, or out of reach.
    """
    status = os.stat(path)
    device, inode = key_of(status)
    size, mtime_ns = status.st_size, status.st_mtime_ns
    return Seen(path=path, device=device, inode=inode, size=size, mtime_ns=mtime_ns, is_own=is_own)


def key_of(status: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from others whatever its name: device and inode."""
    return status.st_dev, status.st_ino


def key_of_open(reader: Reader) -> tuple[int, int]:
    """Return `key_of` an open file."""
    return key_of(os.fstat(reader.fd))


class PlainReader:
    """A file read as it is."""

    fault = None
    damage: str | None = None
    is_plain = True
    is_compressed = False
    is_decided = True

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`."""
        return os.pread(self.fd, count, offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


def _says_packed(path: str) -> bool:
    return is_compressed_name(path) or path.endswith(_ARCHIVES)


def _input(source: PlainReader | PipeReader) -> Reader:
    try:
        return text_of(source, may_inflate=True, is_capped=False)
    except BaseException:
        source.close()
        raise


def _open(path: str, flags: int = 0) -> PlainReader:
    return PlainReader(os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags))
