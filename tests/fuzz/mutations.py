"""Damage done to real frames: flipped bits, cut and repeated pieces, pieces of others, and bombs of every format."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

#: Bytes with a meaning in msgpack or lz4: every container and string, with lengths that promise far more than is there.
TOKENS = [
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x00", b"\xdc\xff\xff", b"\xde\xff\xff", b"\xda\xff\xff", b"\xc5\xff\xff",
    b"\xdd\x7f\xff\xff\xff", b"\xdf\x00\x10\x00\x00", b"\xc6\x10\x00\x00\x00",
    b"\x90", b"\x80", b"\xc0", b"\xc1", b"\xc2", b"\xc3", b"\xa0", b"\xc4\x00", b"\x00", b"\x7f", b"\xff",
    b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\x00" * 7, b"\xcb\x7f\xf8" + b"\x00" * 6, b"\xcb\x7f\xf0" + b"\x00" * 6,
    b"\xd7\xff" + b"\xff" * 8, b"\xd6\xff" + b"\xff" * 4, b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x05\x00",
    b"\xa1\xff", b"\xa3\xed\xa0\x80", b"\xa4\xf0\x9f\x98\x80",
]  # fmt: skip
#: Nesting of one container in another, of a length that no recursion survives.
NESTS = [b"\x91", b"\x81\xa1a", b"\x81\x01", b"\x92\x00", b"\x91\x81\xa1a", b"\xdc\x00\x01"]
NEST_MAX = 3_000
MUTATIONS_MAX = 4


def mutate(samples: Sequence[bytes], rng: random.Random, bytes_max: int = 1 << 16) -> bytes:
    """Return one sample, damaged a few times; now and then bytes that were never a frame."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(rng.choice(samples))
    for _ in range(rng.randint(1, MUTATIONS_MAX)):
        rng.choice(_MUTATIONS)(data, rng, samples)
    return bytes(data[:bytes_max])


def _span(data: bytearray, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice([0, 1, 2, 4, 8, 32, 256]))


def _flip(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _cut(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    start, end = _span(data, rng)
    del data[start:end]


def _truncate(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    del data[rng.randint(0, len(data)) :]


def _repeat(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    start, end = _span(data, rng)
    data[end:end] = bytes(data[start:end]) * rng.choice([1, 2, 8])


def _token(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    at, token = rng.randint(0, len(data)), rng.choice(TOKENS)
    data[at : at + rng.choice([0, 1, len(token)])] = token


def _nest(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    at = rng.randint(0, len(data))
    data[at : at + rng.choice([0, 1])] = rng.choice(NESTS) * rng.choice([1, 3, 60, NEST_MAX])


def _graft(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    other = bytearray(rng.choice(samples))
    start, end = _span(other, rng)
    at, to = _span(data, rng)
    data[at:to] = other[start:end]


def _noise(data: bytearray, rng: random.Random, samples: Sequence[bytes]) -> None:
    start, end = _span(data, rng)
    data[start:end] = rng.randbytes(end - start)


# Bits and bytes more often than the rest: small damage passes the first checks and reaches what lies behind them.
_MUTATIONS: list[Callable[[bytearray, random.Random, Sequence[bytes]], None]] = [
    _flip, _flip, _flip, _set, _set, _set, _token, _token, _cut, _truncate, _repeat, _nest, _graft, _noise,
]  # fmt: skip
