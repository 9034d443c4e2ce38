"""Hands computed intervals to a job's masters, part by part, with the names of agents that they lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import polars as pl

from elf.agents.completeness.tallies import Tallies, bounded, moved, within
from elf.agents.jobs.plan import Plan
from elf.agents.wire.shares import LOADED_RUNS_MAX
from elf.agents.worker.paos import between
from elf.cbt import INTERVAL, split
from elf.client.results import Intervals
from elf.offline.asking import DescribingClient, Reach
from elf.offline.backfill.coverage import Coverage, whole_runs
from elf.offline.backfill.panes import cut
from elf.offline.patience import patiently


class LoadingClient(DescribingClient, Protocol):
    """What backfill asks an agent."""

    def load(self, name: str, intervals: Intervals) -> None:
        """Load intervals into the job."""
        ...


class Loader:
    """Loads computed intervals into all parts of a job, in the order of time."""

    def __init__(
        self, client: LoadingClient, name: str, plan: Plan, reaches: Sequence[Reach], coverage: Coverage
    ) -> None:
        self._client = client
        self._name = name
        self._plan = plan
        self._reaches = reaches
        self._coverage = coverage
        #: Names of agents that were said to be missing.
        self.missing: set[str] = set()

    def pack(self, rows: pl.DataFrame, unfit: Tallies, first: int, last: int) -> Iterator[Intervals]:
        """Make what can be loaded of the rows of a run of intervals, both ends included; in any thread.

        `unfit`: how many values of events there do not fit their columns' types, so that the rows lack them.
        """
        for begin, end in whole_runs(self._coverage.bounds, first, last):
            missing = self._coverage.missing(begin)
            run = between(rows, begin, end)
            for part, (reach, own) in enumerate(
                zip(self._reaches, split(run, self._plan.schema, len(self._reaches)), strict=True)
            ):
                # A part may have taken up another length later than the first one, and number its intervals otherwise.
                later = reach.shift - self._plan.numbering.shift
                own = own.with_columns(pl.col(INTERVAL) + later) if later else own
                for since, until, block in cut(own, begin + later, end + later):
                    said = bounded(within(moved(unfit, later), since, until), LOADED_RUNS_MAX)
                    yield Intervals(reach.instance, since, until, block, missing, part, said)

    def load(self, packed: Iterable[Intervals]) -> None:
        """Load what `pack` has made, in the order of time."""
        for intervals in packed:
            self.missing.update(self._coverage.names[agent] for agent in intervals.missing)
            # Once more, where an answer was lost: what is loaded twice is there once.
            patiently(partial(self._client.load, self._name, intervals))
