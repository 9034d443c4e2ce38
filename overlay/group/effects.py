"""What the group machine asks of its shell; carried out one after the other, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from elf.overlay.group.messages import Entry, GroupMessage
from elf.overlay.ids import Contact


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to a member; a failure comes back as a lost link."""

    to: Contact
    message: GroupMessage


@dataclass(frozen=True, slots=True)
class Save:
    """Make term, vote and these entries durable, in the place of all after an index; the answer is `on_saved`."""

    term: int
    vote: str
    after: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """Let the runtime apply these entries durably, in order; the answer is `on_applied`."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Lead:
    """We lead and everything decided so far is applied, or we lead no more."""

    leads: bool


GroupEffect: TypeAlias = Tell | Save | Apply | Lead
