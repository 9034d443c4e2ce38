"""Decisions about rotated files, without touching any: which file is which, in which order, and what a change means.

A log is a *family*: the live file (`access.log`) and those it was rotated to (`access.log.1`, `access.log-20261120`,
`access.log.2.gz`). A file is recognised by device and inode *and* by its first 256 bytes *and* by the last KiB before
the place we have read to: inodes are used again, and two logs may begin with the same header.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable

import msgspec

#: Bytes at the front that tell one file from another; a log's first line is rarely longer.
HEAD_BYTES = 256
#: Bytes before our offset that must still be there when we come back; else the file was truncated and written anew.
BEFORE_BYTES = 1024
#: Files that are gone but may come back compressed; older ones are forgotten.
GONE_MAX = 64
#: Names of live files whose rotated names are remembered.
LIVE_NAMES_MAX = 1 << 10

#: What names of compressed files end in; whether they are such, their first bytes tell.
COMPRESSED = (".gz", ".xz", ".zst", ".bz2", ".lz4")
_COMPRESSED = r"(?:\.(?:gz|xz|zst|bz2|lz4))?"
_SUFFIX = r"(?:[.\-_]\d[\dT:_.\-]*)?(?:\.(?:old|bak|\d+))?" + _COMPRESSED


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far one file has been handed out, and how to recognise it.

    Attributes:
        head: hash of its first `head_bytes` (at most `HEAD_BYTES`) bytes of text.
        offset: bytes of text handed out; of a compressed file, of its decompressed text.
        before: hash of the `BEFORE_BYTES` before `offset` (fewer near the front).
        in_line: the offset is inside a huge line whose rest is to be skipped.
        done: the file was rotated away and read to its end.
        carried: where the lines before `offset` begin that those behind it need; None: nobody knows, or asks.
        header: of these the one that says what the columns are, which may have been truncated away since.
    """

    path: str
    device: int
    inode: int
    head: str
    head_bytes: int
    offset: int
    before: str = ""
    in_line: bool = False
    done: bool = False
    carried: tuple[int, ...] | None = None
    header: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a look at its folder shows it.

    Attributes:
        is_own: nobody but we write it; its bytes are its text, whatever it begins with.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    is_own: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """The file's identity while it exists."""
        return self.device, self.inode


def digest(data: bytes) -> str:
    """Hash some bytes of a log; 64 bits, against accidents, not against enemies."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def is_compressed_name(path: str) -> bool:
    """Tell whether a file's name says that it is compressed."""
    return path.endswith(COMPRESSED)


def is_rotated_name(name: str, live: str) -> bool:
    """Tell whether a file of this name is one that `live` was rotated to.

    >>> [is_rotated_name(n, "access.log") for n in ("access.log.1", "access.log-20261120.xz", "access-20261120.log")]
    [True, True, True]
    >>> [is_rotated_name(n, "access.log") for n in ("access.log", "access-ssl.log", "access.log.tmp", "b.log.1")]
    [False, False, False, False]
    """
    begins, rotated = _rotated_names(live)
    # A folder may have thousands of other files, and is looked at several times a second.
    return name.startswith(begins) and name != live and rotated.fullmatch(name) is not None


@functools.lru_cache(LIVE_NAMES_MAX)
def _rotated_names(live: str) -> tuple[str, re.Pattern[str]]:
    """Return how all names that `live` is rotated to begin, and what they are."""
    names = re.escape(live) + _SUFFIX
    stem, dot, ending = live.rpartition(".")
    if not dot or not stem:
        return live, re.compile(names)
    dated = re.escape(stem) + r"[.\-_]\d[\dT_.\-]*" + re.escape(dot + ending) + _COMPRESSED
    return stem, re.compile(f"{names}|{dated}")


def live_of(path: str, live_paths: Iterable[str]) -> str | None:
    """Return the live file among `live_paths` that `path` was rotated from, if any; the longest name wins."""
    folder, _, name = path.rpartition("/")
    owners = [
        live
        for live in live_paths
        if live.rpartition("/")[0] == folder and is_rotated_name(name, live.rpartition("/")[2])
    ]
    return max(owners, key=len, default=None)


def oldest_first(files: Iterable[Seen], live: str) -> list[Seen]:
    """Order a family by age: last write first, the higher rotation number on a tie, the live file last."""

    def age(file: Seen) -> tuple[bool, int, int, str]:
        number = re.search(rf"\.(\d+){_COMPRESSED}$", file.path)
        return file.path == live, file.mtime_ns, -int(number[1]) if number else 0, file.path

    return sorted(files, key=age)


def continues(position: Position, size: int | None, read_at: Callable[[int, int], bytes]) -> bool:
    """Tell whether a file holds the text that `position` was read from, up to its offset at least.

    Args:
        position: where we were; one without any text recognises nothing.
        size: bytes of text in the file, None where unknown (compressed).
        read_at: reads `(offset, count)` from the file.
    """
    if not position.head_bytes or (size is not None and size < position.offset):
        return False
    if digest(read_at(0, position.head_bytes)) != position.head:
        return False
    count = min(BEFORE_BYTES, position.offset)
    return digest(read_at(position.offset - count, count)) == position.before


def is_prefix(copy: Callable[[int, int], bytes], original: Callable[[int, int], bytes], size: int) -> bool:
    """Tell whether a file of `size` bytes looks like the front of another: same head, same last KiB."""
    head = min(HEAD_BYTES, size)
    count = min(BEFORE_BYTES, size)
    return copy(0, head) == original(0, head) and copy(size - count, count) == original(size - count, count)


def encode(positions: Iterable[Position]) -> bytes:
    """Write positions as JSON, to be stored with what was made of the lines before them."""
    return msgspec.json.encode(_Stored(version=1, positions=tuple(positions)))


def decode(data: bytes) -> tuple[Position, ...]:
    """Read what `encode` wrote.

    Raises:
        ValueError: it is damaged, or of a version this program does not know.
    """
    stored = msgspec.json.decode(data, type=_Stored)
    if stored.version != 1:
        raise ValueError(f"positions of version {stored.version} were written by a newer elf; this one reads version 1")
    return stored.positions


class _Stored(msgspec.Struct, frozen=True):
    version: int
    positions: tuple[Position, ...]
