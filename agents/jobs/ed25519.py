"""Signatures as texts: keys and signatures in base64, over fields of text (`elf.overlay.keys`). Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from elf.agents.errors import JobError
from elf.overlay import keys
from elf.overlay.keys import KEY_BYTES, SecretKey


def framed(fields: Iterable[str]) -> bytes:
    """Return the bytes that are signed for some fields, the first of which says what for."""
    purpose, *others = (field.encode("utf-8", "surrogatepass") for field in fields)
    return keys.message_of(purpose, *others)


def signature_of(secret: bytes, message: bytes) -> str:
    """Return the signature of a message with a secret key of `KEY_BYTES`, base64."""
    return _encoded(SecretKey(secret).sign(message))


def verifies(key: str, signature: str, message: bytes) -> bool:
    """Tell whether a signature of a message was made with the secret key of a public one; about 140 us."""
    try:
        return keys.verifies(read_key(key), message, base64.b64decode(signature, validate=True))
    except (JobError, binascii.Error, ValueError):
        return False


def public_key(secret: bytes) -> str:
    """Return the public key of a secret one, base64."""
    return _encoded(SecretKey(secret).public)


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
