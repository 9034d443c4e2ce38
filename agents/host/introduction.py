"""Asking an agent who it is: whoever answers at an address may be another one than was there before."""

from __future__ import annotations

import msgspec

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.wire.agents import Introduce
from elf.agents.wire.records import Member, contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode


async def who_is_at(node: OverlayNode, address: str, within_ms: int) -> Member:
    """Return the agent that runs at an address.

    Raises:
        UnavailableError: nobody says so in time.
    """
    try:
        answer = await node.ask(contact_at(address), encode(Introduce()), within_ms)
        return msgspec.convert(value_of(answer), Member)
    except (OverlayError, ElfError, msgspec.ValidationError, ValueError) as error:
        raise UnavailableError(f"the agent at {address} does not answer: {error}") from None
