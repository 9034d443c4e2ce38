"""msgpack from others, read as one type or refused with one error.

Owns which exceptions of the decoder are the sender's fault: text that is no UTF-8 and nesting without end are, too, but
the decoder reports them as `UnicodeDecodeError` and `RecursionError`, which nobody expects.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Hashable
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

#: Values that are remembered to be `shared`.
SHARED_MAX = 1_024


@overload
def read_msgpack(data: bytes, kind: type[T]) -> T: ...


@overload
def read_msgpack(data: bytes, kind: UnionType) -> Any: ...


def read_msgpack(data: bytes, kind: type[T] | UnionType) -> T | Any:
    """Read one value.

    Raises:
        msgspec.DecodeError: the bytes are none of this kind; for any bytes, nothing else is raised.
    """
    hashable: Any = kind  # mypy does not know that unions are
    try:
        return _decoder(hashable).decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None


def read_shared(data: bytes, kind: type[T]) -> T:
    """Read one value as `read_msgpack`; equal bytes give one value, as long as somebody has it.

    Args:
        data: the bytes.
        kind: a frozen type that can be referred to weakly.
    """
    key = kind, hashlib.blake2b(data, digest_size=16).digest()
    value: T | None = _shared.get(key)
    if value is None:
        value = _shared[key] = read_msgpack(data, kind)
    return value


#: Type and digest of the bytes -> the value.
_shared: weakref.WeakValueDictionary[tuple[type, bytes], Any] = weakref.WeakValueDictionary()


@functools.lru_cache(maxsize=SHARED_MAX, typed=True)
def shared(value: H) -> H:
    """Return one of equal values, for those that come again and again: what many jobs say of few agents."""
    return value


@functools.cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Make a decoder of one kind, once: for a union that takes several times as long as to read a short message."""
    return msgspec.msgpack.Decoder(kind)
