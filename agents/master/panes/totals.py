"""Running totals of a job: at marks, all PAOs since the first mark, so that a window is the difference of two.

Owns which marks there are and which of them a window is made of; frames are `elf.agents.master.panes`'s. Pure. Paper:
section 3.1, PAO15 - PAO5; only for aggregates with an inverse. The time for a window then hardly depends on its length.

A mark at interval m holds every row of the intervals up to m that came since the totals began. What came before is in
no mark, or in all: differences do not see it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from elf.agents.master.panes.ordered import Ordered

#: Late rows are added to at most so many marks after them; with more, these marks are made anew.
AMENDED_MAX = 8
#: Marks made at a time; after late rows of long ago there may be many to make.
STEPS_MAX = 4
#: How many times the rows of the panes after a mark the next mark may hold.
PANES_TO_TOTAL = 2
#: Small panes are cheap to merge: a mark waits for so many of them, or for so many rows.
PANES_MIN, ROWS_MIN = 8, 1_000
#: Totals of more rows than this begin anew, without the keys that nobody has any more.
ROWS_MAX = 1 << 20


class Totals:
    """The marks of one job, and how many rows each holds."""

    __slots__ = ("marks",)

    def __init__(self, marks: Mapping[int, int]) -> None:
        self.marks = Ordered(marks)

    def cover(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the earlier and the later mark whose difference is most of a window; None if there are none.

        The rows of the intervals from `first` up to the earlier mark, and those after the later one, come on top.
        """
        earlier = next(self.marks.irange(first - 1, last), None)
        later = next(self.marks.irange(first - 1, last, reverse=True), None)
        return None if earlier is None or later is None or earlier == later else (earlier, later)

    def newest(self, gone: Collection[int]) -> int | None:
        """Return the last mark that is not gone. O(gone)."""
        if not gone:
            return self.marks.last() if self.marks else None
        return next((mark for mark in reversed(self.marks) if mark not in gone), None)

    def steps(
        self,
        before: int | None,
        panes: Iterable[tuple[int, int]],
        most: int = STEPS_MAX,
        height: int | None = None,
    ) -> list[tuple[int | None, list[int]]]:
        """Choose the marks to make next.

        A mark is due when the panes after the one before hold half as many rows as it does: whatever the job, making
        marks then costs no more than twice what the panes themselves did. Never at a pane without rows: its run may
        still grow, and a late row of it would then be both in the mark and in what comes on top of it.

        Args:
            before: the last mark, if there is one.
            panes: key and number of rows of each pane after it, ascending; as many as are wanted are taken.
            most: marks.
            height: rows of the last mark, if it is not kept yet.

        Returns:
            For each new mark the one before it, if any, and the panes that come on top, whose last it is at.
        """
        found: list[tuple[int | None, list[int]]] = []
        if height is None:
            height = self.marks[before] if before is not None else 0
        keys: list[int] = []
        rows = 0
        for key, count in panes:
            keys.append(key)
            rows += count
            enough = before is None or len(keys) >= PANES_MIN or rows >= ROWS_MIN
            if count and enough and rows * PANES_TO_TOTAL >= height:
                found.append((before, keys))
                if len(found) == most:
                    break
                # How many rows the new mark has is known when it is made; as many as now is the least.
                before, height, keys, rows = key, max(height, rows), [], 0
        return found

    def late(self, interval: int) -> tuple[list[int], list[int]]:
        """Return the marks that rows of an interval must be added to, and those that are to be dropped instead."""
        if not self.marks or interval <= self.marks.first():
            return [], []  # before all marks: no difference would show it
        after = list(self.marks.irange(interval))
        return ([], after) if len(after) > AMENDED_MAX else (after, [])
