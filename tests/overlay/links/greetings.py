"""Agents that greet by hand."""

from __future__ import annotations

from elf.overlay.dht.auth import Secret
from elf.overlay.links.handshake import Answerer, Caller, Hello
from elf.overlay.links.offer import Offer
from elf.overlay.links.wire import OLDEST_VERSION, VERSION

SPOKEN = Offer(OLDEST_VERSION, VERSION, release="0.0")


def hello(
    address: str, agent: str = "stranger", nonce: bytes = b"n" * 16, lease_ms: int = 3_000, offer: Offer = SPOKEN
) -> Hello:
    return Hello(address, agent, 1, 0, nonce, lease_ms, offer)


def greeting(secret: Secret | None, mine: Hello) -> bytes:
    """Return what a caller says first."""
    return Caller(secret, mine).greeting


def welcome(secret: Secret | None, called: bytes, mine: Hello) -> bytes:
    """Return what the other end answers."""
    answerer = Answerer(secret)
    return answerer.welcome(answerer.called(called), mine)
