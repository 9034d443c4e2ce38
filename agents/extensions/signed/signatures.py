"""Signatures of functions: what is signed, with Ed25519 (RFC 8032). Pure.

What is signed says all that decides what the function computes and for whom: creator, job, name, types and source, each
with its length before it, so that no text can be moved from one field into the next; and the purpose, so that no other
signature with the same key passes for one of a function.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from msgspec.structs import replace

from elf.agents.errors import JobError
from elf.agents.language.own_functions import OwnFunction
from elf.agents.language.types import SqlType

_PURPOSE = b"elf signed function 1"
KEY_BYTES = 32


def message_of(creator: str, job: str, function: OwnFunction) -> bytes:
    """Return the bytes that are signed."""
    args = [kind.value for kind in function.types]
    returns = SqlType.parse(function.returns).value
    fields = [creator, job, function.name, str(len(args)), *args, returns, str(function.strict)]
    encoded = [_PURPOSE, *(field.encode() for field in fields), function.source.encode()]
    return b"".join(len(field).to_bytes(8, "big") + field for field in encoded)


def sign(creator: str, job: str, functions: Sequence[OwnFunction], secret: bytes) -> tuple[OwnFunction, ...]:
    """Return functions of a job signed with a secret key of `KEY_BYTES`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # few agents and jobs need it

    private = Ed25519PrivateKey.from_private_bytes(secret)
    key = public_key(secret)
    return tuple(
        replace(each, key=key, signature=_encoded(private.sign(message_of(creator, job, each)))) for each in functions
    )


def is_signed(creator: str, job: str, function: OwnFunction) -> bool:
    """Tell whether a function carries a signature with the key that it names. Whose key that is, is not said here."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(read_key(function.key))
        signature = base64.b64decode(function.signature, validate=True)
        public.verify(signature, message_of(creator, job, function))
    except (InvalidSignature, JobError, binascii.Error, ValueError):
        return False
    return True


def public_key(secret: bytes) -> str:
    """Return the public key of a secret one, base64."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _encoded(Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw())


def read_key(text: str) -> bytes:
    """Read a public key.

    Raises:
        JobError: it is none.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise JobError(f"{text!r} is no public key: {KEY_BYTES} bytes in base64, as `elf keygen --signing` prints it")
    return raw


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
