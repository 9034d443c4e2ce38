"""What messages on a link are made of: the fields that several kinds share, each with its limits."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from elf.overlay.ids import ID_BYTES, parse_address

#: Largest number that counts something for ever: epochs, terms, positions, versions.
SERIAL_MAX = 1 << 62
ADDRESS_LENGTH_MAX = 280
AppId: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
AgentId: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Address: TypeAlias = Annotated[str, msgspec.Meta(min_length=3, max_length=ADDRESS_LENGTH_MAX)]
Serial: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=SERIAL_MAX)]
Interval: TypeAlias = Annotated[int, msgspec.Meta(ge=-SERIAL_MAX, le=SERIAL_MAX)]


class WireMessage(msgspec.Struct, frozen=True, array_like=True):
    """Base of all messages; arrays on the wire, tagged by a small number."""


def check_address(address: str | None) -> None:
    """Refuse an address that is none; None is allowed. Raises ValueError."""
    if address is not None:
        parse_address(address)
