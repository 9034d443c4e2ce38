"""Equal values, had once: what an agent decodes of many jobs is largely the same few sources, options and agents.

What others send is remembered only if it is small, or for as long as somebody has it.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

from elf.overlay.decoding import read_msgpack

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
K = TypeVar("K", bound=Hashable)

#: Values that are remembered, the latest used; longest text, and longest mapping or tuple as it is written in Python.
VALUES_MAX, ITEMS_MAX = 1_024, 256
TEXT_CHARS_MAX, ITEMS_CHARS_MAX = 128, 2_048


@functools.lru_cache(maxsize=VALUES_MAX, typed=True)
def interned(value: H) -> H:
    """Return the first of equal values; the caller sees to it that it is small, for it stays."""
    return value


def interned_text(text: str) -> str:
    """Return the first of equal texts, if it is short."""
    return interned(text) if len(text) <= TEXT_CHARS_MAX else text


def interned_mapping(mapping: Mapping[K, H]) -> dict[K, H]:
    """Return the first of equal mappings, if it is short; nobody may change it."""
    items = tuple(mapping.items())
    return _mapping(items) if _are_short(items) else dict(items)


def interned_items(items: Iterable[H]) -> tuple[H, ...]:
    """Return the first of equal tuples, if it is short."""
    all_items = tuple(items)
    return _items(all_items) if _are_short(all_items) else all_items


def _are_short(items: tuple[Any, ...]) -> bool:
    return len(repr(items)) <= ITEMS_CHARS_MAX


@functools.lru_cache(maxsize=ITEMS_MAX)
def _mapping(items: tuple[tuple[Any, Any], ...]) -> dict[Any, Any]:
    return dict(items)


@functools.lru_cache(maxsize=ITEMS_MAX)
def _items(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return items


def share_nothing(value: msgspec.Struct, *fields: str) -> None:
    """Let the empty ones of some mappings of a frozen value be one that all such values have; nobody may change it."""
    for field in fields:
        if not getattr(value, field):
            force_setattr(value, field, _NOTHING)


#: An empty dictionary takes 64 bytes, and what is remembered of a job has many.
_NOTHING: dict[Any, Any] = {}


def read_interned(data: bytes, kind: type[T]) -> T:
    """Read one value as `read_msgpack`; equal bytes give one value, as long as somebody has it.

    Args:
        data: the bytes.
        kind: a frozen type that can be referred to weakly.
    """
    key = kind, hashlib.blake2b(data, digest_size=16).digest()
    value: T | None = _read.get(key)
    if value is None:
        value = _read[key] = read_msgpack(data, kind)
    return value


#: Type and digest of the bytes -> the value.
_read: weakref.WeakValueDictionary[tuple[type, bytes], Any] = weakref.WeakValueDictionary()
