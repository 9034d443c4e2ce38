"""The labels of a job's panes, and what they say together of any window, however long. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from sortedcontainers import SortedDict

from agents.results import Label, join

#: Intervals whose labels are joined once and kept until one of them changes.
BLOCK = 256


class Labels:
    """Labels by key, the last interval of the pane's run; runs follow each other and never overlap."""

    def __init__(self, labels: Mapping[int, Label]) -> None:
        self._labels: SortedDict[int, Label] = SortedDict(labels)
        #: Block -> its labels joined, where somebody asked.
        self._blocks: dict[int, Label] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, key: int) -> Label:
        label: Label = self._labels[key]
        return label

    def get(self, key: int) -> Label | None:
        """Return a pane's label, if there is such a pane."""
        label: Label | None = self._labels.get(key)
        return label

    def replace(self, changed: Mapping[int, Label], gone: Collection[int]) -> None:
        """Add or replace labels, and forget those of panes that are gone. O(changed + gone)."""
        self._labels.update(changed)
        for key in gone:
            self._labels.pop(key, None)
        for key in (*changed, *gone):
            self._blocks.pop(key // BLOCK, None)

    def all(self) -> list[Label]:
        """Return all labels, ascending."""
        return list(self._labels.values())

    def oldest(self) -> int:
        """Return the first key; there has to be one."""
        return int(self._labels.keys()[0])

    def newest(self) -> int:
        """Return the last key; there has to be one."""
        return int(self._labels.keys()[-1])

    def ends(self, first: int, last: int) -> Iterator[int]:
        """Yield the keys from one interval to another, both included, ascending."""
        return iter(self._labels.irange(first, last))

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
        """Return labels that say together what those of the panes of these intervals say. O(intervals / `BLOCK`)."""
        found: list[Label] = []
        begin = first
        while (key := next(self._labels.irange(begin), None)) is not None and self._labels[key].previous < last:
            block = key // BLOCK
            end = block * BLOCK + BLOCK - 1
            if end <= last and key == next(self._labels.irange(block * BLOCK)):
                found.append(self._block(block))
                begin = end + 1
                continue
            found.append(self._labels[key])
            begin = key + 1
        return found

    def _block(self, block: int) -> Label:
        joined = self._blocks.get(block)
        if joined is None:
            keys = self._labels.irange(block * BLOCK, block * BLOCK + BLOCK - 1)
            joined = self._blocks[block] = join([self._labels[key] for key in keys])
        return joined
