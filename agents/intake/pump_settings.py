"""How one source is driven, and what that asks of time."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from elf.agents.host.clock import Doubt


@dataclasses.dataclass(frozen=True, kw_only=True)
class PumpSettings:
    """How one source is driven."""

    #: Its name.
    source: str
    #: The most that is read at a time.
    chunk_bytes: int
    #: Longest time between checkpoints while events flow.
    checkpoint_ms: int
    #: Files that were never read begin at their end.
    from_end: bool = False
    #: How far ahead of our clock an event may be; lines of later ones are rejected. None: as far as it likes.
    ahead_ms_max: int | None = None


class PumpClock(Protocol):
    """What a pump asks of time; `elf.agents.host.clock.Clock` is one."""

    def __call__(self) -> int:
        """Return the time of day in ms."""

    def ahead_ms(self) -> int:
        """Return how far that is ahead of the machine's clock, which was set back."""

    def advance_to(self, at_ms: int) -> None:
        """Show a time at least."""

    def doubt(self) -> Doubt:
        """Return what is known to be wrong with it."""

    def up_ms(self) -> int:
        """Return the time of a clock that nobody sets, to measure with; any origin."""
