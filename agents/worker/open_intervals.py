"""The intervals that one worker has open, each of the PAOs that the interval's version of the job makes. Pure.

Those that events of the present are of have a buffer tree each, which workers of jobs that make the same PAOs hold
together (`elf.agents.worker.sharing.trees`). They are few; of events with times from all over, as anybody may send
them, and as old logs have, the others lie in one table (`elf.agents.worker.scattered`), until one of them has grown.

What belongs to a version that does not count its interval is left out: the version came later than the events did, and
labels say from which interval on this agent has counted by it (`Worker.adopt`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from elf.agents.jobs.versions import Versions
from elf.agents.worker.paos import Paos, StoredTable, among, ascending, by_interval, chosen, is_scattered
from elf.agents.worker.scattered import Scattered
from elf.agents.worker.sharing.readouts import Held, Readouts
from elf.agents.worker.sharing.trees import SharedTree
from elf.agents.worker.state import Tables
from elf.cbt import INTERVAL, PaoSchema, encode
from elf.cbt.frames import joined
from elf.overlay.contract import NEVER

#: Intervals that have a tree of their own however few rows they have.
TREES_MAX = 32
#: Rows from which on any interval has one.
GROWN_ROWS = 8_192


class OpenIntervals:
    """Open intervals, each with what was inserted of it and not taken out again."""

    __slots__ = ("_numbers", "_open", "_scattered", "_stored", "versions")

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self._open: dict[int, Held] = {}
        #: By kind of PAOs; an interval is either here or has a tree.
        self._scattered: dict[int, Scattered] = {}
        #: Of tables.
        self._numbers = itertools.count(1)
        #: Numbers of those that are stored; None: of some that nothing is known of.
        self._stored: set[int] | None = set()

    def __iter__(self) -> Iterator[int]:
        return iter(self.between(NEVER, -NEVER))

    @property
    def ends(self) -> list[int]:
        """The first and the last interval; none if there is none."""
        found = [*self._open]
        for each in self._scattered.values():
            at = each.intervals(NEVER, -NEVER)
            found += [int(at[0]), int(at[-1])] if len(at) else []
        return [min(found), max(found)] if found else []

    def between(self, first: int, last: int) -> list[int]:
        """Return the intervals from one to another, both included, ascending."""
        found = [interval for interval in self._open if first <= interval <= last]
        for each in self._scattered.values():
            found += each.intervals(first, last).tolist()
        return sorted(found)

    @property
    def memory_bytes(self) -> int:
        """Bytes held, of trees that others hold, too, a part; may be asked for by any thread."""
        tables = sum(each.memory_bytes for each in list(self._scattered.values()))
        return tables + sum(tree.share_bytes for tree in self.trees())

    def trees(self) -> list[SharedTree]:
        """Return the trees of all intervals that have one; may be asked for by any thread."""
        return [each.tree for each in list(self._open.values())]

    @property
    def treed(self) -> list[int]:
        """The intervals that have a tree."""
        return list(self._open)

    def tree_of(self, interval: int) -> SharedTree | None:
        """Return an interval's tree, if it has one."""
        held = self._open.get(interval)
        return None if held is None else held.tree

    def hold(self, interval: int, kind: int, tree: SharedTree) -> None:
        """Go on with a tree for an interval; this is among its holders."""
        self._open[interval] = Held(kind, tree)

    def has_room(self, interval: int) -> bool:
        """Whether an interval that has no tree may have one: there are few, and it has nothing in the table."""
        return len(self._open) < TREES_MAX and not any(interval in each for each in self._scattered.values())

    def scatter(self, kind: int, paos: pl.DataFrame, schema: PaoSchema) -> None:
        """Insert PAOs of intervals that have no tree into the table of their kind."""
        table = self._scattered.get(kind)
        if table is None:
            table = self._scattered[kind] = Scattered(schema, self._numbers)
        before = table.number
        table.insert(paos)
        if table.number != before:
            for interval in table.grown(GROWN_ROWS):
                tree = SharedTree(schema, [self])
                tree.insert(table.take(interval, interval))
                self.hold(interval, kind, tree)

    def insert(self, paos: Paos) -> None:
        """Insert PAOs that are for nobody else, as far as they are what their intervals are counted by."""
        for kind, frame in paos.parts:
            plan = self.versions.plan_of(kind) if frame.height else None
            if plan is None:
                continue
            counted = self.versions.counted(kind, frame[INTERVAL].to_numpy())
            rows = frame if counted.all() else chosen(frame, counted)
            insert_all(rows, plan.schema, self, kind)

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions; what later ones do not count is dropped."""
        self.versions = versions
        for at in [at for at, known in self._open.items() if not versions.counts(known.kind, at)]:
            self._open.pop(at).tree.release(self)
        for kind, table in self._scattered.items():
            intervals = table.intervals(NEVER, -NEVER)
            counted = versions.counted(kind, intervals)
            if not counted.all():
                table.keep(intervals[counted])
        self._forget_empty()

    def settle(self) -> None:
        """Make it cheap to take out one interval after the other. O(rows log rows)."""
        for each in self._scattered.values():
            each.settle()

    def drop(self, first: int, last: int) -> None:
        """Forget the intervals from one to another, both included."""
        for interval in [at for at in self._open if first <= at <= last]:
            self._open.pop(interval).tree.release(self)
        for table in self._scattered.values():
            table.take(first, last)
        self._forget_empty()

    def take(self, runs: Sequence[tuple[int, int]], readouts: Readouts | None = None) -> Paos:
        """Take out the intervals of some runs, both ends included: run after run, the intervals of each ascending.

        Args:
            runs: apart from each other.
            readouts: what others of the round have read.
        """
        readouts = Readouts() if readouts is None else readouts
        parted = []
        for first, last in runs:
            own = [self._open.pop(at) for at in sorted(at for at in self._open if first <= at <= last)]
            loose = [(kind, each.take(first, last)) for kind, each in self._scattered.items()]
            parted.append((own, [(kind, rows) for kind, rows in loose if rows.height]))
        self._forget_empty()
        held = [each for own, _ in parted for each in own]
        if any(loose for _, loose in parted):
            sorted_runs = (_ascending([*readouts.paos(own, None).parts, *loose]) for own, loose in parted)
            paos = Paos([*self._nothing, *(part for run in sorted_runs for part in run)])
        else:
            paos = readouts.paos(held, self._first)
        for _, tree in held:
            tree.release(self)
            if not tree.holders:
                readouts.let_go(tree)
        return paos

    def snapshot(self, readouts: Readouts | None = None) -> Paos:
        """Return all there is, and keep it; `readouts`: what others of the round have read."""
        readouts = Readouts() if readouts is None else readouts
        paos = readouts.paos(list(self._open.values()), self._first)
        loose = [(kind, each.all()) for kind, each in self._scattered.items()]
        return Paos([*paos.parts, *loose]) if loose else paos

    def stored(self, readouts: Readouts | None = None) -> tuple[Paos, Sequence[StoredTable], Tables | None]:
        """Return all there is as it is to be stored from now on: it counts as stored then.

        Returns:
            What changes; which tables there are beside it; and, if these are not the ones that are stored, all of them.
        """
        readouts = Readouts() if readouts is None else readouts
        paos = readouts.paos(list(self._open.values()), self._first)
        rest = [(kind, rows) for kind, each in self._scattered.items() if (rows := each.resting()).height]
        tables = [(kind, each) for kind, each in self._scattered.items() if each.table.height]
        told = [StoredTable(kind, each.number, each.gone) for kind, each in tables]
        blocks = {each.number: each.table for _, each in tables}
        return Paos([*paos.parts, *rest]) if rest else paos, told, self._changed(blocks)

    def unstored(self) -> Tables | None:
        """Nothing of what there is is to be stored: return what that makes of the tables that are."""
        return self._changed({})

    def _changed(self, tables: Mapping[int, pl.DataFrame]) -> Tables | None:
        stored = self._stored
        self._stored = set(tables)
        if stored == self._stored:
            return None
        new = {number: encode(table) for number, table in tables.items() if stored is None or number not in stored}
        return Tables(tuple(tables), new)

    def note_stored(self) -> None:
        """Take note that tables of another life are stored."""
        self._stored = None

    def _forget_empty(self) -> None:
        for kind in [kind for kind, each in self._scattered.items() if not len(each)]:
            del self._scattered[kind]

    @property
    def _first(self) -> PaoSchema | None:
        plan = self.versions.plan_of(0)
        return None if plan is None else plan.schema

    @property
    def _nothing(self) -> list[tuple[int, pl.DataFrame]]:
        return [] if self._first is None else [(0, self._first.empty())]


def _ascending(parts: Sequence[tuple[int, pl.DataFrame]]) -> list[tuple[int, pl.DataFrame]]:
    """Put rows of intervals, each in one frame, in the intervals' order; of later intervals kinds are not lower."""
    kinds: dict[int, list[pl.DataFrame]] = {}
    for kind, frame in parts:
        kinds.setdefault(kind, []).append(frame)
    return [(kind, ascending(joined(frames))) for kind, frames in sorted(kinds.items())]


