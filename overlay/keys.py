"""Keys and signatures (Ed25519, RFC 8032), and the names of agents that follow from their keys. Pure.

A signature is of a purpose and fields, each with its length before it, so none passes for one of anything else. Signing
takes some 45 us, verifying 140; the library costs a process 7 MB, so it is loaded with the first key.
"""

from __future__ import annotations

import functools
import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_BYTES = 32
SIGNATURE_BYTES = 64
#: Public keys kept ready at a time: more agents than one hears of in a minute.
READY_MAX = 4_096
#: Signatures remembered, at some 500 B: a claim comes again over each new edge.
CHECKED_MAX = 2_048


class SecretKey:
    """What an agent, or a creator of jobs, signs with.

    Args:
        secret: `KEY_BYTES` that nobody else knows.
    """

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._private: Ed25519PrivateKey = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the `SIGNATURE_BYTES` of a message."""
        return self._private.sign(message)


@functools.lru_cache(maxsize=CHECKED_MAX)
def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether a message was signed with the key of this public one; what comes again soon costs nothing."""
    return verifies(public, message, signature)


def verifies(public: bytes, message: bytes, signature: bytes) -> bool:
    """Tell the same of a message that is too large to be remembered."""
    from cryptography.exceptions import InvalidSignature

    try:
        _ready(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def name_of(public: bytes) -> str:
    """Return the id of an agent that was made with this key: who has another key can find none with the same id."""
    return hashlib.blake2b(public, digest_size=8, person=b"elf agent id").hexdigest()


def new_identity(rng: random.Random) -> tuple[str, bytes]:
    """Draw the key of a new agent; returns its id, and the secret."""
    secret = rng.randbytes(KEY_BYTES)
    return name_of(SecretKey(secret).public), secret


def message_of(purpose: bytes, *fields: bytes) -> bytes:
    """Return what is signed for a purpose: it and the fields, which can be moved into no other ones."""
    return b"".join(len(field).to_bytes(8, "big") + field for field in (purpose, *fields))


@functools.lru_cache(maxsize=READY_MAX)
def _ready(public: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public)
