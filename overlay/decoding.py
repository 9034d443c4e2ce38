"""msgpack from others, read as one type or refused with one error.

Owns which exceptions of the decoder are the sender's fault: text that is no UTF-8 and nesting without end are, too, but
the decoder reports them as `UnicodeDecodeError` and `RecursionError`, which nobody expects.
"""

from __future__ import annotations

import functools
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


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


@functools.cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Make a decoder of one kind, once: for a union that takes several times as long as to read a short message."""
    return msgspec.msgpack.Decoder(kind)
