"""Pre-merged panes of a job: blocks that hold all rows of 2, 4, 8, ... intervals, for aggregates without an inverse.

Owns which blocks there are, which make up a window and which are to be made next; frames are
`elf.agents.master.panes`'s. Pure. DESIGN section 4: any window is made of O(log n) of them.

The block (level, index) holds the intervals [index * 2^level, (index + 1) * 2^level), whatever panes they lie in. It is
made once all of these are committed, from the two blocks below it where there are such, else from panes. Above level 0
only blocks that the run of no pane contains are made. Every pane's end is inside one smallest block, so there are fewer
of them than panes for each level's width: of n panes of an interval each there are at most n, made of 2 n frames.

A pane of one interval may also have a block of its own, of level 0, that takes less to read.

Late rows make the blocks that hold their interval wrong, at most one of each level: these go with the commit, and are
made anew as new ones are, a few at a time. Meanwhile windows are made of what lies below them.

A block that would hold nearly as many rows as its parts saves nothing and is declined: its parents are made of its
parts. So keys that never come twice take no space, and time for at most `ROWS_MAX` rows a block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from sortedcontainers import SortedSet

#: Bits of a block's name for its level.
_LEVEL_BITS = 6
_LEVELS = 1 << _LEVEL_BITS
#: Blocks made with one commit, at most.
STEPS_MAX = 8
#: Blocks of more rows than `ROWS_MIN` have at most this share of the rows of their parts.
ROWS_SHARE_MAX = 0.75
ROWS_MIN = 1_000
#: More rows than this are not merged into a block.
ROWS_MAX = 1 << 20


def name_of(level: int, index: int) -> int:
    """Name a block by one number, as the disk knows it."""
    return index << _LEVEL_BITS | level


def level_of(name: int) -> int:
    """Return a block's level."""
    return name & (_LEVELS - 1)


def bounds_of(name: int) -> tuple[int, int]:
    """Return a block's first and last interval."""
    level, index = level_of(name), name >> _LEVEL_BITS
    return index << level, ((index + 1) << level) - 1


def is_worth(rows: int, parts_rows: int) -> bool:
    """Tell whether a block of so many rows, made of parts with so many, is to be kept."""
    return rows <= max(ROWS_MIN, int(parts_rows * ROWS_SHARE_MAX))


class Piece(NamedTuple):
    """Part of a window: a block, or (None) what panes hold of these intervals, both ends included."""

    block: int | None
    first: int
    last: int


