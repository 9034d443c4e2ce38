"""The entries of one tree's control log that a node retains: a run without gaps, bounded by count and bytes.

Owns what is retained and how the run of another node is taken over; knows neither edges nor the runtime. Pure.
Every root continues the log that it holds, in a term of its own, so two logs that hold one mark agree up to there;
where they part, the one with the later term is right (Raft's log matching: Ongaro and Ousterhout 2014, section 5.3).
OVERLAY section 4 (multicast).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from elf.overlay.contract import CONTROL_ENTRIES_MAX, CONTROL_LOG_BYTES_MAX, ORIGIN, LogEntry, Mark


class ControlLog:
    """A run of entries after `floor`. All nodes trim by the same rule, so equal logs have equal floors."""

    __slots__ = ("entries", "floor")

    def __init__(self, floor: Mark = ORIGIN, entries: Sequence[LogEntry] = ()) -> None:
        self.floor = floor
        self.entries = list(entries)
        self._trim()

    @property
    def last(self) -> Mark:
        """The newest entry's mark, or the floor if there is none."""
        return self.entries[-1].mark if self.entries else self.floor

    def __contains__(self, mark: Mark) -> bool:
        """Tell whether the run begins after this mark or holds its entry; O(1)."""
        index = mark.position - self.floor.position - 1
        if index < 0:
            return mark == self.floor
        return index < len(self.entries) and self.entries[index].mark == mark

    def above(self, mark: Mark) -> tuple[Mark, list[LogEntry]]:
        """Return the entries with higher marks, and the mark before the first of them; O(log n + entries)."""
        index = bisect.bisect_right(self.entries, mark, key=lambda entry: entry.mark)
        after = self.entries[index - 1].mark if index else self.floor
        return after, self.entries[index:]

    def next_above(self, mark: Mark) -> tuple[Mark, LogEntry | None]:
        """Return the oldest entry with a higher mark, and the mark before it; O(log n)."""
        index = bisect.bisect_right(self.entries, mark, key=lambda entry: entry.mark)
        after = self.entries[index - 1].mark if index else self.floor
        return after, self.entries[index] if index < len(self.entries) else None

    def append(self, entry: LogEntry) -> None:
        """Add the next entry."""
        assert entry.mark > self.last
        assert entry.mark.position == self.last.position + 1
        self.entries.append(entry)
        self._trim()

    def take_over(self, after: Mark, entries: Sequence[LogEntry]) -> bool:
        """Make our end agree with a run of a node nearer to the root; False if it brings nothing newer.

        What we hold above `after` and the run does not is the log of a root that was replaced, and goes. If `after` is
        not in ours, the entries between are lost to us, and with them all that is older.
        """
        if not entries or entries[-1].mark <= self.last:
            return False
        if after in self:
            del self.entries[after.position - self.floor.position :]
            self.entries += entries
        else:
            self.floor = after
            self.entries = list(entries)
        self._trim()
        return True

    def _trim(self) -> None:
        """Forget the oldest entries beyond the limits, but never the newest."""
        room_bytes, kept = CONTROL_LOG_BYTES_MAX, 0
        for entry in reversed(self.entries[-CONTROL_ENTRIES_MAX:]):
            room_bytes -= len(entry.body)
            if room_bytes < 0 and kept:
                break
            kept += 1
        if kept < len(self.entries):
            self.floor = self.entries[-kept - 1].mark
            del self.entries[:-kept]
