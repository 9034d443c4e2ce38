"""What tests of tails share: lines that occur once, and reading all there is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from elf.agents.sources.files.tail import Tail

COUNTER = itertools.count()


def lines(count: int) -> bytes:
    """Lines that occur once in a test run."""
    return b"".join(b"line %09d of the log\n" % next(COUNTER) for _ in range(count))


def append(path: Path, data: bytes) -> bytes:
    with path.open("ab") as file:
        file.write(data)
    return data


def drain(tail: Tail, bytes_max: int = 1 << 16, *, final: bool = False) -> bytes:
    parts = []
    while chunk := tail.read(bytes_max, final=final):
        assert chunk.data.endswith(b"\n")
        parts.append(chunk.data)
    assert tail.at_end
    return b"".join(parts)


def restarted(tail: Tail, path: Path | str) -> Tail:
    """A new tail that starts where the old one was, as after a crash."""
    positions = tail.positions()
    tail.close()
    again = make(path)
    again.restore(positions)
    return again


def make(path: Path | str, *, wait_ms: int = 0, **options: object) -> Tail:
    return Tail([str(path)], rotate_wait_ms=wait_ms, **options)  # type: ignore[arg-type]


class FakeSpool:
    """A log of our own of which so many bytes may be read; nobody else touches it."""

    def __init__(self, readable: Callable[[], int]) -> None:
        self.readable = readable
        #: Why it was set aside.
        self.aside: list[str] = []

    def is_ours(self, inode: int) -> bool:
        return True

    def is_read(self, inode: int) -> bool:
        return False

    def unread(self, inode: int, offset: int) -> int | None:
        return None

    def set_aside(self, inode: int, why: str) -> None:
        self.aside.append(why)
        raise OSError("not now")
