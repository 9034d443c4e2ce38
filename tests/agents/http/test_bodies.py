"""Decompression stops at its limits: bombs, cut and mixed streams."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.http.bodies import MEMBERS_MAX, RATIO_FREE_BYTES, RATIO_MAX, gunzip
from elf.agents.http.problems import RefusedError

MIB = 1 << 20


@given(st.lists(st.binary(max_size=2000), max_size=5))
def test_members_come_back_whole(parts: list[bytes]) -> None:
    assert gunzip(b"".join(map(gzip.compress, parts)), MIB) == b"".join(parts)


@given(st.binary(max_size=300))
def test_any_bytes_come_back_or_are_refused(raw: bytes) -> None:
    try:
        gunzip(raw, MIB)
    except RefusedError as error:
        assert error.response.status in (400, 413)


def test_a_bomb_is_stopped_before_it_fills_memory() -> None:
    bomb = gzip.compress(bytes(200 * MIB), 9)
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError) as caught:
            gunzip(bomb, 16 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()
    assert caught.value.response.status == 413


def test_the_ratio_is_bounded_below_the_size_limit() -> None:
    size = 2 * RATIO_FREE_BYTES
    packed = gzip.compress(bytes(size), 9)
    assert size > RATIO_MAX * len(packed)
    with pytest.raises(RefusedError) as caught:
        gunzip(packed, 64 * MIB)
    assert caught.value.response.status == 413
    assert len(gunzip(gzip.compress(bytes(RATIO_FREE_BYTES)), 64 * MIB)) == RATIO_FREE_BYTES


CUT, TRAILED = gzip.compress(b"x" * 1000, mtime=0)[:-9], gzip.compress(b"x", mtime=0) + b"trailing"


@pytest.mark.parametrize("raw", [b"plain text", CUT, TRAILED], ids=["plain", "cut", "trailed"])
def test_broken_gzip(raw: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        gunzip(raw, MIB)
    assert caught.value.response.status == 400


def test_too_many_members() -> None:
    with pytest.raises(RefusedError):
        gunzip(gzip.compress(b"") * (MEMBERS_MAX + 1), MIB)
