"""How one source is driven, and what that asks of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from elf.agents.host.clock import Doubt
from elf.agents.intake.decoder import Decoder
from elf.agents.intake.recognition import Recognition


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """What the settings say of how one source is read; another one may take its place while it is."""

    settings: PumpSettings
    #: Absolute or relative paths and globs, its spool's among them.
    patterns: Sequence[str]
    #: How its lines become events, or what finds that out; the latter alone until it has.
    decoder: Decoder | None
    recognition: Recognition | None
    #: Events that its archive holds in memory at most.
    archive_rows_max: int
    #: Whether its spool may keep what was read.
    lingers: bool


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
