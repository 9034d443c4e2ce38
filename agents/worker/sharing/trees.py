"""Buffer trees that several workers hold together, as long as they have taken the very same PAOs. Pure.

What is in a tree is what each of its holders was given of the interval. So PAOs go into it only where all holders take
them at this moment; holders that take what others do not go on in a copy of their own. Nothing is ever merged back: the
next interval begins together again. DESIGN 3.3: jobs with the same filter, keys and aggregates share one CBT.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from elf.cbt import BufferTree, PaoSchema

if TYPE_CHECKING:
    from elf.agents.worker.open_intervals import OpenIntervals


class SharedTree:
    """What of one interval was inserted alike for some workers.

    Attributes:
        holders: what these have open; the tree is gone with the last of them.
        changes: how often it has changed.
    """

    def __init__(self, schema: PaoSchema, holders: Iterable[OpenIntervals]) -> None:
        self._tree = BufferTree(schema)
        self.holders = set(holders)
        self.changes = 0

    def insert(self, paos: pl.DataFrame) -> None:
        """Add PAOs, which all holders take; raises what `BufferTree.insert` does."""
        self.changes += 1
        self._tree.insert(paos)

    def parted(self, holders: Iterable[OpenIntervals]) -> SharedTree:
        """Let some holders go on apart: return a tree for them, of the same content. O(n)."""
        found = SharedTree(self._tree.schema, holders)
        found.insert(self.snapshot())
        self.holders -= found.holders
        return found

    def snapshot(self) -> pl.DataFrame:
        """Return all PAOs, one row for each key; the content is kept. O(n)."""
        return self._tree.snapshot()

    def release(self, holder: OpenIntervals) -> None:
        """One of its holders lets it go."""
        self.holders.discard(holder)

    @property
    def share_bytes(self) -> int:
        """Bytes of memory for each holder; may be asked for by another thread than the one that works."""
        return self._tree.memory_bytes // max(1, len(self.holders))
