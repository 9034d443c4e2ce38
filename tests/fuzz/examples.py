"""Valid messages of every kind a union names, drawn from the types themselves, so that new kinds are fuzzed at once."""

from __future__ import annotations

import functools
import random
from typing import Any

import msgspec
from msgspec import inspect

#: What fields with rules beyond their type accept: addresses, names of agents, keys, types of columns.
WORDS = ["127.0.0.1:5", "[2001:db8::1]:4250", "10.0.0.1:65535", "web-1", "job/shop/top", "BIGINT", "é", "x"]
_TRIES = 200
#: Reading annotations costs more than all draws.
_type_info = functools.cache(inspect.type_info)


def draw(kind: Any, rng: random.Random) -> Any:
    """Return a random instance of a type that its own decoder accepts."""
    for _ in range(_TRIES):
        try:
            value = _draw(_type_info(kind), rng)
            return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)
        except (ValueError, msgspec.ValidationError):
            continue
    raise AssertionError(f"no valid {kind} in {_TRIES} tries")


def kinds(union: Any) -> list[Any]:
    """Return the members of a union of messages."""
    info = _type_info(union)
    assert isinstance(info, inspect.UnionType)
    return [member.cls for member in info.types if isinstance(member, inspect.StructType)]


def _draw(kind: inspect.Type, rng: random.Random) -> Any:
    match kind:
        case inspect.StructType(fields=fields):
            return kind.cls(**{f.name: _draw(f.type, rng) for f in fields if f.required or rng.random() < 0.7})
        case inspect.UnionType(types=types):
            return _draw(rng.choice(types), rng)
        case inspect.IntType(ge=ge, le=le):
            low, high = ge if ge is not None else -(1 << 62), le if le is not None else 1 << 62
            return min(max(rng.choice([low, high, 0, 1, 2, 7, rng.randint(low, high)]), low), high)
        case inspect.BytesType(min_length=low, max_length=high):
            return rng.randbytes(_length(low, high, rng))
        case inspect.StrType(min_length=low, max_length=high):
            word = rng.choice(WORDS)
            return word[: high or len(word)].ljust(low or 0, "x")
        case inspect.VarTupleType(item_type=item, min_length=low, max_length=high):
            return tuple(_draw(item, rng) for _ in range(_length(low, high, rng)))
        case inspect.ListType(item_type=item, min_length=low, max_length=high):
            return [_draw(item, rng) for _ in range(_length(low, high, rng))]
        case inspect.TupleType(item_types=items):
            return tuple(_draw(item, rng) for item in items)
        case inspect.DictType(key_type=key, value_type=value):
            return {_draw(key, rng): _draw(value, rng) for _ in range(rng.randrange(4))}
        case inspect.LiteralType(values=values):
            return rng.choice(list(values))
        case inspect.EnumType(cls=cls):
            return rng.choice(list(cls))
        case inspect.BoolType():
            return rng.random() < 0.5
        case inspect.FloatType():
            return rng.uniform(-1e9, 1e9)
        case inspect.NoneType():
            return None
        case inspect.AnyType():
            return rng.choice([None, 1, "x", [1, "y"], {"rows": [[1, None]]}, b"z"])
    raise AssertionError(f"no example of {kind}")


def _length(low: int | None, high: int | None, rng: random.Random) -> int:
    low = low or 0
    return min(max(low, rng.choice([0, 1, 2, 3, 8, 20])), high if high is not None else 20)
