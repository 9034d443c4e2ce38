"""Who is at the other end of a link: three messages before the first frame.

Owns the greeting and its proofs; pure. Caller: its Hello. Answerer: its Hello and a proof over both. Caller: a proof
over both. With a cluster secret, Hellos are sealed and proofs are keyed BLAKE2b tags, each with the fresh nonces and
the role in its context: none can be replayed or reflected, and who lacks the secret learns neither names nor addresses.
They show that a peer belongs to the cluster, not which agent it is (OVERLAY 1.2 a).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from elf.overlay.decoding import read_msgpack
from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError, UnsupportedVersionError
from elf.overlay.fields import Address, AgentId
from elf.overlay.ids import Contact, parse_address
from elf.overlay.links.wire import VERSION, Framer
from elf.overlay.settings import LEASE_MS_MAX

#: A greeting is a few hundred bytes; more is no greeting.
GREETING_BYTES_MAX = 2_048
NONCE_BYTES = 16
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """One end of a link introduces itself.

    `incarnation` is random for each start of the process, and `losses` counts how often it lost all links to the
    receiver: together they tell whether an older link of this peer still means anything. `lease_ms` says how long the
    sender may be silent: agents need not be set alike, a link lasts as long as the more patient end of it says.
    """

    version: int
    address: Address
    agent: AgentId
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    losses: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    nonce: Nonce
    lease_ms: Annotated[int, msgspec.Meta(ge=1, le=LEASE_MS_MAX)]

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
    """A Hello on its way: `box` holds it, sealed if there is a secret. `proof` comes from the answerer only."""

    version: int
    nonce: Nonce
    is_sealed: bool
    box: Annotated[bytes, msgspec.Meta(max_length=1_024)]
    proof: Annotated[bytes, msgspec.Meta(max_length=64)] = b""


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """The caller's proof, last message of the greeting."""

    proof: Annotated[bytes, msgspec.Meta(max_length=64)]


def greet(secret: Secret | None, mine: Hello) -> bytes:
    """Return the caller's first message."""
    return msgspec.msgpack.encode(_wrap(secret, mine, b"caller"))


def read_hello(secret: Secret | None, data: bytes) -> Hello:
    """Read a caller's greeting.

    Raises:
        DecodeError: the bytes are none, or sealed with another secret.
        UnsupportedVersionError: the peer speaks another version.
    """
    return _unwrap(secret, _read(data), b"caller")


def answer(secret: Secret | None, theirs: Hello, mine: Hello) -> bytes:
    """Return the answerer's message."""
    greeting = _wrap(secret, mine, b"answerer" + theirs.nonce)
    proof = _prove(secret, theirs, mine, b"answerer")
    return msgspec.msgpack.encode(msgspec.structs.replace(greeting, proof=proof))


def read_answer(secret: Secret | None, mine: Hello, data: bytes) -> tuple[Hello, bytes]:
    """Check the answer to our greeting; returns the other end's Hello and the message to send in return.

    Raises:
        DecodeError: no answer, or without a valid proof.
        UnsupportedVersionError: the peer speaks another version.
    """
    greeting = _read(data)
    theirs = _unwrap(secret, greeting, b"answerer" + mine.nonce)
    _verify(secret, mine, theirs, b"answerer", greeting.proof)
    return theirs, msgspec.msgpack.encode(Proof(_prove(secret, mine, theirs, b"caller")))


def check_proof(secret: Secret | None, theirs: Hello, mine: Hello, data: bytes) -> None:
    """Check the caller's proof.

    Raises:
        DecodeError: it is none, or not valid.
    """
    try:
        proof = read_msgpack(_capped(data), Proof)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not a proof: {error}") from error
    _verify(secret, theirs, mine, b"caller", proof.proof)


def framer(secret: Secret | None, caller: Hello, answerer: Hello, *, calling: bool) -> Framer:
    """Return the framer of one end; tags are bound to this link and to their direction."""
    nonces = caller.nonce + answerer.nonce
    down, up = b"elf frame to caller" + nonces, b"elf frame to answerer" + nonces
    return Framer(secret, up, down) if calling else Framer(secret, down, up)


def _wrap(secret: Secret | None, mine: Hello, role: bytes) -> Greeting:
    box = msgspec.msgpack.encode(mine)
    if secret is not None:
        box = secret.seal(box, b"elf hello of " + role + mine.nonce)
    return Greeting(mine.version, mine.nonce, secret is not None, box)


def _read(data: bytes) -> Greeting:
    try:
        greeting = read_msgpack(_capped(data), Greeting)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not a greeting: {error}") from error
    if greeting.version != VERSION:
        raise UnsupportedVersionError(f"a greeting of version {greeting.version}; this agent speaks {VERSION}")
    return greeting


def _capped(data: bytes) -> bytes:
    if len(data) > GREETING_BYTES_MAX:
        raise DecodeError(f"a greeting of {len(data)} bytes is over the limit of {GREETING_BYTES_MAX}")
    return data


def _unwrap(secret: Secret | None, greeting: Greeting, role: bytes) -> Hello:
    box: bytes | None = greeting.box
    if secret is None and greeting.is_sealed:
        raise DecodeError("the peer has a cluster secret and we have none; set overlay.secret_file")
    if secret is not None:
        box = secret.unseal(greeting.box, b"elf hello of " + role + greeting.nonce) if greeting.is_sealed else None
        if box is None:
            raise DecodeError("the peer does not prove that it knows the cluster secret")
    try:
        hello = read_msgpack(box or b"", Hello)
    except msgspec.DecodeError as error:
        raise DecodeError(f"a greeting without a name: {error}") from error
    if (hello.version, hello.nonce) != (greeting.version, greeting.nonce):
        raise DecodeError("a greeting that contradicts itself")
    return hello


def _prove(secret: Secret | None, caller: Hello, answerer: Hello, role: bytes) -> bytes:
    if secret is None:
        return b""
    return secret.tag(msgspec.msgpack.encode((caller, answerer)), b"elf link " + role)


def _verify(secret: Secret | None, caller: Hello, answerer: Hello, role: bytes, proof: bytes) -> None:
    if secret is None:
        if proof:
            raise DecodeError("the peer has a cluster secret and we have none; set overlay.secret_file")
    elif not secret.verify(msgspec.msgpack.encode((caller, answerer)), b"elf link " + role, proof):
        raise DecodeError("the peer does not prove that it knows the cluster secret")
