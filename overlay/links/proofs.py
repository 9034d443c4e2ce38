"""What greetings are made of: bounded messages, a box for members only, and proofs that one has the secret. Pure."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec

from elf.overlay.decoding import read_msgpack
from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError

#: A greeting is a few hundred bytes; more than this is no greeting.
GREETING_BYTES_MAX = 8_192
NONCE_BYTES = 16
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Box: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=GREETING_BYTES_MAX)]
Tag: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=64)]
T = TypeVar("T")


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """The caller's proof, last message of the greeting."""

    proof: Tag


def read(data: bytes, kind: type[T], what: str) -> T:
    """Return a message of the greeting.

    Raises:
        DecodeError: it is none, or too long; the text names it as `what`.
    """
    if len(data) > GREETING_BYTES_MAX:
        raise DecodeError(f"{what} of {len(data)} bytes is over the limit of {GREETING_BYTES_MAX}")
    try:
        return read_msgpack(data, kind)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not {what}: {error}") from error


def seal(secret: Secret | None, data: bytes, role: bytes) -> bytes:
    """Return a box with some bytes, readable for members only if there is a secret; `role` must never serve twice."""
    return data if secret is None else secret.seal(data, b"elf hello of " + role)


def unseal(secret: Secret | None, box: bytes, is_sealed: bool, role: bytes) -> bytes:
    """Return what is in a box.

    Raises:
        DecodeError: it was sealed with another secret, or only one side has a secret.
    """
    if secret is None:
        if is_sealed:
            raise DecodeError("the peer has a cluster secret and we have none; set overlay.secret_file")
        return box
    data = secret.unseal(box, b"elf hello of " + role) if is_sealed else None
    if data is None:
        raise DecodeError("the peer does not prove that it knows the cluster secret")
    return data


def prove(secret: Secret | None, said: object, role: bytes) -> bytes:
    """Return the proof over what both sides have said; empty without a secret."""
    return b"" if secret is None else secret.tag(msgspec.msgpack.encode(said), b"elf link " + role)


def verify(secret: Secret | None, said: object, role: bytes, proof: bytes) -> None:
    """Check what `prove` has made at the other end.

    Raises:
        DecodeError: it was made over something else, or with another secret.
    """
    if secret is None:
        if proof:
            raise DecodeError("the peer has a cluster secret and we have none; set overlay.secret_file")
    elif not secret.verify(msgspec.msgpack.encode(said), b"elf link " + role, proof):
        raise DecodeError("the peer does not prove that it knows the cluster secret")