class Merged:
    """The blocks of one job.

    Args:
        kept: names of those there are.
        declined: names of those that would save nothing.
        ends: yields the last intervals of panes' runs between two intervals, both included, ascending.
    """

    def __init__(self, kept: Iterable[int], declined: Iterable[int], ends: Callable[[int, int], Iterator[int]]) -> None:
        self._ends = ends
        self._kept: dict[int, SortedSet[int]] = {}
        self._declined: dict[int, SortedSet[int]] = {}
        #: Blocks to be made, the smallest first.
        self._due: SortedSet[tuple[int, int]] = SortedSet()
        for of, names in ((self._kept, kept), (self._declined, declined)):
            for name in names:
                _add(of, name)

    def cover(self, first: int, last: int, also: Collection[int] = ()) -> list[Piece]:
        """Choose what makes up a window, ascending: O(log n) pieces where all blocks are there. O(pieces + log n).

        Args:
            first: first interval.
            last: last interval, included.
            also: blocks that are not kept yet.
        """
        pieces: list[Piece] = []
        top = max(first.bit_length(), last.bit_length())
        stack = [(top, 0), (top, -1)]
        while stack:
            level, index = stack.pop()
            begin, end = max(first, index << level), min(last, ((index + 1) << level) - 1)
            if end < begin:
                continue
            if begin == end:
                level, index = 0, begin
            name = name_of(level, index)
            whole = (index << level, ((index + 1) << level) - 1) == (begin, end)
            if whole and (index in self._kept.get(level, ()) or name in also):
                pieces.append(Piece(name, begin, end))
            elif not whole or self._is_split(begin, end):
                stack += [(level - 1, 2 * index + 1), (level - 1, 2 * index)]
            else:
                if pieces and pieces[-1].block is None:
                    begin = pieces.pop().first
                pieces.append(Piece(None, begin, end))
        return pieces

    def within(self, first: int, last: int) -> list[int]:
        """Return the blocks kept or declined that hold any of these intervals, both ends included."""
        return [
            name_of(level, index)
            for of in (self._kept, self._declined)
            for level in sorted(of)
            for index in of[level].irange(first >> level, last >> level)
        ]

    def until(self, oldest: int) -> list[int]:
        """Return the blocks kept or declined that reach back to this interval or before it."""
        return [
            name_of(level, index)
            for of in (self._kept, self._declined)
            for level in sorted(of)
            for index in of[level].irange(maximum=oldest >> level)
        ]

    def steps(self, oldest: int, late: Collection[tuple[int, int]], lowest: int = 0) -> list[int]:
        """Choose blocks to make next, small ones first, of this level and above.

        None of them reaches back to `oldest` or holds an interval of late runs, both ends included.
        """
        self._due -= {(level, index) for level, index in self._due if index << level <= oldest}
        due = self._due.irange((lowest, -(1 << 62)))
        fit = (at for at in due if not any(first >> at[0] <= at[1] <= last >> at[0] for first, last in late))
        return [name_of(level, index) for level, index in itertools.islice(fit, STEPS_MAX)]

    def want_around(self, ends: Iterable[int], oldest: int, through: int) -> None:
        """Have those blocks made that hold one of these ends of panes and the interval after it.

        They begin after `oldest` and end by `through`. For the end of the last pane but one that is what the last pane
        has completed; for all ends, whatever there should be. O(ends + blocks).
        """
        # Both intervals are in one block from the level on at which they differ in no higher bit.
        waiting = [(end, (end ^ (end + 1)).bit_length()) for end in ends if end != -1]
        blocks: set[int] = set()
        for level in range(1, _LEVELS):
            blocks = {index >> 1 for index in blocks} | {end >> level for end, lowest in waiting if lowest == level}
            blocks = {at for at in blocks if oldest < at << level and (at + 1) << level <= through + 1}
            waiting = [each for each in waiting if each[1] > level]
            if not blocks and not waiting:
                return
            self._due.update((level, index) for index in blocks if not self._knows(level, index))

    def want(self, names: Iterable[int]) -> None:
        """Have blocks made."""
        places = ((level_of(name), name >> _LEVEL_BITS) for name in names)
        self._due.update(place for place in places if not self._knows(*place))

    def last_single(self) -> int | None:
        """Return the last interval whose block of its own is kept or declined."""
        return max((indexes[-1] for of in (self._kept, self._declined) if (indexes := of.get(0))), default=None)

    def add(self, name: int, worth: bool) -> None:
        """Note that a block has been made and is kept, or is declined; it is due no longer."""
        _add(self._kept if worth else self._declined, name)
        self.forgo(name)

    def forgo(self, name: int) -> None:
        """Do not try to make a block, until it is wanted again."""
        self._due.discard((level_of(name), name >> _LEVEL_BITS))

    def drop(self, names: Iterable[int]) -> None:
        """Note that blocks are wrong, damaged or no longer there; as far as their panes are there, they are due."""
        for name in names:
            level, index = level_of(name), name >> _LEVEL_BITS
            for of in (self._kept, self._declined):
                of.get(level, SortedSet()).discard(index)
            self._due.add((level, index))

    def _levels(self) -> list[int]:
        return sorted({*self._kept, *self._declined})

    def _knows(self, level: int, index: int) -> bool:
        return index in self._kept.get(level, ()) or index in self._declined.get(level, ())

    def _is_split(self, first: int, last: int) -> bool:
        """Tell whether intervals lie in the runs of several panes."""
        return next(self._ends(first, last - 1), None) is not None


def _add(levels: dict[int, SortedSet[int]], name: int) -> None:
    levels.setdefault(level_of(name), SortedSet()).add(name >> _LEVEL_BITS)
