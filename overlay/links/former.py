"""The greeting of release 0.1, which offers no range: an agent of it is called and answered as it knows. Pure.

It is spoken on a path of its own, so that nobody has to guess, and goes with the release after this one: releases speak
with the one before them. Same interface as `elf.overlay.links.handshake`; what is said there of proofs holds here, but
that they cover what was understood, not what was sent.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError, UnsupportedVersionError
from elf.overlay.fields import Address, AgentId
from elf.overlay.ids import parse_address
from elf.overlay.links.handshake import Hello
from elf.overlay.links.offer import Offer, agreed
from elf.overlay.links.proofs import Nonce, Proof, Tag, prove, read, seal, unseal, verify
from elf.overlay.settings import LEASE_MS_MAX

#: What that release speaks, and says in its greeting.
VERSION = 3
OFFER = Offer(VERSION, VERSION, (), "0.1")


class _Hello(msgspec.Struct, frozen=True, array_like=True):
    version: int
    address: Address
    agent: AgentId
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    losses: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    nonce: Nonce
    lease_ms: Annotated[int, msgspec.Meta(ge=1, le=LEASE_MS_MAX)]

    def __post_init__(self) -> None:
        parse_address(self.address)


class _Greeting(msgspec.Struct, frozen=True, array_like=True, tag="elf"):
    version: int
    nonce: Nonce
    is_sealed: bool
    box: Annotated[bytes, msgspec.Meta(max_length=1_024)]
    proof: Tag = b""


class Caller:
    """As `elf.overlay.links.handshake.Caller`."""

    def __init__(self, secret: Secret | None, mine: Hello) -> None:
        agreed(mine.offer, OFFER)
        self._secret = secret
        self._mine = _former(mine)
        self.greeting = msgspec.msgpack.encode(_wrap(secret, self._mine, b"caller"))

    def welcomed(self, data: bytes) -> tuple[Hello, bytes]:
        """As `elf.overlay.links.handshake.Caller.welcomed`."""
        greeting = read(data, _Greeting, "a greeting")
        theirs = _unwrap(self._secret, greeting, b"answerer" + self._mine.nonce)
        said = self._mine, theirs
        verify(self._secret, said, b"answerer", greeting.proof)
        return _today(theirs), msgspec.msgpack.encode(Proof(prove(self._secret, said, b"caller")))


class Answerer:
    """As `elf.overlay.links.handshake.Answerer`."""

    def __init__(self, secret: Secret | None) -> None:
        self._secret = secret
        self._said: tuple[_Hello, _Hello] | None = None

    def called(self, data: bytes) -> Hello:
        """As `elf.overlay.links.handshake.Answerer.called`."""
        return _today(_unwrap(self._secret, read(data, _Greeting, "a greeting"), b"caller"))

    def welcome(self, theirs: Hello, mine: Hello) -> bytes:
        """As `elf.overlay.links.handshake.Answerer.welcome`."""
        agreed(mine.offer, OFFER)
        self._said = caller, answerer = _former(theirs), _former(mine)
        greeting = _wrap(self._secret, answerer, b"answerer" + caller.nonce)
        proof = prove(self._secret, self._said, b"answerer")
        return msgspec.msgpack.encode(msgspec.structs.replace(greeting, proof=proof))

    def proven(self, data: bytes) -> None:
        """As `elf.overlay.links.handshake.Answerer.proven`."""
        proof = read(data, Proof, "a proof").proof
        if self._said is None:
            raise DecodeError("a proof before a greeting")
        verify(self._secret, self._said, b"caller", proof)


def _former(hello: Hello) -> _Hello:
    return _Hello(VERSION, hello.address, hello.agent, hello.incarnation, hello.losses, hello.nonce, hello.lease_ms)


def _today(hello: _Hello) -> Hello:
    return Hello(hello.address, hello.agent, hello.incarnation, hello.losses, hello.nonce, hello.lease_ms, OFFER)


def _wrap(secret: Secret | None, mine: _Hello, role: bytes) -> _Greeting:
    box = seal(secret, msgspec.msgpack.encode(mine), role + mine.nonce)
    return _Greeting(mine.version, mine.nonce, secret is not None, box)


def _unwrap(secret: Secret | None, greeting: _Greeting, role: bytes) -> _Hello:
    if greeting.version != VERSION:
        raise UnsupportedVersionError(f"a greeting of version {greeting.version}; release 0.1 speaks {VERSION}")
    box = unseal(secret, greeting.box, greeting.is_sealed, role + greeting.nonce)
    hello = read(box, _Hello, "a greeting with a name")
    if (hello.version, hello.nonce) != (greeting.version, greeting.nonce):
        raise DecodeError("a greeting that contradicts itself")
    return hello
