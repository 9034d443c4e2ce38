"""Signatures of functions: what is signed, with Ed25519 (`elf.agents.jobs.ed25519`). Pure.

What is signed says all that decides what the function computes and for whom: creator, job, name, types and source.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elf.agents.jobs.ed25519 import framed, public_key, read_key, signature_of, verifies
from elf.agents.language.own_functions import OwnFunction
from elf.agents.language.types import SqlType
from elf.overlay.keys import KEY_BYTES

__all__ = ["KEY_BYTES", "is_signed", "message_of", "public_key", "read_key", "sign"]

_PURPOSE = "elf signed function 1"


def message_of(creator: str, job: str, function: OwnFunction) -> bytes:
    """Return the bytes that are signed."""
    args = [kind.value for kind in function.types]
    returns = SqlType.parse(function.returns).value
    head = [_PURPOSE, creator, job, function.name, str(len(args)), *args, returns, str(function.strict)]
    return framed([*head, function.source])


def sign(creator: str, job: str, functions: Sequence[OwnFunction], secret: bytes) -> tuple[OwnFunction, ...]:
    """Return functions of a job signed with a secret key of `KEY_BYTES`."""
    key = public_key(secret)
    return tuple(
        replace(each, key=key, signature=signature_of(secret, message_of(creator, job, each))) for each in functions
    )


def is_signed(creator: str, job: str, function: OwnFunction) -> bool:
    """Tell whether a function carries a signature with the key that it names. Whose key that is, is not said here."""
    try:
        message = message_of(creator, job, function)
    except ValueError:
        return False
    return verifies(function.key, function.signature, message)
