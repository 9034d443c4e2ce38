"""The intervals that one worker has open: a buffer tree each, of the PAOs that the interval's version of the job makes.

Pure. What belongs to a version that does not count its interval is left out: the version came later than the events
did, and labels say from which interval on this agent has counted by it (`Worker.adopt`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import polars as pl

from agents.jobs.versions import Reign, Versions
from agents.paos import Paos
from cbt import INTERVAL, BufferTree


class _Open(NamedTuple):
    states: int
    tree: BufferTree


class OpenIntervals:
    """Open intervals, each with what was inserted of it and not taken out again."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self._open: dict[int, _Open] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._open)

    @property
    def memory_bytes(self) -> int:
        """Bytes held; may be asked for by another thread than the one that works."""
        return sum(each.tree.memory_bytes for each in list(self._open.values()))

    def insert(self, paos: Paos) -> None:
        """Insert PAOs, as far as they are what their intervals are counted by."""
        for states, frame in paos.parts:
            plan = self.versions.plan_of(states)
            for interval, part in _by_interval(frame):
                if plan is None or not self.versions.counts(states, interval):
                    continue
                known = self._open.get(interval)
                if known is None:
                    known = self._open[interval] = _Open(states, BufferTree(plan.schema))
                known.tree.insert(part)

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions; what later ones do not count is dropped."""
        self.versions = versions
        self.drop([at for at, known in self._open.items() if not versions.counts(known.states, at)])

    def drop(self, intervals: Collection[int]) -> None:
        """Forget intervals."""
        for interval in intervals:
            del self._open[interval]

    def take(self, intervals: Iterable[int]) -> Paos:
        """Take intervals out, in this order."""
        taken = [self._open.pop(interval) for interval in intervals]
        return Paos([*self._nothing(), *((each.states, each.tree.snapshot()) for each in taken)])

    def snapshot(self) -> Paos:
        """Return all there is, and keep it."""
        return Paos([*self._nothing(), *((each.states, each.tree.snapshot()) for each in self._open.values())])

    def _nothing(self) -> list[tuple[int, pl.DataFrame]]:
        """Return no rows, of the first kind: payloads begin with a block of these."""
        plan = self.versions.plan_of(0)
        return [] if plan is None else [(0, plan.schema.empty())]


def parted(events: pl.DataFrame, intervals: pl.Series, reigns: Collection[Reign]) -> list[tuple[Reign, pl.DataFrame]]:
    """Divide events among the versions that count them; mostly there is only one. O(rows of several versions)."""
    first, last = intervals.min(), intervals.max()
    found: list[tuple[Reign, pl.DataFrame]] = []
    if not isinstance(first, int) or not isinstance(last, int):
        return found
    for reign in reigns:
        if reign.first <= first and last <= reign.last:
            return [(reign, events)]
        if reign.first <= last and first <= reign.last:
            found.append((reign, events.filter(intervals.is_between(reign.first, reign.last))))
    return found


def _by_interval(paos: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """Split a frame by interval; mostly there is only one."""
    intervals = paos[INTERVAL]
    first = intervals.min()
    if first is None or first == intervals.max():
        return [] if first is None else [(intervals[0], paos)]
    return [(interval, part) for (interval,), part in paos.partition_by(INTERVAL, as_dict=True).items()]
