"""What simulated snapshots hold: the names of items, so that whoever looks from outside can count them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


def pack(items: Sequence[str]) -> bytes:
    """Return the payload that holds these items."""
    return msgspec.msgpack.encode(list(items))


def unpack(payload: bytes | None) -> list[str]:
    """Return the items in a payload; None holds none."""
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []
