"""What the creator of a job has ordered, signed with the creator's key. Pure.

A job that was published with such an order belongs to its key: what is done with it later needs an order of the same
key, and every agent looks (`elf.agents.wire.ownership`). An order is of one publication and later than the one before,
so that none can be played again. It holds the definition that it is about without what agents find out themselves: the
types of columns, and how long intervals are.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from elf.agents.jobs.definition import OPTIONS_DEFAULT, Definition
from elf.agents.jobs.ed25519 import framed, public_key, signature_of, verifies

_PURPOSE = "elf order 1"
#: The header of a request over HTTP that has an order, as JSON.
ORDER_HEADER = "Elf-Order"

#: What can be ordered: versions of a job, its end for good, and what is asked of a job that goes on.
Versioned: TypeAlias = Literal["publish", "update", "rollback", "reset", "pause", "resume", "stop"]
What: TypeAlias = Versioned | Literal["end", "leap", "retire", "load", "purge"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One order of a creator, or of an operator.

    Attributes:
        key: the public key that it is signed with, base64.
        what: is ordered.
        job: `creator/name`; of a purge, what is purged.
        publication: of the job; empty where there is none.
        about: the digest of the definition that the job has then (`digest_of`), or what else it is about.
        keep_ms: of a stop: how long it can be undone.
        made_ms: when; later than any order of the job before.
        signature: over all of this, base64.
    """

    key: Annotated[str, msgspec.Meta(max_length=64)]
    what: What
    job: Annotated[str, msgspec.Meta(max_length=200)]
    made_ms: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    publication: Annotated[str, msgspec.Meta(max_length=64)] = ""
    about: Annotated[str, msgspec.Meta(max_length=200)] = ""
    keep_ms: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    signature: Annotated[str, msgspec.Meta(max_length=128)] = ""

    def signed(self, secret: bytes) -> Order:
        """Return it with a secret key's signature, and its public key."""
        order = replace(self, key=public_key(secret))
        return replace(order, signature=signature_of(secret, order.message))

    @property
    def message(self) -> bytes:
        """The bytes that are signed."""
        numbers = str(self.keep_ms), str(self.made_ms)
        return framed([_PURPOSE, self.key, self.what, self.job, self.publication, self.about, *numbers])

    @property
    def is_signed(self) -> bool:
        """Whether it is signed with the key that it names."""
        return _is_signed(self)


@functools.lru_cache(maxsize=4_096)
def _is_signed(order: Order) -> bool:
    """Verify once: records come again and again."""
    return verifies(order.key, order.signature, order.message)


def digest_of(definition: Definition) -> str:
    """Return what tells a definition from others of its creator's, in hex.

    Of options, those that are not as usual: a later release has more of them.
    """
    usual, options = msgspec.to_builtins(OPTIONS_DEFAULT), msgspec.to_builtins(definition.options)
    chosen = {name: value for name, value in options.items() if value != usual[name] and name != "interval_ms"}
    brought = [
        [each.name, *each.args, each.returns, each.strict, each.source, each.key] for each in definition.functions
    ]
    told = [definition.creator, definition.name, definition.text, sorted(chosen.items()), brought]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