def insert_all(paos: pl.DataFrame, schema: PaoSchema, taker: OpenIntervals, kind: int) -> None:
    """Insert PAOs of intervals, all of which are counted, into what one worker has open."""
    few, others = divided(paos, [taker])
    for interval, part in few:
        insert_together(interval, part, schema, [(taker, kind)])
    if others is not None:
        taker.scatter(kind, others, schema)


def divided(
    paos: pl.DataFrame, takers: Iterable[OpenIntervals]
) -> tuple[list[tuple[int, pl.DataFrame]], pl.DataFrame | None]:
    """Divide PAOs: of many intervals those that have trees somewhere, one by one, and the others; else all one by one.

    O(rows), where a partition by interval costs some 20 us for each of them.
    """
    if not is_scattered(paos):
        return by_interval(paos), None
    are_treed = among(paos, np.array(sorted({at for each in takers for at in each.treed}), np.int64))
    return by_interval(chosen(paos, are_treed)), chosen(paos, ~are_treed)


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
        tree = each.tree_of(interval)
        if tree is None and not each.has_room(interval):
            each.scatter(kind, paos, schema)
        else:
            holding.setdefault(tree, []).append((each, kind))
    for tree, holders in holding.items():
        own = {each for each, _ in holders}
        if tree is None or tree.holders != own:
            tree = SharedTree(schema, own) if tree is None else tree.parted(own)
            for each, kind in holders:
                each.hold(interval, kind, tree)
        tree.insert(paos)
