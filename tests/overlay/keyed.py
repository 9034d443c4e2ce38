"""Keys of agents in tests: each has the one that follows from its name, and hears others' from announcements alone."""

from __future__ import annotations

import functools
import hashlib

from elf.overlay.contract import Record
from elf.overlay.keys import SecretKey


@functools.cache
def key_of(agent: str) -> SecretKey:
    """Return the key of an agent."""
    return SecretKey(hashlib.blake2b(agent.encode(), digest_size=32).digest())


class Keyed:
    """The `Trust` of an agent."""

    def __init__(self, agent: str, known: dict[str, bytes] | None = None) -> None:
        self._key = key_of(agent)
        self._known = known or {}
        self.public = self._key.public

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def key_of(self, agent: str) -> bytes | None:
        return self._known.get(agent)

    def may_have_ended(self, app: bytes, interval: int) -> bool:
        return interval < 1 << 32

    def admits(self, app: bytes, record: Record) -> bool:
        return True
