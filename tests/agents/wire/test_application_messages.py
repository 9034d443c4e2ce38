"""Messages come back as they were, or are refused with a sentence; other bytes are one error."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.wire.application_messages import DEPTH_MAX, MESSAGE_BYTES_MAX, Ask, Letter, Said, packed, unpacked
from elf.agents.wire.changes import Leapt
from elf.agents.wire.request import decode_request, encode
from elf.overlay.contract import CONTROL_BYTES_MAX
from elf.overlay.decoding import read_msgpack

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(1 << 63) + 1, (1 << 63) - 1) | texts
numbers = st.floats(allow_nan=False, allow_infinity=False)
messages = st.recursive(
    scalars | numbers,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)


@given(messages)
def test_a_message_comes_back_as_it_was(message: Any) -> None:
    assert unpacked(packed(message)) == message


@given(st.binary(max_size=60))
def test_other_bytes_are_one_error(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError):
        unpacked(data)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"x", "bytes is none of it"),
        ({"a": {1, 2}}, "set is none of it"),
        (math.nan, "nan is no number that a message can hold"),
        (1 << 63, "whole numbers of a message have 64 bits"),
        ({None: 1}, "keys of a message are texts; None is NoneType"),
        (nested(DEPTH_MAX + 1), "nested at most 32 deep"),
        ("\ud800", "no Unicode"),
        ("x" * MESSAGE_BYTES_MAX, "at most 245760 bytes as JSON, this one 245762"),
    ],
)
def test_what_is_no_message_is_refused(message: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        packed(message)


def test_the_largest_message_fits_what_carries_it() -> None:
    body = packed("x" * (MESSAGE_BYTES_MAX - 2))
    said = Said(body).encode()
    assert len(said) <= CONTROL_BYTES_MAX and read_msgpack(said, Said) == Said(body)
    for request in (Letter(b"t" * 20, "master", "agent-1", body), Ask(b"a" * 20, "shop/sold", body)):
        assert decode_request(encode(request)) == request
    assert unpacked(packed(nested(DEPTH_MAX))) == nested(DEPTH_MAX)


def test_entries_of_the_log_are_told_apart() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_msgpack(Leapt(7).encode(), Said)
    with pytest.raises(msgspec.ValidationError):
        read_msgpack(Said(b"1").encode(), Leapt)
