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
READOUTS_BYTES_MAX = 64 << 20


class Held(NamedTuple):
    """An interval that is open: which kind of PAOs, and where they are."""

    kind: int
    tree: SharedTree


class _Readout(NamedTuple):
    changes: int
    frame: pl.DataFrame
    #: PAOs of several trees of which this is the first, by what they were then.
    together: dict[object, Paos]


class Readouts:
    """What trees hold, read out, for one round.

    Args:
        bytes_max: bound of the frames that are kept.
    """

    def __init__(self, bytes_max: int = READOUTS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        #: Of the frames that are kept.
        self.bytes = 0
        self._readouts: dict[SharedTree, _Readout] = {}

    def paos(self, held: Sequence[Held], first: PaoSchema | None) -> Paos:
        """Return what intervals hold, in this order.

        Args:
            held: the intervals.
            first: of the first kind of PAOs, no rows of which come before all others: payloads begin with these.
        """
        nothing = [] if first is None else [(0, first.empty())]
        frames = [(kind, self._frame(tree)) for kind, tree in held]
        readout = self._readouts.get(held[0].tree) if held else None
        if readout is None or not all(each.tree in self._readouts for each in held):
            return Paos([*nothing, *frames])
        begins = None if first is None else tuple(first.columns.items())
        key = begins, *((kind, tree, tree.changes) for kind, tree in held)
        return readout.together.setdefault(key, Paos([*nothing, *frames]))

    def let_go(self, tree: SharedTree) -> None:
        """Forget a tree that nobody holds any more."""
        readout = self._readouts.pop(tree, None)
        if readout is not None:
            self.bytes -= int(readout.frame.estimated_size())

    def _frame(self, tree: SharedTree) -> pl.DataFrame:
        readout = self._readouts.get(tree)
        if readout is not None and readout.changes == tree.changes:
            return readout.frame
        self.let_go(tree)
        frame = tree.snapshot()
        size = int(frame.estimated_size())
        if len(tree.holders) > 1 and self.bytes + size <= self._bytes_max:
            self.bytes += size
            self._readouts[tree] = _Readout(tree.changes, frame, {})
        return frame
