"""The intervals that one worker has open: a buffer tree each, of the PAOs that the interval's version of the job makes.

Pure. What belongs to a version that does not count its interval is left out: the version came later than the events
did, and labels say from which interval on this agent has counted by it (`Worker.adopt`). Workers of jobs that make the
same PAOs hold trees together (`elf.agents.worker.sharing.trees`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import polars as pl

from elf.agents.jobs.versions import Versions
from elf.agents.worker.paos import Paos, by_interval
from elf.agents.worker.sharing.readouts import Held, Readouts
from elf.agents.worker.sharing.trees import SharedTree
from elf.cbt import PaoSchema


class OpenIntervals:
    """Open intervals, each with what was inserted of it and not taken out again."""

    __slots__ = ("_open", "versions")

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self._open: dict[int, Held] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._open)

    @property
    def memory_bytes(self) -> int:
        """Bytes held, of trees that others hold, too, a part; may be asked for by any thread."""
        return sum(tree.share_bytes for tree in self.trees())

    def trees(self) -> list[SharedTree]:
        """Return the trees of all intervals; may be asked for by any thread."""
        return [each.tree for each in list(self._open.values())]

    def tree_of(self, interval: int) -> SharedTree | None:
        """Return an interval's tree, if anything was inserted."""
        held = self._open.get(interval)
        return None if held is None else held.tree

    def hold(self, interval: int, kind: int, tree: SharedTree) -> None:
        """Go on with a tree for an interval; this is among its holders."""
        self._open[interval] = Held(kind, tree)

    def insert(self, paos: Paos) -> None:
        """Insert PAOs that are for nobody else, as far as they are what their intervals are counted by."""
        for kind, frame in paos.parts:
            if not frame.height:
                continue
            plan = self.versions.plan_of(kind)
            for interval, part in by_interval(frame):
                if plan is not None and self.versions.counts(kind, interval):
                    insert_together(interval, part, plan.schema, [(self, kind)])

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions; what later ones do not count is dropped."""
        self.versions = versions
        self.drop([at for at, known in self._open.items() if not versions.counts(known.kind, at)])

    def drop(self, intervals: Collection[int]) -> None:
        """Forget intervals."""
        for interval in intervals:
            self._open.pop(interval).tree.release(self)

    def take(self, intervals: Iterable[int], readouts: Readouts | None = None) -> Paos:
        """Take intervals out, in this order; `readouts`: what others of the round have read."""
        readouts = Readouts() if readouts is None else readouts
        taken = [self._open.pop(interval) for interval in intervals]
        paos = readouts.paos(taken, self._first)
        for _, tree in taken:
            tree.release(self)
            if not tree.holders:
                readouts.let_go(tree)
        return paos

    def snapshot(self, readouts: Readouts | None = None) -> Paos:
        """Return all there is, and keep it; `readouts`: what others of the round have read."""
        readouts = Readouts() if readouts is None else readouts
        return readouts.paos(list(self._open.values()), self._first)

    @property
    def _first(self) -> PaoSchema | None:
        plan = self.versions.plan_of(0)
        return None if plan is None else plan.schema


def insert_together(
    interval: int, paos: pl.DataFrame, schema: PaoSchema, takers: Sequence[tuple[OpenIntervals, int]]
) -> None:
    """Insert PAOs of an interval into what some workers have open, once for those who hold the same. O(rows).

    Args:
        interval: the interval, which all of them count.
        paos: its rows.
        schema: theirs.
        takers: what takes all of these rows, and as which kind of PAOs.
    """
    holding: dict[SharedTree | None, list[tuple[OpenIntervals, int]]] = {}
    for each, kind in takers:
        holding.setdefault(each.tree_of(interval), []).append((each, kind))
    for tree, holders in holding.items():
        own = {each for each, _ in holders}
        if tree is None or tree.holders != own:
            tree = SharedTree(schema, own) if tree is None else tree.parted(own)
            for each, kind in holders:
                each.hold(interval, kind, tree)
        tree.insert(paos)
