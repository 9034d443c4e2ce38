"""What a root group and the runtime promise each other: the durable state of a member, and the calls between them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

import msgspec

from elf.overlay.group.effects import Save
from elf.overlay.group.messages import Entry, Kind, Place, Seat
from elf.overlay.ids import Contact


class Role(enum.Enum):
    """What a member is in its term."""

    FOLLOWER = "follower"
    TRIAL = "trial"
    CANDIDATE = "candidate"
    LEADER = "leader"


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """What a member finds again after a restart.

    `applied` and `seats` are part of what the runtime applied, in one transaction with it; term, vote and the entries
    after `applied` are what it was told to save.
    """

    term: int = 0
    vote: str = ""
    applied: Place = Place()
    seats: tuple[Seat, ...] = ()
    entries: tuple[Entry, ...] = ()

    def yields_to(self, term: int, applied: Place) -> bool:
        """Tell whether another member's copy, applied up to a place, may take the place of all this.

        Only the copy of a leader whom we have not outlived, and nothing that we hold durably is later: what we have
        acknowledged may be decided because of that, and must not be forgotten (Raft 5.4.1).

        Args:
            term: of the leader that told us to fetch it.
            applied: up to where the copy goes.
        """
        last = self.entries[-1].place if self.entries else self.applied
        return self.term <= term and last <= applied


@dataclass(frozen=True, slots=True)
class GroupView:
    """What a member knows of its group; `quorate`: it leads and hears a majority."""

    role: Role
    term: int
    leader: str
    seats: tuple[Seat, ...]
    quorate: bool


class GroupHandler(Protocol):
    """What a root group asks of the runtime. Exceptions are logged, and saving and applying are then tried again."""

    async def on_group_save(self, app: bytes, save: Save) -> None:
        """Make term, vote and entries durable, the entries in the place of all after `save.after`; then return."""
        ...

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        """Apply a decided entry and its place durably in one transaction, then return; ascending, one at a time.

        An entry at or below the place applied last is a repetition (we crashed before the answer): to be ignored.
        COMMAND: whole, however many parts it came in. SEATS: the members from here on. TERM: nothing but a place.
        """
        ...

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        """We lead, and everything decided before is applied; or we do not lead any more."""
        ...

    def on_group_behind(self, app: bytes, leader: Contact, term: int) -> None:
        """Fetch a copy of everything from the leader and open the group with it: the log does not reach back so far.

        Once the group is closed, see whether what is durable here may go for it (`GroupState.yields_to`).
        """
        ...

    def on_group_gone(self, app: bytes) -> None:
        """We are no member of the group any more: close it and forget the copy."""
        ...

    def is_group_over(self, app: bytes) -> bool:
        """Tell whether a group that we are no member of has ended for good: a member that slept through it asks."""
        ...
