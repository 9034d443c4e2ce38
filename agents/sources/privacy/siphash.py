"""SipHash-2-4 of many short messages at once: a keyed hash that nobody can undo, or compute, without the key.

Addresses are few enough to be hashed all and compared, so a hash without a key would hide nothing.
Source: Aumasson and Bernstein, SipHash: a fast short-input PRF, INDOCRYPT 2012.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_CONSTANTS = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash24(key: bytes, messages: Words) -> Words:
    """Hash messages of equal length, each a row of little-endian 64-bit words, under a key of 16 bytes."""
    k0, k1 = (np.uint64(int.from_bytes(key[at : at + 8], "little")) for at in (0, 8))
    v = [
        np.full(len(messages), np.uint64(constant) ^ k, np.uint64)
        for constant, k in zip(_CONSTANTS, (k0, k1) * 2, strict=True)
    ]
    length = np.full(len(messages), (messages.shape[1] * 8 % 256) << 56, np.uint64)
    for word in (*messages.T, length):
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xFF)
    _rounds(v, 4)
    hashed: Words = v[0] ^ v[1] ^ v[2] ^ v[3]
    return hashed


def hash_texts(key: bytes, texts: Iterable[str], bytes_max: int) -> list[str]:
    """Hash ASCII texts of at most `bytes_max` bytes, a multiple of 8, to 16 hexadecimal digits each."""
    padded = np.array([*texts], dtype=f"S{bytes_max}")
    words = padded.view(np.uint64).reshape(len(padded), bytes_max // 8)
    digits = siphash24(key, words.astype("<u8", copy=False)).astype(">u8").tobytes().hex()
    return [digits[at : at + 16] for at in range(0, len(digits), 16)]


def _rounds(v: list[Words], count: int) -> None:
    for _ in range(count):
        v[0] += v[1]
        v[1] = _rotated(v[1], 13) ^ v[0]
        v[0] = _rotated(v[0], 32)
        v[2] += v[3]
        v[3] = _rotated(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = _rotated(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = _rotated(v[1], 17) ^ v[2]
        v[2] = _rotated(v[2], 32)


def _rotated(words: Words, bits: int) -> Words:
    rotated: Words = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated
