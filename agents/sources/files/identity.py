"""What a file on disk is to one that was read, by its text: the same, or a copy of its front. Opens files to look."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Collection, Iterator, Sequence

from elf.agents.sources.files import rotation
from elf.agents.sources.files.compression import RefusedError
from elf.agents.sources.files.followed import Followed
from elf.agents.sources.files.readers import Reader, key_of_open, open_plain, open_reader, text_bytes
from elf.agents.sources.files.rotation import HEAD_BYTES, Position, Seen, is_compressed_name

log = logging.getLogger(__name__)
#: Files whose first bytes are remembered for as long as they do not change: each is held against all others of its log.
_HEADS_MAX = 1 << 12


def readable(files: Sequence[Seen], asked: Collection[str]) -> list[Seen]:
    """Leave out compressed files that this machine cannot read, unless somebody asked for them by name or glob.

    Their lines were read before they were compressed, or count as those of files that are gone.
    """
    return [seen for seen in files if seen.path in asked or not is_compressed_name(seen.path) or not _is_refused(seen)]


@functools.lru_cache(_HEADS_MAX)
def _is_refused(seen: Seen) -> bool:
    try:
        open_reader(seen.path).close()
    except RefusedError as error:
        _warn(seen.path, str(error))
        return True
    except OSError:
        return False  # which whoever reads it will say
    return False


@functools.lru_cache(_HEADS_MAX)
def _warn(path: str, why: str) -> None:
    """Say it once, however often the file grows."""
    log.warning("%s is left out: %s", path, why)


def holds(seen: Seen, place: Position) -> bool:
    """Tell whether a file holds the text read up to a place."""
    with contextlib.suppress(OSError), contextlib.closing(_open(seen)) as reader:
        return rotation.continues(place, seen.size if reader.is_plain else None, reader.read_at)
    return False


def is_older_copy(seen: Seen, place: Position) -> bool:
    """Tell whether a file is a copy, made earlier, of the text read up to a place that it does not hold."""
    if not place.head_bytes:
        return False
    with contextlib.suppress(OSError), contextlib.closing(_open(seen)) as reader:
        if reader.is_plain and not place.head_bytes <= seen.size <= place.offset:
            return False
        return rotation.digest(reader.read_at(0, place.head_bytes)) == place.head
    return False


def is_copy_of(seen: Seen, other: Followed) -> bool:
    """Tell whether a file repeats one that is followed: its front, whoever makes that, or what it held until truncated.

    Two logs may begin alike, so this holds for as long as neither has changed.
    """
    if not _begin_alike(seen, other):
        return False
    with contextlib.suppress(OSError), contextlib.closing(_open(seen)) as copy:
        try:
            with _reader_of(other) as original:
                if _is_front(copy, seen.size, original):
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
    with contextlib.suppress(OSError), contextlib.closing(_open(seen)) as reader:
        return reader.read_at(0, HEAD_BYTES) if key_of_open(reader) == seen.key else b""
    return b""


def _is_front(copy: Reader, size: int, original: Reader) -> bool:
    # Of a compressed one the text's size is known once all of it was read.
    head = copy.read_at(0, HEAD_BYTES)
    if copy.damage or original.read_at(0, len(head)) != head:
        return False
    return rotation.is_prefix(copy.read_at, original.read_at, size if copy.is_plain else text_bytes(copy))


@contextlib.contextmanager
def _reader_of(file: Followed) -> Iterator[Reader]:
    """Read a followed file, which need not be open; OSError if another one is at its path now."""
    if file.reader is not None:
        yield file.reader
        return
    with contextlib.closing(_open(file.seen)) as reader:
        if key_of_open(reader) != file.key:
            raise FileNotFoundError(file.path)
        yield reader


def _open(seen: Seen) -> Reader:
    return open_plain(seen.path) if seen.is_own else open_reader(seen.path)
