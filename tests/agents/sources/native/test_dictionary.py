"""The kernel that numbers values does it as a `dict` does, as far as there is room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.native import DictionaryKernels, Spans, built_for_dictionaries

VALUE = st.sampled_from([b"", b"a", b"12345678", b"123456789"]) | st.binary(max_size=20)
VALUES = st.lists(st.none() | VALUE, max_size=40)


def kernels() -> DictionaryKernels:
    """The kernels, which `scripts/setup --test` has seen to."""
    found = built_for_dictionaries()
    assert found is not None, "the kernels have not been built"
    return found


def block_of(values: list[bytes | None]) -> tuple[bytes, Spans]:
    """Put values side by side."""
    ends = np.cumsum([len(value or b"") for value in values], dtype=np.int32).tolist()
    spans = [(-1, -1) if value is None else (end - len(value), end) for value, end in zip(values, ends, strict=True)]
    return b"".join(value or b"" for value in values), np.array(spans, np.int32).reshape(-1, 2)


class Numbered:
    """A dictionary of so many slots, with room for so many values and bytes."""

    def __init__(self, slots: int, values: int, room: int) -> None:
        self.slots, self.texts = np.zeros(slots, np.uint64), np.zeros(room, np.uint8)
        self.offsets, self.known = np.zeros(values + 1, np.int64), 0

    def look_up(self, values: list[bytes | None]) -> tuple[int, list[int | None], int]:
        """Return the row reached, the numbers of those before it, and how many of them are null."""
        block, spans = block_of(values)
        codes, valid = np.zeros(len(values), np.uint32), np.zeros((len(values) + 7) // 8, np.uint8)
        arrays = self.slots, self.texts, self.offsets
        reached, self.known, nulls = kernels().look_up(block, spans, 0, *arrays, self.known, codes, valid)
        has = np.unpackbits(valid, bitorder="little", count=len(values))
        numbers = [int(code) if each else None for code, each in zip(codes, has, strict=True)]
        return reached, numbers[:reached], nulls

    @property
    def values(self) -> list[bytes]:
        """What is known, by number."""
        return [self.texts[self.offsets[at] : self.offsets[at + 1]].tobytes() for at in range(self.known)]


@given(st.lists(VALUES, max_size=4), st.integers(0, 6), st.integers(1, 40), st.integers(0, 200))
def test_numbers_are_those_of_a_dict(parts: list[list[bytes | None]], slots: int, most: int, room: int) -> None:
    numbered, known = Numbered(2**slots, most, room), dict[bytes, int]()
    for part in parts:
        expected: list[int | None] = []
        for value in part:
            if value is not None and value not in known:
                used = sum(map(len, known))
                if len(known) >= min(most, 2**slots // 2) or used + len(value) > room:
                    break
                known[value] = len(known)
            expected.append(None if value is None else known[value])
        assert numbered.look_up(part) == (len(expected), expected, expected.count(None))
        assert numbered.values == list(known)


@given(VALUES)
def test_a_larger_table_is_filled_again(values: list[bytes | None]) -> None:
    numbered = Numbered(128, 64, 4096)
    first = numbered.look_up(values)
    numbered.slots = np.zeros(1024, np.uint64)
    filled = kernels().fill_slots(numbered.slots, numbered.texts, numbered.offsets, numbered.known)
    assert filled == numbered.known
    assert numbered.look_up(values) == first


def test_of_very_many_with_one_hash_only_some_are_taken() -> None:
    # What the first word does to the hash, the second one takes back.
    def mixed(state: int, word: int) -> int:
        state = (state ^ word) * 0x9E3779B97F4A7C15 % 2**64
        return state ^ state >> 29

    start = mixed(16, 0)
    values: list[bytes | None] = [
        word.to_bytes(8, "little") + (mixed(16, word) ^ start).to_bytes(8, "little") for word in range(1000)
    ]
    numbered = Numbered(4096, 2048, 1 << 16)
    reached, numbers, _ = numbered.look_up(values)
    assert 0 < reached < 100
    assert numbers == list(range(reached))


@pytest.mark.parametrize(
    ("change", "value"),
    [("known", -1), ("known", 9), ("slots", np.zeros(3, np.uint64)), ("slots", np.zeros(0, np.uint64))],
)
def test_what_does_not_fit_together_is_refused(change: str, value: object) -> None:
    numbered = Numbered(16, 8, 64)
    setattr(numbered, change, value)
    with pytest.raises(ValueError, match="power of two"):
        numbered.look_up([b"a"])


@pytest.mark.parametrize("offsets", [[0, 65], [-1, 1], [5, 1]])
def test_offsets_outside_are_refused(offsets: list[int]) -> None:
    numbered = Numbered(16, 8, 64)
    numbered.look_up([b"a"])
    numbered.offsets[:2] = offsets
    with pytest.raises(ValueError, match="outside"):
        numbered.look_up([b"a"])
    with pytest.raises(ValueError, match="outside"):
        kernels().fill_slots(np.zeros(16, np.uint64), numbered.texts, numbered.offsets, 1)


def test_rows_and_places_outside_are_refused() -> None:
    numbered, codes, valid = Numbered(16, 8, 64), np.zeros(1, np.uint32), np.zeros(1, np.uint8)
    arrays = numbered.slots, numbered.texts, numbered.offsets
    spans = np.array([[0, 9]], np.int32)
    with pytest.raises(ValueError, match="outside"):
        kernels().look_up(b"a", spans, 0, *arrays, 0, codes, valid)
    with pytest.raises(ValueError, match="no such row"):
        kernels().look_up(b"a", spans, 2, *arrays, 0, codes, valid)
