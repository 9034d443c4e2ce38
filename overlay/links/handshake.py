"""Who is at the other end of a link, and what it speaks: three messages before the first frame.

Owns the greeting and its proofs; pure. Caller: its `Hello`. Answerer: its own, and a proof over both. Caller: a proof
over both. With a cluster secret, what tells who somebody is, is sealed, and proofs are keyed BLAKE2b tags over all that
both have said, each with the fresh nonces and the role in its context: none can be replayed or reflected, nobody in
between lowers what is offered, and who lacks the secret learns neither names nor addresses. They show that a peer
belongs to the cluster, not which agent it is (OVERLAY 1.2 a). Between agents whose certificates name their places TLS
shows that, and there are neither seals nor proofs.

The form of these messages never changes: releases that have no version in common learn that from them. What is added
comes at the end of an array, and is passed over by who does not know it; proofs cover it as it was sent.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError
from elf.overlay.fields import Address, AgentId
from elf.overlay.ids import Contact, parse_address
from elf.overlay.links.offer import Features, Offer, Version, Word, agreed
from elf.overlay.links.proofs import Box, Nonce, Proof, Tag, prove, read, seal, unseal, verify
from elf.overlay.links.wire import Framer
from elf.overlay.settings import LEASE_MS_MAX

#: Of the greeting's form; there is no other.
FORM = 1


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """One end of a link introduces itself.

    `incarnation` is random for each start of the process, and `losses` counts how often it lost all links to the
    receiver: together they tell whether an older link of this peer still means anything. `lease_ms` says how long the
    sender may be silent: agents need not be set alike, a link lasts as long as the more patient end of it says.
    """

    address: Address
    agent: AgentId
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    losses: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    nonce: Nonce
    lease_ms: Annotated[int, msgspec.Meta(ge=1, le=LEASE_MS_MAX)]
    offer: Offer

    def __post_init__(self) -> None:
        parse_address(self.address)

    @property
    def contact(self) -> Contact:
        """Where the sender is reached; its id follows from the address, so it cannot be chosen."""
        return Contact.at(*parse_address(self.address))

    @property
    def session(self) -> tuple[int, int]:
        """Changes whenever the sender has forgotten the edges it had with us."""
        return self.incarnation, self.losses


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag="elf"):
    """A `Hello` on its way: `box` holds it, sealed if there is a secret."""

    form: int
    oldest: Version
    newest: Version
    features: Features
    release: Word
    nonce: Nonce
    is_sealed: bool
    box: Box


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """The answerer's message: its greeting, and the proof that it has the caller's and the secret."""

    greeting: Box
    proof: Tag


class Caller:
    """The end of a link that opens it.

    Args:
        secret: the cluster's, or None.
        mine: what we say of ourselves, its nonce fresh.
    """

    def __init__(self, secret: Secret | None, mine: Hello) -> None:
        self._secret = secret
        self._mine = mine
        #: Our first message.
        self.greeting = _wrap(secret, mine, b"caller")

    def welcomed(self, data: bytes) -> tuple[Hello, bytes]:
        """Check the answer to our greeting; returns the other end's Hello and the message to send in return.

        Raises:
            DecodeError: no answer, or without a valid proof.
            UnsupportedVersionError: the peer speaks no version that we do.
        """
        welcome = read(data, Welcome, "an answer to a greeting")
        theirs = _unwrap(self._secret, welcome.greeting, b"answerer" + self._mine.nonce)
        said = self.greeting, welcome.greeting
        verify(self._secret, said, b"answerer", welcome.proof)
        agreed(self._mine.offer, theirs.offer)
        return theirs, msgspec.msgpack.encode(Proof(prove(self._secret, said, b"caller")))


class Answerer:
    """The end of a link that was called; it knows nothing of the caller before `called`.

    Args:
        secret: the cluster's, or None.
    """

    def __init__(self, secret: Secret | None) -> None:
        self._secret = secret
        self._said = b"", b""

    def called(self, data: bytes) -> Hello:
        """Read a caller's greeting.

        Raises:
            DecodeError: the bytes are none, or sealed with another secret.
        """
        theirs = _unwrap(self._secret, data, b"caller")
        self._said = data, b""
        return theirs

    def welcome(self, theirs: Hello, mine: Hello) -> bytes:
        """Return our message; who speaks no version that we do, learns so from it."""
        greeting = _wrap(self._secret, mine, b"answerer" + theirs.nonce)
        self._said = self._said[0], greeting
        return msgspec.msgpack.encode(Welcome(greeting, prove(self._secret, self._said, b"answerer")))

    def proven(self, data: bytes) -> None:
        """Check the caller's proof.

        Raises:
            DecodeError: it is none, or not valid.
        """
        verify(self._secret, self._said, b"caller", read(data, Proof, "a proof").proof)


def is_sealed(data: bytes) -> bool:
    """Tell whether a caller's greeting is sealed, and so to be opened with a secret.

    Raises:
        DecodeError: the bytes are no greeting.
    """
    return read(data, Greeting, "a greeting").is_sealed


def framer(secret: Secret | None, caller: Hello, answerer: Hello, *, calling: bool) -> Framer:
    """Return the framer of one end; tags are bound to this link and to their direction."""
    nonces = caller.nonce + answerer.nonce
    down, up = b"elf frame to caller" + nonces, b"elf frame to answerer" + nonces
    version = agreed(caller.offer, answerer.offer)
    return Framer(secret, up, down, version) if calling else Framer(secret, down, up, version)


def _wrap(secret: Secret | None, mine: Hello, role: bytes) -> bytes:
    box = seal(secret, msgspec.msgpack.encode(mine), role + mine.nonce)
    offer = mine.offer
    return msgspec.msgpack.encode(
        Greeting(FORM, offer.oldest, offer.newest, offer.features, offer.release, mine.nonce, secret is not None, box)
    )


def _unwrap(secret: Secret | None, data: bytes, role: bytes) -> Hello:
    greeting = read(data, Greeting, "a greeting")
    if greeting.form != FORM:
        raise DecodeError(f"not a greeting: of form {greeting.form}, and there is no other than {FORM}")
    box = unseal(secret, greeting.box, greeting.is_sealed, role + greeting.nonce)
    hello = read(box, Hello, "a greeting with a name")
    offer = Offer(greeting.oldest, greeting.newest, greeting.features, greeting.release)
    if (hello.offer, hello.nonce) != (offer, greeting.nonce):
        raise DecodeError("a greeting that contradicts itself")
    return hello
