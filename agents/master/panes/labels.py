"""The labels of a job's panes, and what they say together of any window, however long. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from elf.agents.completeness.label import Label, join
from elf.agents.master.panes.ordered import Ordered

#: Runs of so many intervals have their labels joined once and kept until one of them changes; the longest first.
BLOCKS = (4_096, 256, 16)


class Labels:
    """Labels by key, the last interval of the pane's run; runs follow each other and never overlap."""

    __slots__ = ("_blocks", "_labels")

    def __init__(self, labels: Mapping[int, Label]) -> None:
        self._labels = Ordered(labels)
        #: (length, number) of a run -> its labels joined, where somebody asked; None where there are none.
        self._blocks: dict[tuple[int, int], Label | None] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, key: int) -> Label:
        return self._labels[key]

    def get(self, key: int) -> Label | None:
        """Return a pane's label, if there is such a pane."""
        return self._labels.get(key)

    def replace(self, changed: Mapping[int, Label], gone: Collection[int]) -> None:
        """Add or replace labels, and forget those of panes that are gone."""
        self._labels.replace(changed, gone)
        # Of a job that nobody asks there are none.
        for key in (*changed, *gone) if self._blocks else ():
            for length in BLOCKS:
                self._blocks.pop((length, key // length), None)

    def all(self) -> list[Label]:
        """Return all labels, ascending."""
        return list(self._labels.values())

    def oldest(self) -> int:
        """Return the first key; there has to be one."""
        return self._labels.first()

    def newest(self) -> int:
        """Return the last key; there has to be one."""
        return self._labels.last()

    def newest_first(self) -> Iterator[int]:
        """Yield all keys, descending."""
        return reversed(self._labels)

    def ends(self, first: int, last: int) -> Iterator[int]:
        """Yield the keys from one interval to another, both included, ascending."""
        return self._labels.irange(first, last)

    def before(self, key: int) -> int | None:
        """Return the last key before this one."""
        return next(self._labels.irange(maximum=key - 1, reverse=True), None)

    def between(self, first: int | None, last: int) -> list[int]:
        """Return the keys from one interval to another, both included; without the first, all up to the last."""
        return list(self._labels.irange(first, last))

    def holding(self, first: int, last: int) -> Iterator[int]:
        """Yield the keys of panes that hold any of these intervals, both ends included, ascending."""
        return itertools.takewhile(lambda key: self._labels[key].previous < last, self._labels.irange(first))

    def joined(self, first: int, last: int) -> list[Label]:
        """Return labels that say together what those of the panes of these intervals say. O(log intervals)."""
        found: list[Label] = []
        begin, until, tail = first, last, list[Label]()
        # The runs of the first and the last pane may go on beyond the window.
        head = next(self._labels.irange(first), None)
        if head is not None and self._labels[head].previous < min(first - 1, last):
            found.append(self._labels[head].within(first, last))
            begin = head + 1
        end = next(self._labels.irange(max(begin, last)), None)
        if end is not None and self._labels[end].previous < last < end:
            tail = [self._labels[end].within(first, last)]
            until = self._labels[end].previous
        while begin <= until:
            length = next((n for n in BLOCKS if begin % n == 0 and begin + n - 1 <= until), 1)
            label = self._block(length, begin // length)
            if label is not None:
                found.append(label)
                begin += length
                continue
            # A run of intervals without the end of a pane, which may be a long one.
            following = next(self._labels.irange(begin + length), None)
            begin = until + 1 if following is None else max(begin + length, following // length * length)
        return [*found, *tail]

    def _block(self, length: int, number: int) -> Label | None:
        """Join the labels of the panes that end in a run."""
        if length == 1:
            return self.get(number)
        at = length, number
        if at not in self._blocks:
            below = next((n for n in BLOCKS if n < length), 1)
            numbers = range(number * length // below, (number + 1) * length // below)
            labels = [label for each in numbers if (label := self._block(below, each)) is not None]
            self._blocks[at] = join(labels) if labels else None
        return self._blocks[at]
