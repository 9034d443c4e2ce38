"""What a file on disk is to one that was read, by its text: the same, or a copy of its front. Opens files to look."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from elf.agents.sources import rotation
from elf.agents.sources.followed import Followed
from elf.agents.sources.readers import Reader, key_of_open, open_reader
from elf.agents.sources.rotation import HEAD_BYTES, Position, Seen

_PIECE_BYTES = 1 << 20
#: Files whose first bytes are remembered for as long as they do not change: each is held against all others of its log.
_HEADS_MAX = 1 << 12


def holds(seen: Seen, place: Position) -> bool:
    """Tell whether a file holds the text read up to a place."""
    with contextlib.suppress(OSError), contextlib.closing(open_reader(seen.path)) as reader:
        return rotation.continues(place, None if _is_compressed(seen) else seen.size, reader.read_at)
    return False


def is_older_copy(seen: Seen, place: Position) -> bool:
    """Tell whether a file is a copy, made earlier, of the text read up to a place that it does not hold."""
    if not place.head_bytes or (not _is_compressed(seen) and not place.head_bytes <= seen.size <= place.offset):
        return False
    with contextlib.suppress(OSError), contextlib.closing(open_reader(seen.path)) as reader:
        return rotation.digest(reader.read_at(0, place.head_bytes)) == place.head
    return False


def is_copy_of(seen: Seen, other: Followed) -> bool:
    """Tell whether a file repeats one that is followed: its front, whoever makes that, or what it held until truncated.

    Two logs may begin alike, so this holds for as long as neither has changed.
    """
    if not _begin_alike(seen, other):
        return False
    with contextlib.suppress(OSError), contextlib.closing(open_reader(seen.path)) as copy:
        try:
            with _reader_of(other) as original:
                if _is_front(copy, _is_compressed(seen), seen.size, original):
                    return True
                truncated = not rotation.continues(other.position, None, original.read_at)
        except OSError:
            truncated = True
        return truncated and holds(seen, other.position)
    return False


def _begin_alike(seen: Seen, other: Followed) -> bool:
    """Tell whether a file may begin as one that is followed does, or as what was read of that; False is certain."""
    mine, theirs = _head(seen), _head(other.seen)
    length = min(len(mine), len(theirs))
    head, head_bytes = other.head
    return mine[:length] == theirs[:length] or (head_bytes > 0 and rotation.digest(mine[:head_bytes]) == head)


@functools.lru_cache(_HEADS_MAX)
def _head(seen: Seen) -> bytes:
    """Return a file's first bytes of text; nothing where they cannot be read, or it has another name by now."""
    with contextlib.suppress(OSError), contextlib.closing(open_reader(seen.path)) as reader:
        return reader.read_at(0, HEAD_BYTES) if key_of_open(reader) == seen.key else b""
    return b""


def _is_front(copy: Reader, compressed: bool, size: int, original: Reader) -> bool:
    # Of a compressed one the size is known once all of it was read.
    head = copy.read_at(0, HEAD_BYTES)
    if copy.damage or original.read_at(0, len(head)) != head:
        return False
    return rotation.is_prefix(copy.read_at, original.read_at, _text_bytes(copy) if compressed else size)


@contextlib.contextmanager
def _reader_of(file: Followed) -> Iterator[Reader]:
    """Read a followed file, which need not be open; OSError if another one is at its path now."""
    if file.reader is not None:
        yield file.reader
        return
    with contextlib.closing(open_reader(file.path)) as reader:
        if key_of_open(reader) != file.key:
            raise FileNotFoundError(file.path)
        yield reader


def _is_compressed(seen: Seen) -> bool:
    return seen.path.endswith(".gz")


def _text_bytes(reader: Reader) -> int:
    size = 0
    while piece := reader.read_at(size, _PIECE_BYTES):
        size += len(piece)
    return size
