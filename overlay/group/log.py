"""A group's log as one member holds it in memory: its tail, and who the members are according to it. Pure.

What is applied lies in the runtime's own state; of it only as much stays here as slow members may still need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from elf.overlay.group.messages import ENTRIES_MAX, Entry, Kind, Place, Seat, decode_seats

#: Applied entries that are kept for members that are behind, in bytes; who needs older ones fetches a copy.
TAIL_BYTES_MAX = 8 << 20
#: Bytes of bodies in one message.
BATCH_BYTES_MAX = 4 << 20


class GroupLog:
    """Entries after a place, gapless; `seats_before` are the members as of that place."""

    __slots__ = ("_bytes", "_seats_before", "entries", "start")

    def __init__(self, start: Place, seats: Sequence[Seat], entries: Iterable[Entry] = ()) -> None:
        self.start = start
        self._seats_before = tuple(seats)
        self.entries: list[Entry] = []
        self._bytes = 0
        self.append(entries)

    @property
    def last(self) -> Place:
        """The place of the newest entry."""
        return self.entries[-1].place if self.entries else self.start

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The members as of the newest entry, decided or not (Raft section 6: a member uses the latest it has)."""
        for entry in reversed(self.entries):
            if entry.kind is Kind.SEATS:
                return decode_seats(entry.body)
        return self._seats_before

    def place(self, index: int) -> Place | None:
        """Return the place with an index; None if it is not here, or not any more."""
        if index == self.start.index:
            return self.start
        at = index - self.start.index - 1
        return self.entries[at].place if 0 <= at < len(self.entries) else None

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries that follow the last one."""
        for entry in entries:
            assert entry.place.index == self.last.index + 1
            self.entries.append(entry)
            self._bytes += len(entry.body)

    def cut(self, after: int) -> None:
        """Drop all entries after an index: another leader's take their place."""
        at = max(0, after - self.start.index)
        self._bytes -= sum(len(entry.body) for entry in self.entries[at:])
        del self.entries[at:]

    def batch(self, after: int) -> tuple[Entry, ...]:
        """Return the next entries after an index that fit into one message."""
        at = after - self.start.index
        batch: list[Entry] = []
        size = 0
        for entry in self.entries[at : at + ENTRIES_MAX]:
            size += len(entry.body)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(entry)
        return tuple(batch)

    def between(self, after: int, through: int) -> list[Entry]:
        """Return the entries of these indexes, the first one excluded."""
        start = self.start.index
        return self.entries[max(0, after - start) : max(0, through - start)]

    def forget(self, through: int, needed_after: int) -> None:
        """Let go of entries up to `through`, all applied: what nobody needs, and the oldest if they are too much."""
        count = 0
        for entry in self.between(self.start.index, through):
            if entry.place.index > needed_after and self._bytes <= TAIL_BYTES_MAX:
                break
            if entry.kind is Kind.SEATS:
                self._seats_before = decode_seats(entry.body)
            self.start = entry.place
            self._bytes -= len(entry.body)
            count += 1
        del self.entries[:count]


def quorum(seats: Sequence[Seat]) -> int:
    """Return how many votes decide."""
    return sum(seat.votes for seat in seats) // 2 + 1
