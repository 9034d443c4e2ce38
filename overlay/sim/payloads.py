"""What simulated snapshots hold: rows, each of an interval and a kind, and since when agents count by which version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec


class Row(NamedTuple):
    """What an agent made of one item: `kind` says by which version of the job."""

    item: str
    interval: int
    kind: int

    @property
    def text(self) -> str:
        """The row as it travels."""
        return f"{self.item}|{self.interval}|{self.kind}"


def row_of(text: str, interval: int) -> Row:
    """Read a row; a bare item is of the interval given and of the first kind."""
    item, *rest = text.split("|")
    return Row(item, *map(int, rest)) if rest else Row(item, interval, 0)


def pack(items: Sequence[str]) -> bytes:
    """Return the payload that holds these texts."""
    return msgspec.msgpack.encode(list(items))


def read(payload: bytes | None) -> list[str]:
    """Return what a payload holds: notes, which begin with "=", and rows or bare items; None holds nothing."""
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []


def unpack(payload: bytes | None) -> list[str]:
    """Return the items in a payload; None holds none."""
    return [text.partition("|")[0] for text in read(payload) if not text.startswith("=")]


def told(agent: str, since: Mapping[int, int]) -> list[str]:
    """Return the notes that say since when an agent counts by which version."""
    return [f"={agent}:{version}@{first}" for version, first in sorted(since.items())]


def read_told(payload: bytes | None) -> Iterable[tuple[str, int, int]]:
    """Yield agent, version and first interval of each such note in a payload."""
    for text in read(payload):
        if text.startswith("="):
            agent, _, rest = text[1:].rpartition(":")
            version, _, first = rest.partition("@")
            yield agent, int(version), int(first)
