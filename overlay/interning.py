"""Equal values, had once: what an agent decodes of many jobs is largely the same few sources, options and agents.

What others send is remembered only if it is small, or for as long as somebody has it.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from overlay.decoding import read_msgpack

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
K = TypeVar("K", bound=Hashable)

#: Values that are remembered, the latest used; longest text, and longest mapping as it is written in Python.
VALUES_MAX, MAPPINGS_MAX = 1_024, 256
TEXT_CHARS_MAX, MAPPING_CHARS_MAX = 128, 2_048


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
    return _mapping(items) if len(repr(items)) <= MAPPING_CHARS_MAX else dict(items)


@functools.lru_cache(maxsize=MAPPINGS_MAX)
def _mapping(items: tuple[tuple[Any, Any], ...]) -> dict[Any, Any]:
    return dict(items)


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
