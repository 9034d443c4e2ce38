"""What a leader knows of the other members: how far each has the log, and who has been silent. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elf.overlay.group.log import GroupLog, quorum
from elf.overlay.group.messages import Entry, GroupAppended, Place, Seat

#: A message that was not answered is sent again after this long; the link says sooner if it broke.
RESEND_MS = 5_000


@dataclass(slots=True)
class Follower:
    """One member as its leader sees it; `through`: all up to this index is durable there, `after`: sent up to here."""

    seat: Seat
    after: int
    through: int = 0
    #: The last message has not been answered: nothing more is sent until it is.
    waiting: bool = False
    sent_ms: int = 0
    heard_ms: int = 0
    #: It needs a copy, which it fetches by itself; only asked now and then how far it is.
    behind: bool = False
    #: Its copy will go at least up to here, so that it needs what comes after.
    reserved: int = 0
    #: Its link broke, and it has not been heard of since.
    lost: bool = False

    def due(self, log: GroupLog, now_ms: int, *, show: bool) -> tuple[Place, tuple[Entry, ...]] | None:
        """Return what to send now, as a place and the entries after it; None for nothing. One message at a time."""
        if self.waiting and now_ms - self.sent_ms < RESEND_MS:
            return None
        after = log.place(self.after)
        if after is None:
            self.after = log.last.index
            after = log.last
        entries = () if self.behind else log.batch(after.index)
        if not entries and not show:
            return None
        self.waiting = True
        self.sent_ms = now_ms
        return after, entries

    def heard(self, answer: GroupAppended, log: GroupLog, now_ms: int) -> None:
        """Take an answer in."""
        self.heard_ms = now_ms
        self.waiting = False
        self.lost = False
        if answer.good:
            self.through = max(self.through, answer.through)
            self.after = max(self.after, answer.through)
            self.behind = False
            return
        self.behind = answer.through < log.start.index
        if self.behind and self.reserved < log.start.index:
            self.reserved = log.start.index
        self.after = log.last.index if self.behind else min(answer.through, log.last.index)


class Followers:
    """All members but the leader."""

    __slots__ = ("_me", "known")

    def __init__(self, me: str) -> None:
        self._me = me
        self.known: dict[str, Follower] = {}

    def follow(self, seats: Sequence[Seat], last: int, now_ms: int) -> None:
        """Keep exactly the members that there are now."""
        others = {seat.agent: seat for seat in seats if seat.agent != self._me}
        self.known = {agent: follower for agent, follower in self.known.items() if agent in others}
        for agent, seat in others.items():
            follower = self.known.setdefault(agent, Follower(seat, last, heard_ms=now_ms))
            follower.seat = seat

    def next_show_ms(self, now_ms: int, every_ms: int) -> int:
        """Return when they are to be shown next that we lead: half to one and a half times `every_ms` from now.

        At the same time in all groups that we lead, so that what goes to one peer goes in one frame.
        """
        soon_ms = now_ms + every_ms // 2
        return soon_ms + every_ms - (soon_ms - zlib.crc32(self._me.encode())) % every_ms

    def lose(self, address: str) -> None:
        """The link to an address is gone: what was sent last may not have come through."""
        for follower in self.known.values():
            if follower.seat.address == address:
                follower.waiting = False
                follower.lost = True

    def decided(self, own: int, seats: Sequence[Seat]) -> int:
        """Return the highest index that a quorum has durably; `own`: as far as this member has it."""
        reached = sorted(
            (own if seat.agent == self._me else self._through(seat.agent) for seat in seats if seat.votes), reverse=True
        )
        return reached[quorum(seats) - 1] if reached else 0

    def has(self, agent: str, index: int) -> bool:
        """Tell whether a member has everything up to an index."""
        return self._through(agent) >= index

    def needed_after(self, log: GroupLog, applied: int) -> int:
        """Return the index up to which nobody needs the log any more."""
        reached = [max(follower.through, follower.reserved) for follower in self.known.values()]
        return max(log.start.index, min([applied, *reached]))

    def silent(self, now_ms: int, for_ms: int) -> set[str]:
        """Return the members that have not been heard of for so long."""
        return {agent for agent, follower in self.known.items() if now_ms - follower.heard_ms >= for_ms}

    def reachable(self, now_ms: int, within_ms: int) -> Iterable[str]:
        """Return the members heard of lately."""
        return [a for a, follower in self.known.items() if not follower.lost and now_ms - follower.heard_ms < within_ms]

    def _through(self, agent: str) -> int:
        follower = self.known.get(agent)
        return follower.through if follower is not None else 0
