"""What simulated snapshots hold: names of items, and which version of the job's definition they were sealed under."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


def pack(items: Sequence[str]) -> bytes:
    """Return the payload that holds these items."""
    return msgspec.msgpack.encode(list(items))


def read(payload: bytes | None) -> list[str]:
    """Return what a payload holds: a mark `=version@interval` at most, and items; None holds nothing."""
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []


def unpack(payload: bytes | None) -> list[str]:
    """Return the items in a payload; None holds none."""
    return [item for item in read(payload) if not item.startswith("=")]


def marks(payloads: Iterable[bytes]) -> dict[str, tuple[int, int]]:
    """Return the marks in some payloads, each as version and interval."""
    found = sorted({item for payload in payloads for item in read(payload) if item.startswith("=")})
    pairs = [mark[1:].split("@") for mark in found]
    return {mark: (int(version), int(interval)) for mark, (version, interval) in zip(found, pairs, strict=True)}
