"""The fixed hash of keys (DESIGN section 5).

It is the same on every agent, platform and version, because partition trees and the order of rows depend on it. It is
neither keyed nor cryptographic. Nothing depends on it for truth: rows are the same only if their keys are equal word
for word, and keys that collide on purpose cost time in proportion to their number, never a wrong result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from elf.cbt.columns import Words
from elf.cbt.native import argument, kernels

_ROUND = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
#: Keys of more words are hashed row by row: they are so long that the loop does not show.
WIDE_WORDS = 64


def mix64(values: Words) -> Words:
    """Scatter each value over 64 bits: the finaliser of SplitMix64, a bijection that leaves 0 as it is. O(n)."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX_2
    mixed ^= mixed >> np.uint64(31)
    return mixed


def hash_words(words: Sequence[Words], keys: int) -> Words:
    """Hash columns of key words.

    Args:
        words: each holds one word of every key, shape (keys,), or the next few, shape (keys, few).
        keys: how many there are.

    Returns:
        Shape (keys,).
    """
    if len(words) > WIDE_WORDS or any(word.ndim > 1 for word in words):
        rows = np.column_stack(words)
        digests = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
        return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    if kernels is not None and keys:
        hashed = np.empty(keys, dtype=np.uint64)
        kernels.hash_words([argument(word) for word in words], hashed)
        return hashed
    hashed = np.full(keys, len(words), dtype=np.uint64)
    shifted = np.empty_like(hashed)
    for word in words:
        _take_in(hashed, word, shifted)
    return mix64(hashed)


def _take_in(hashed: Words, word: Words, scratch: Words) -> None:
    """Mix one more word of each key into hashes that have begun, in their place."""
    hashed ^= word
    hashed *= _ROUND
    hashed ^= np.right_shift(hashed, np.uint64(29), out=scratch)


def hash_padded(words: Sequence[Words], counts: Words) -> Words:
    """Hash keys of several widths that stand side by side, each as `hash_words` hashes its own words.

    Args:
        words: columns of key words, shape (keys,); at most `WIDE_WORDS`.
        counts: how many of these are each key's own; what follows is not looked at.

    Returns:
        Shape (keys,).
    """
    hashed, shifted = counts.copy(), np.empty_like(counts)
    least = int(counts.min(initial=len(words)))
    for number, word in enumerate(words):
        mixed = hashed.copy()
        _take_in(mixed, word, shifted)
        hashed = mixed if number < least else np.where(counts > number, mixed, hashed)
    return mix64(hashed)
