"""What a damaged write-ahead log was, before SQLite reads it: it drops all from the first damaged frame on, silently.

A power failure leaves the last transaction torn, and that is no damage: nobody was told that it is durable. Each was
synced before the next one began, though. So where another transaction follows behind a frame that is not as it was
written, something is lost that was promised. Of the last transaction only the mark tells (`elf.agents.store.mark`),
and it may be older than the file where the power failed.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log. A frame's checksum goes on from the one before,
as that is stored: so frames behind a damaged one can be checked, too.
"""

from __future__ import annotations

import functools
import pathlib
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elf.agents.store.checksums import DamagedError

Words = npt.NDArray[np.uint32]

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
#: Followed by a bit that says which end of a word the checksums take first.
_MAGIC = 0x377F0682
#: SQLite's default, which our files have.
_PAGE_BYTES = 4096


class _Frames(NamedTuple):
    """The frames of a log."""

    #: Whether they are of the same run of the log as the header, or as the first one where the header is damaged.
    current: npt.NDArray[np.bool_]
    #: Whether each goes on from the checksum that is stored before it.
    follows: npt.NDArray[np.bool_]
    ends: npt.NDArray[np.bool_]


def check_log(state: pathlib.Path) -> None:
    """Look through the write-ahead log of a state file that nobody has open. O(bytes).

    Raises:
        DamagedError: a frame is not as it was written, and transactions follow behind it.
    """
    path = state.with_name(state.name + "-wal")
    data = path.read_bytes() if path.exists() else b""
    if len(data) <= _HEADER_BYTES + _FRAME_HEADER_BYTES:
        return
    is_whole, frames = _frames(data)
    good = 0 if not is_whole else int(np.argmin(np.append(frames.current & frames.follows, False)))
    later = slice(good, -1)
    # A transaction that was begun after another one had ended, from where that left off.
    if (frames.ends[later] & (frames.current & frames.follows)[1:][later.start :]).any():
        raise DamagedError(f"{path.name} is damaged at frame {good}, and transactions follow behind it")


def _frames(data: bytes) -> tuple[bool, _Frames]:
    """Take a log apart; tells first whether its header is as it was written."""
    header = np.frombuffer(data[:_HEADER_BYTES], ">u4").astype(np.uint32)
    is_known = int(header[0]) & ~1 == _MAGIC
    order = ">" if is_known and int(header[0]) & 1 else "<" if is_known or sys.byteorder == "little" else ">"
    summed = _sums(np.frombuffer(data[:24], f"{order}u4").astype(np.uint32)[np.newaxis], np.zeros((1, 2), np.uint32))
    is_whole = is_known and bool((summed[0] == header[6:8]).all())
    page_bytes = int(header[2]) if is_whole else _PAGE_BYTES
    size = _FRAME_HEADER_BYTES + page_bytes
    count = (len(data) - _HEADER_BYTES) // size
    raw = np.frombuffer(data, np.uint8, count * size, _HEADER_BYTES).reshape(count, size)
    heads = np.ascontiguousarray(raw[:, :_FRAME_HEADER_BYTES]).view(">u4").astype(np.uint32)
    body = np.concatenate([raw[:, :8], raw[:, _FRAME_HEADER_BYTES:]], axis=1).view(f"{order}u4").astype(np.uint32)
    stored = heads[:, 4:6]
    sums = _sums(body, np.concatenate([header[np.newaxis, 6:8], stored[:-1]]))
    salts = header[4:6] if is_whole else heads[0, 2:4] if count else header[4:6]
    return is_whole, _Frames(
        current=(heads[:, 2:4] == salts).all(axis=1),
        follows=(sums == stored).all(axis=1),
        ends=heads[:, 1] != 0,
    )


def _sums(words: Words, before: Words) -> Words:
    """Return SQLite's checksums of rows of words, each going on from another one. O(words).

    In turn, each half of a sum takes up a word and the other half: so does a series of Fibonacci's.
    """
    count = words.shape[1]
    series = _fibonacci(count + 2)
    first, second = series[count - 1 :: -1], series[count:0:-1]
    low = (words * first).sum(axis=1, dtype=np.uint32) + before[:, 0] * series[count - 1] + before[:, 1] * series[count]
    high = (
        (words * second).sum(axis=1, dtype=np.uint32) + before[:, 0] * series[count] + before[:, 1] * series[count + 1]
    )
    return np.stack([low, high], axis=1)


@functools.cache
def _fibonacci(count: int) -> Words:
    found = [0, 1]
    while len(found) < count:
        found.append((found[-1] + found[-2]) & 0xFFFF_FFFF)
    return np.array(found, np.uint32)
