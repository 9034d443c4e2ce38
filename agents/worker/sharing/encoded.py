"""What trees with several holders hold, read out and encoded once for all of them. Pure.

Reading a tree out, and encoding that, is most of what a seal or a checkpoint costs. Workers that share trees mostly do
both in one round of their source; what was read out is kept for that long, and no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from elf.agents.worker.paos import Paos
from elf.agents.worker.sharing.trees import SharedTree
from elf.cbt import PaoSchema

#: Bytes of frames kept at a time, and at most as many of what they are encoded to. What is more is read out again.
COPIES_BYTES_MAX = 64 << 20


class Held(NamedTuple):
    """An interval that is open: which kind of PAOs, and where they are."""

    kind: int
    tree: SharedTree


class _Copy(NamedTuple):
    changes: int
    frame: pl.DataFrame
    #: PAOs of several trees of which this is the first, by what they were then.
    together: dict[object, Paos]


class Copies:
    """Copies of what trees hold, for one round.

    Args:
        bytes_max: bound of the frames that are kept.
    """

    def __init__(self, bytes_max: int = COPIES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        #: Of the frames that are kept.
        self.bytes = 0
        self._copies: dict[SharedTree, _Copy] = {}

    def paos(self, held: Sequence[Held], first: PaoSchema | None) -> Paos:
        """Return what intervals hold, in this order.

        Args:
            held: the intervals.
            first: of the first kind of PAOs, no rows of which come before all others: payloads begin with these.
        """
        nothing = [] if first is None else [(0, first.empty())]
        frames = [(kind, self._frame(tree)) for kind, tree in held]
        copy = self._copies.get(held[0].tree) if held else None
        if copy is None or not all(each.tree in self._copies for each in held):
            return Paos([*nothing, *frames])
        begins = None if first is None else tuple(first.columns.items())
        key = begins, *((kind, tree, tree.changes) for kind, tree in held)
        return copy.together.setdefault(key, Paos([*nothing, *frames]))

    def let_go(self, tree: SharedTree) -> None:
        """Forget a tree that nobody holds any more."""
        copy = self._copies.pop(tree, None)
        if copy is not None:
            self.bytes -= int(copy.frame.estimated_size())

    def _frame(self, tree: SharedTree) -> pl.DataFrame:
        copy = self._copies.get(tree)
        if copy is not None and copy.changes == tree.changes:
            return copy.frame
        self.let_go(tree)
        frame = tree.snapshot()
        size = int(frame.estimated_size())
        if len(tree.holders) > 1 and self.bytes + size <= self._bytes_max:
            self.bytes += size
            self._copies[tree] = _Copy(tree.changes, frame, {})
        return frame
