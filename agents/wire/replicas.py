"""What an agent asks its neighbours to keep for it, and gets back; the base of all questions between agents."""

from __future__ import annotations

from typing import Annotated

import msgspec

from elf.overlay.contract import NEVER
from elf.overlay.ids import ID_BYTES
from elf.overlay.messages import Word


class Request(msgspec.Struct, frozen=True, tag_field="ask"):
    """The base of all questions."""


class Keep(Request, frozen=True, tag="keep"):
    """Hold a replica of a sealed snapshot and answer for its agent if that does not; True if it is held.

    It has all data of that agent with since < interval <= through.
    """

    tree: Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    since: int
    through: int
    payload: bytes | None
    #: What the agent has said of it, so that it can be handed up in its name; None from releases without keys.
    word: Word | None = None

    def __post_init__(self) -> None:
        if not NEVER <= self.since < self.through < -NEVER:
            raise ValueError(f"since = {self.since} must be below through = {self.through}")


class KeepCheckpoint(Request, frozen=True, tag="keep checkpoint"):
    """Hold the newest checkpoint of one source of the agent at an address; True if it is on disk.

    `number` rises with each checkpoint of the agent; an empty `body` says that there is nothing to be held any more.
    """

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    address: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    body: bytes


class Recall(Request, frozen=True, tag="recall"):
    """Give back the `KeepCheckpoint` of the agent that was at an address; None if there is none."""

    source: str
    address: str
