"""Signatures with Ed25519 (RFC 8032) over fields of text. Pure.

Each field is signed with its length before it, so that no text can be moved from one into the next; the first one says
what for, so that no signature passes for one of another purpose with the same key.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from elf.agents.errors import JobError

KEY_BYTES = 32


def framed(fields: Iterable[str]) -> bytes:
    """Return the bytes that are signed for some fields."""
    encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
    return b"".join(len(field).to_bytes(8, "big") + field for field in encoded)


def signature_of(secret: bytes, message: bytes) -> str:
    """Return the signature of a message with a secret key of `KEY_BYTES`, base64."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # few agents and jobs need it

    return _encoded(Ed25519PrivateKey.from_private_bytes(secret).sign(message))


def verifies(key: str, signature: str, message: bytes) -> bool:
    """Tell whether a signature of a message was made with the secret key of a public one; about 100 us."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(read_key(key))
        public.verify(base64.b64decode(signature, validate=True), message)
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
