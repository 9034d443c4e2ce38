"""The wire form: round trips, caps, and one sentence for the decoder: any bytes decode or raise DecodeError."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.overlay.dht.messages import (
    CONTACTS_MAX,
    DATAGRAM_BYTES_MAX,
    HINT_BYTES_MAX,
    Fetch,
    Fetched,
    Find,
    Found,
    Message,
    Ping,
    Pong,
    Store,
    Stored,
    decode,
    encode,
    pack,
    unpack,
)
from elf.overlay.errors import DecodeError
from elf.overlay.ids import Contact

CALL, OWN, KEY = b"callcall", pack(Contact.at("10.0.0.1", 4250)), b"k" * 20
MESSAGES: list[Message] = [
    Ping(CALL, OWN),
    Find(CALL, OWN, KEY),
    Fetch(CALL, OWN, KEY),
    Store(CALL, OWN, KEY, 2**62, b"v" * HINT_BYTES_MAX),
    Pong(CALL, OWN),
    Found(CALL, OWN, tuple(pack(Contact.at(f"2001:db8::{i + 1:x}", 4250)) for i in range(CONTACTS_MAX))),
    Fetched(CALL, OWN, 0, None),
    Fetched(CALL, OWN, 7, b""),
    Stored(CALL, OWN, True),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_round_trip(message: Message) -> None:
    assert decode(encode(message)) == message


def test_twenty_contacts_fit_an_unfragmented_datagram() -> None:
    found = Found(CALL, OWN, tuple(pack(Contact.at(f"2001:db8::{i + 1:x}", 4250)) for i in range(20)))
    assert len(encode(found)) < 500


@given(st.binary(max_size=200))
@example(b"\x91" * 4000)
@example(b"\x94\x01\xc4\x08callcall" + b"\x91" * 4000)
@example(b"\x00" * (DATAGRAM_BYTES_MAX + 1))
def test_any_bytes_decode_or_raise_decode_error(data: bytes) -> None:
    with suppress(DecodeError):
        decode(data)


@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages_decode_or_raise_decode_error(message: Message, data: st.DataObject) -> None:
    wire = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        decode(bytes(wire[: data.draw(st.integers(0, len(wire)))]))


@given(st.sampled_from(MESSAGES))
def test_what_a_later_release_adds_is_passed_over(message: Message) -> None:
    assert decode(msgspec.msgpack.encode([*msgspec.msgpack.decode(encode(message)), "more", {"and": 1}])) == message


@pytest.mark.parametrize(
    "fields",
    [
        [0, CALL],
        [0, b"short", OWN],
        [0, CALL, b"\x0a\x00\x00\x01\x00\x00"],
        [0, CALL, b"\x00\x00\x00\x00\x10\x00"],
        [0, CALL, b"\xe0\x00\x00\x01\x10\x00"],
        [0, CALL, b"\xff\xff\xff\xff\x10\x00"],
        [0, CALL, b"1234567"],
        [1, CALL, OWN, KEY[1:]],
        [3, CALL, OWN, KEY, -1, b""],
        [3, CALL, OWN, KEY, 2**63, b""],
        [3, CALL, OWN, KEY, 1, b"v" * (HINT_BYTES_MAX + 1)],
        [3, CALL, OWN, KEY, 1, "text"],
        [9, CALL, OWN, [OWN] * (CONTACTS_MAX + 1)],
        [9, CALL, OWN, [b"1234567"]],
        [99, CALL, OWN],
        {"ping": 1},
    ],
)
def test_invalid_fields_are_refused(fields: object) -> None:
    with pytest.raises(DecodeError):
        decode(msgspec.msgpack.encode(fields))


@pytest.mark.parametrize("host", ["10.1.2.3", "2001:db8::1", "::1", "127.0.0.1"])
def test_an_address_carries_the_id(host: str) -> None:
    contact = Contact.at(host, 4250)
    assert unpack(pack(contact)) == contact
    assert unpack(pack(contact)).genuine
