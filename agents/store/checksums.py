"""The checksum that every row of the state file carries, over all its other columns. Pure.

SQLite checks the frames of its write-ahead log, not its pages: a byte that flips on the disk is handed out as if it had
been written. CRC-32 finds every damage within any 32 bits and lets one in 2^32 of all others pass; it is no defence
against somebody who may write our files (`elf.cbt.spill_block` has the timings).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from elf.agents.errors import ElfError

#: What SQLite gives back for a column of ours.
Value = int | str | bytes | None

_INTEGER = struct.Struct("<cq")
_LENGTH = struct.Struct("<cQ")


class DamagedError(ElfError):
    """What is stored is not what was written; the text says where. The fault of a disk or an operator."""


def row_checksum(*values: Value) -> int:
    """Return the checksum of a row's values, in order. O(bytes).

    >>> row_checksum(b"ab", b"") == row_checksum(b"a", b"b"), row_checksum(None) == row_checksum(b"")
    (False, False)
    """
    crc = 0
    for value in values:
        if isinstance(value, bytes):
            crc = zlib.crc32(value, zlib.crc32(_LENGTH.pack(b"b", len(value)), crc))
        elif isinstance(value, int):
            crc = zlib.crc32(_INTEGER.pack(b"i", value), crc)
        elif isinstance(value, str):
            text = value.encode("utf-8", "surrogateescape")
            crc = zlib.crc32(text, zlib.crc32(_LENGTH.pack(b"t", len(text)), crc))
        elif value is None:
            crc = zlib.crc32(b"n", crc)
        else:
            raise TypeError(f"no column of ours holds {value!r}")
    return crc


def is_whole(row: tuple[Any, ...]) -> bool:
    """Tell whether a row's last column is the checksum of those before it; False for values that we never write."""
    try:
        return bool(row_checksum(*row[:-1]) == row[-1])
    except (TypeError, ValueError, struct.error):
        return False


def verified(row: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Return a row without its checksum.

    Raises:
        DamagedError: the row is not as it was written; `what` names it.
    """
    if not is_whole(row):
        raise DamagedError(
            f"{what} is damaged on the disk; restart the agent: it sets the damaged file aside and starts without it"
        )
    return row[:-1]
