"""What a master keeps of a job's past: panes with their labels, and what long windows are made of; frames lie on disk.

Windows are made of running totals where the aggregates have an inverse (`summing`), else of pre-merged panes
(`premerging`). A change is described first, written with the commit that it belongs to, and only then taken into
memory: a disk that fails leaves everything as it was.
"""

from __future__ import annotations

import itertools

import msgspec
import polars as pl

from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.master.panes.merged_store import Premerging
from elf.agents.master.panes.past import Change, Past, block_of
from elf.agents.master.panes.totals_store import Summing
from elf.agents.store.panes import MADE, Kind, Panes, Place
from elf.agents.store.shared_transactions import Steps
from elf.cbt.merging import Merging
from elf.cbt.schema import without_interval
from elf.overlay.contract import NEVER


class History:
    """The past of one job.

    Args:
        job: the compiled job, or its versions.
        store: where it is durable.
        committed: the last interval committed; NEVER before the first.
    """

    __slots__ = ("_past", "_premerging", "_summing", "labels")

    def __init__(self, job: Plan | Versions, store: Panes, committed: int = NEVER) -> None:
        past = self._past = Past(Versions.of(job), store, committed)
        self._serve()
        self.labels = past.labels

    def _serve(self, *, fresh: bool = False) -> None:
        """Take up what serves the windows of the current version; `fresh`: on disk is only what served former ones."""
        past = self._past
        self._summing = Summing(past, fresh=fresh) if past.summed else None
        self._premerging = Premerging(past, fresh=fresh) if past.windowed and not past.summed else None

    @property
    def current(self) -> Version:
        """The version whose panes are the last."""
        return self._past.current.version

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions of the job, of which those that have panes are the same."""
        past = self._past
        past.versions = versions
        past.current = versions.numbered(past.current.version.number) or past.current

    def mend(self, expired: int, committed: int, expected: int) -> None:
        """Put labels that say so where those of some panes are lost."""
        self._past.mend(expired, committed, expected)

    def pane(self, key: int, change: Change | None = None) -> pl.DataFrame:
        """Return a pane's rows; with a change, as they will be after it."""
        return self._past.pane(key, change)

    def newest_rows(self, most: int) -> list[int]:
        """Return how many rows the newest panes have, at most so many panes, the newest first."""
        past = self._past
        return [past.rows[key] for key in itertools.islice(past.labels.newest_first(), most)]

    def is_empty(self, key: int) -> bool:
        """Tell whether a pane has no rows."""
        return not self._past.rows[key]

    def window(self, first: int, last: int) -> pl.DataFrame:
        """Merge all rows of these intervals, both ends included, without the `interval` column.

        O(rows of two totals) where the aggregates have an inverse, else O(rows of O(log n) blocks); of a version before
        the current one O(rows of panes). All of them have to be of one kind of PAOs.
        """
        past = self._past
        is_current = first >= past.begins
        if self._summing is not None and is_current:
            found = self._summing.window(first, last)
            if found is not None:
                return found
        schema = past.schema_at(last)
        if first == last:
            # A pane has one row for each key of an interval.
            return without_interval(next(past.inside(first, last), schema.empty()))
        if self._premerging is not None and is_current:
            return without_interval(self._premerging.window(first, last))
        merging = Merging(schema)
        for rows in past.inside(first, last):
            merging.add(rows)
        return without_interval(merging.result())

    def write(self, state: bytes, change: Change) -> None:
        """Write a change durably with the master's state, then remember it."""
        self.finish(self.writing(state, change))

    def finish(self, work: Steps) -> None:
        """Do work that writes changes of this past, durably."""
        self._past.store.finish(work)

    def writing(self, state: bytes, change: Change) -> Steps:
        """Do what `write` does, together with other work."""
        past, before = self._past, (self._past.current, self._summing, self._premerging)
        try:
            if change.turn is not None:
                self._turn(change.turn, change)
            yield from self._write(state, change)
        except BaseException:
            past.current, self._summing, self._premerging = before
            raise

    def _turn(self, turn: Compiled, change: Change) -> None:
        """Let a version's windows begin anew: what serves those of before goes, and panes alone make them up."""
        past = self._past
        served = {(kind, name) for kind in MADE for name in past.store.intervals(past.app, kind)}
        for place in served:
            past.frames.forget(place)
        change.dropped |= served
        past.current = turn
        self._serve(fresh=True)

    def _write(self, state: bytes, change: Change) -> Steps:
        past, serving = self._past, self._summing or self._premerging
        if serving is not None and change.frames:
            (serving.prepare if change.replaced is None else serving.replace)(change)
        entries = past.entries(change)
        changed: dict[Place, bytes] = {(Kind.LABEL, key): msgspec.msgpack.encode(e) for key, e in entries.items()}
        changed |= {(Kind.PANE, key): past.encoded(key, frame) for key, frame in change.frames.items()}
        changed |= {place: block_of(made) for place, made in change.made.items()}
        gone: list[Place] = [(kind, key) for key in change.gone for kind in (Kind.LABEL, Kind.PANE)]
        yield past.store.committing(past.app, state, changed, [*gone, *sorted(change.dropped)])
        past.changed(change, entries)
        if serving is not None and change.frames:
            serving.changed(change)
            if change.replaced is not None and self._premerging is not None:
                self._premerging = Premerging(past)
                self._premerging.make_all()
