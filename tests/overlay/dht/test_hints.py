"""Hints: the newest wins in whatever order they arrive, bounds hold, old ones go."""

from __future__ import annotations

import itertools

from elf.overlay.dht.hints import HINT_TTL_MS, Hint, Hints
from elf.overlay.dht.messages import HINT_BYTES_MAX

KEY = b"k" * 20


def test_every_order_of_arrival_ends_alike() -> None:
    versions = [Hint(1, b"z"), Hint(2, b"b"), Hint(2, b"c"), Hint(2, b"")]
    for order in itertools.permutations(versions):
        hints = Hints(bytes(20))
        for hint in order:
            hints.put(KEY, hint, 0)
        assert hints.fetch(KEY, 0) == Hint(2, b"c")


def test_taking_is_told_apart_from_refusing() -> None:
    hints = Hints(bytes(20))
    assert hints.put(KEY, Hint(2, b"b"), 0)
    assert hints.put(KEY, Hint(2, b"b"), 0), "the same again is held"
    assert not hints.put(KEY, Hint(1, b"z"), 0)
    assert not hints.put(KEY, Hint(9, b"z" * (HINT_BYTES_MAX + 1)), 0)


def test_a_hint_expires_unless_set_again() -> None:
    hints = Hints(bytes(20))
    hints.put(KEY, Hint(5, b"v"), 0)
    assert hints.fetch(KEY, HINT_TTL_MS - 1) == Hint(5, b"v")
    assert hints.fetch(KEY, HINT_TTL_MS) is None
    assert hints.put(KEY, Hint(1, b"younger"), HINT_TTL_MS), "an expired hint stands in nobody's way"
    hints.put(KEY, Hint(1, b"younger"), HINT_TTL_MS + 10)
    assert hints.fetch(KEY, 2 * HINT_TTL_MS + 9) == Hint(1, b"younger")


def test_when_full_the_expired_and_then_the_farthest_go() -> None:
    hints = Hints(bytes(20), most=3, ttl_ms=100)
    for number in (1, 2, 3):
        assert hints.put(number.to_bytes(20), Hint(1, b""), 50 if number == 3 else 0)
    assert not hints.put((9).to_bytes(20), Hint(1, b""), 60), "the farthest is the new one itself"
    assert hints.put((0).to_bytes(20), Hint(1, b""), 60)
    assert hints.fetch((3).to_bytes(20), 60) is None
    assert hints.put((9).to_bytes(20), Hint(1, b""), 120)
    assert len(hints) == 2
