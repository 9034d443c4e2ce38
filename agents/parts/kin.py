"""The workers of a job's parts at one agent: events are mapped once for all of them, and the rows split by key.

A job with several trees has as many parts, each with a tree, a worker and a master of its own (DESIGN section 4). What
is dear, parsing and mapping, is done once; what differs is which rows of the mapped frame a part gets, by the fixed
hash of their keys (`cbt.partitions`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import polars as pl

from agents.intake.poison import FAILURES, Taker
from agents.worker import Worker
from cbt import split

log = logging.getLogger(__name__)


class Kin:
    """Workers of parts of one job.

    Args:
        workers: at least one; mostly all the job's parts.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.plan, self._workers = workers[0].plan, workers

    def insert(self, events: pl.DataFrame) -> None:
        """Map events once and give every part its rows.

        An event that cannot be mapped is in none of them. Where one part cannot take what is mapped, the others keep
        theirs, and its label says so.
        """
        if all(worker.counts_nothing for worker in self._workers):
            return  # nobody asked for the columns that it reads
        shares = split(self.plan.reduce(events), self.plan.schema, self.plan.definition.options.trees)
        for worker in self._workers:
            try:
                worker.take(events, shares[worker.plan.definition.part])
            except MemoryError:
                raise
            except FAILURES as error:
                log.error("job %s cannot take events in: %s", worker.plan.definition.key, error)
                times = events["ts"].cast(pl.Datetime("ms")).cast(pl.Int64).to_numpy()
                worker.note_gap(int(times.min()), int(times.max()))

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Remember a gap in all parts: an event that cannot be mapped has no key."""
        for worker in self._workers:
            worker.note_gap(after_ms, before_ms)


def takers(workers: Iterable[Worker]) -> list[Taker]:
    """Put the workers of a job's parts together; others stay alone."""
    found: list[Taker] = []
    kin: dict[object, list[Worker]] = {}
    for worker in workers:
        definition = worker.plan.definition
        if definition.options.trees == 1:
            found.append(worker)
            continue
        same = (definition.creator, definition.name, definition.query, definition.options, definition.functions)
        kin.setdefault((*same, *sorted(definition.columns.items())), []).append(worker)
    return found + [Kin(parts) for parts in kin.values()]
