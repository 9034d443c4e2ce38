"""The arena: bytes come back as they were put in, and pages are used again."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt.arena import PAGE_BYTES, Arena, Slot

sizes = st.sampled_from([0, 1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 7 * PAGE_BYTES, 200 * PAGE_BYTES])


@settings(max_examples=60)
@given(st.lists(st.tuples(sizes, st.integers(0, 20) | st.none()), max_size=30))
def test_what_was_put_in_comes_out(steps: list[tuple[int, int | None]]) -> None:
    arena = Arena()
    held: list[tuple[Slot, bytes]] = []
    for number, (size, leaving) in enumerate(steps):
        if leaving is not None and leaving < len(held):
            arena.free(held.pop(leaving)[0])
        data = random.Random(number).randbytes(size)
        held.append((arena.put(data), data))
        assert all(arena.get(slot) == data for slot, data in held)
        pages = sum(-(-len(data) // PAGE_BYTES) for _, data in held)
        assert arena.used_bytes == pages * PAGE_BYTES <= arena.memory_bytes


def test_an_arena_of_nothing_takes_nothing() -> None:
    assert (Arena().memory_bytes, Arena().used_bytes) == (0, 0)


def test_freed_pages_are_taken_before_new_memory() -> None:
    arena = Arena()
    slots = [arena.put(bytes([n]) * 3000) for n in range(100)]
    before = arena.memory_bytes
    for slot in slots[::2]:
        arena.free(slot)
    # Larger than any hole: it lies in all fifty of them.
    large = b"l" * (50 * PAGE_BYTES)
    slot = arena.put(large)
    assert arena.memory_bytes == before
    assert arena.get(slot) == large
    assert [arena.get(each)[:1] for each in slots[1::2]] == [bytes([n]) for n in range(1, 100, 2)]


@pytest.mark.parametrize("order", [1, -1])
def test_memory_goes_back_once_most_of_it_is_idle(order: int) -> None:
    arena = Arena()
    slots = [arena.put(b"x" * PAGE_BYTES) for _ in range(5000)]
    most = arena.memory_bytes
    assert most <= 1.25 * 5000 * PAGE_BYTES
    for slot in slots[50:][::order]:
        arena.free(slot)
    assert arena.used_bytes == 50 * PAGE_BYTES
    assert arena.memory_bytes < 3 * arena.used_bytes
    assert all(arena.get(slot) == b"x" * PAGE_BYTES for slot in slots[:50])
