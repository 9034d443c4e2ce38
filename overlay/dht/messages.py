"""What agents say to each other over UDP: eight small msgpack arrays, decoded and validated by msgspec.

Owns the wire form of a call and its reply; authentication is `auth`, timing is `protocol`. An agent is named by its
packed address alone (6 bytes, or 18 for IPv6): its id is the hash of that address, so no message can lie about an id,
and twenty contacts fit one unfragmented datagram. `decode` raises nothing but `DecodeError`, for any bytes. What a
later release adds comes at the end of an array, and is passed over here.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Annotated

import msgspec

from elf.overlay.errors import DecodeError
from elf.overlay.ids import ID_BYTES, Contact

DATAGRAM_BYTES_MAX = 8192
HINT_BYTES_MAX = 4096
#: Contacts in one reply: bounds what a hostile reply can make us try; also the largest usable k.
CONTACTS_MAX = 64
CALL_BYTES = 8

CallId = Annotated[bytes, msgspec.Meta(min_length=CALL_BYTES, max_length=CALL_BYTES)]
Id = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Address = Annotated[bytes, msgspec.Meta(min_length=6, max_length=18)]
Version = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Value = Annotated[bytes, msgspec.Meta(max_length=HINT_BYTES_MAX)]


class _Message(msgspec.Struct, frozen=True, array_like=True):
    call: CallId
    sender: Address


class Ping(_Message, frozen=True, tag=0):
    """Are you there?"""


class Find(_Message, frozen=True, tag=1):
    """Which contacts do you know that are nearest to `target`?"""

    target: Id


class Fetch(_Message, frozen=True, tag=2):
    """Which hint do you hold under `key`?"""

    key: Id


class Store(_Message, frozen=True, tag=3):
    """Hold this hint, unless you have a newer one."""

    key: Id
    version: Version
    value: Value


class Pong(_Message, frozen=True, tag=8):
    """Reply to `Ping`."""


class Found(_Message, frozen=True, tag=9):
    """Reply to `Find`: packed addresses, nearest first."""

    addresses: Annotated[tuple[Address, ...], msgspec.Meta(max_length=CONTACTS_MAX)]


class Fetched(_Message, frozen=True, tag=10):
    """Reply to `Fetch`; `value` is None when there is no such hint."""

    version: Version
    value: Value | None


class Stored(_Message, frozen=True, tag=11):
    """Reply to `Store`: whether it was taken."""

    taken: bool


Request = Ping | Find | Fetch | Store
Reply = Pong | Found | Fetched | Stored
Message = Request | Reply

REPLY_TO: dict[type[Request], type[Reply]] = {Ping: Pong, Find: Found, Fetch: Fetched, Store: Stored}

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the wire form of a message."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Return the message in `data`, every field and every address in it valid.

    Raises:
        DecodeError: the sender's fault; for any bytes, nothing else is raised.
    """
    if len(data) > DATAGRAM_BYTES_MAX:
        raise DecodeError(f"a datagram of {len(data)} bytes; at most {DATAGRAM_BYTES_MAX} are taken")
    try:
        message = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DecodeError(str(error)) from None
    unpack(message.sender)
    if isinstance(message, Found):
        for address in message.addresses:
            unpack(address)
    return message


@lru_cache(maxsize=16384)
def pack(contact: Contact) -> bytes:
    """Return the packed address of a contact: IP address and port in network order."""
    return ipaddress.ip_address(contact.host).packed + contact.port.to_bytes(2)


@lru_cache(maxsize=16384)
def unpack(address: bytes) -> Contact:
    """Return the contact at a packed address; its id follows from the address.

    Raises:
        DecodeError: not an address where one agent can be reached.
    """
    if len(address) not in (6, 18):
        raise DecodeError(f"an address of {len(address)} bytes; 6 (IPv4) or 18 (IPv6) are right")
    ip, port = ipaddress.ip_address(address[:-2]), int.from_bytes(address[-2:])
    if port == 0 or ip.is_multicast or ip.is_unspecified or address[:-2] == b"\xff\xff\xff\xff":
        raise DecodeError(f"{ip} port {port} is not the address of one agent")
    return Contact.at(str(ip), port)
