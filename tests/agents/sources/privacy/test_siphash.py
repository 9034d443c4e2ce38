"""SipHash-2-4 against the vectors of its authors' reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

from elf.agents.sources.privacy.siphash import hash_texts, siphash24


@pytest.mark.parametrize(
    ("length", "digest"), [(0, "310e0edd47db6f72"), (8, "6224939a79f5f593"), (16, "db9bc2577fcc2a3f")]
)
def test_reference_vectors(length: int, digest: str) -> None:
    message = np.frombuffer(bytes(range(length)), "<u8").astype(np.uint64).reshape(1, -1)
    (hashed,) = siphash24(bytes(range(16)), message).tolist()
    assert hashed.to_bytes(8, "little").hex() == digest


def test_texts_hash_alike_whatever_is_hashed_beside_them() -> None:
    key = bytes(range(16))
    one, two, again = hash_texts(key, ["10.0.0.1", "2001:db8::1", "10.0.0.1"], 32)
    assert one == again != two and [one] == hash_texts(key, ["10.0.0.1"], 32)
    assert len(one) == 16 and one != hash_texts(bytes(16), ["10.0.0.1"], 32)[0]
    assert hash_texts(key, [], 32) == []
