"""What is equal is one object, and what others send is remembered only if it is small, or used."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

import msgspec
import pytest

from elf.overlay import interning
from elf.overlay.interning import (
    ITEMS_CHARS_MAX,
    TEXT_CHARS_MAX,
    interned,
    interned_items,
    interned_mapping,
    interned_text,
    read_interned,
    share_nothing,
)


class Said(msgspec.Struct, frozen=True, weakref=True):
    text: str


def test_equal_values_are_one() -> None:
    first = interned(Said("x" * 3))
    assert interned(Said("".join(["x", "x", "x"]))) is first
    assert interned(1) is not interned(True), "equal, and not the same"


def test_long_texts_and_mappings_are_not_remembered() -> None:
    known = interning.interned.cache_info().currsize
    long = "x" * (TEXT_CHARS_MAX + 1)
    assert interned_text(long) is long
    assert interning.interned.cache_info().currsize == known
    mappings = [interned_mapping({"a": "x" * ITEMS_CHARS_MAX}) for _ in range(2)]
    assert mappings[0] == mappings[1] and mappings[0] is not mappings[1]
    tuples = [interned_items(iter(["x" * ITEMS_CHARS_MAX])) for _ in range(2)]
    assert tuples[0] == tuples[1] and tuples[0] is not tuples[1]


def test_equal_texts_and_mappings_are_one_in_their_order() -> None:
    assert interned_text("ab" + str(1)) is interned_text("a" + "b1")
    one = interned_mapping({"a": "INT", "b": "STRING"})
    assert interned_mapping(dict(one)) is one
    assert list(interned_mapping({"b": "STRING", "a": "INT"})) == ["b", "a"]
    assert interned_items([("a", "INT")]) is interned_items(iter([("a", "I" + "NT")])) == (("a", "INT"),)


class Known(msgspec.Struct, frozen=True):
    lost: Mapping[str, int] = {}
    owing: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        share_nothing(self, "lost", "owing")


def test_mappings_of_nothing_are_one_however_they_came() -> None:
    made, read = Known(owing={"a": 1}), msgspec.msgpack.decode(b"\x80", type=Known)
    assert made.lost == {} and made.owing == {"a": 1}
    assert made.lost is read.lost is read.owing is msgspec.structs.replace(made, owing={}).owing


def test_equal_bytes_are_read_once_for_as_long_as_somebody_has_the_value() -> None:
    body = msgspec.msgpack.encode(Said("a"))
    value = read_interned(body, Said)
    assert value == Said("a") and read_interned(bytes(bytearray(body)), Said) is value
    gone = weakref.ref(value)
    del value
    gc.collect()
    assert gone() is None
    with pytest.raises(msgspec.DecodeError):
        read_interned(b"\xc1", Said)
