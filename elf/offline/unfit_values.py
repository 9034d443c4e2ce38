"""Values in the archive that do not fit their column's type: null there, with what they were beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.archive.layout import ArchivedFile
from elf.agents.archive.reader import parquet_of
from elf.agents.completeness.tallies import Tallies, tallied
from elf.agents.jobs.intervals import Numbering
from elf.agents.sources.raw_texts import raw_name


class UnfitTimes:
    """When the events are whose values do not fit.

    Args:
        files: the archive's; those of releases that did not keep such values have none.
        columns: types of the columns that the job reads. A value that an agent keeps in another type fits, maybe.
    """

    def __init__(self, files: Sequence[ArchivedFile], columns: Mapping[str, str]) -> None:
        found: dict[str, list[npt.NDArray[np.int64]]] = {}
        for file in files:
            stored = file.entry.columns
            names = [name for name, kind in columns.items() if raw_name(name) in stored and stored[name] == kind]
            if not names:
                continue
            wanted = ["ts", *map(raw_name, names)]
            events = pl.read_parquet(parquet_of(file.path), columns=wanted, hive_partitioning=False)
            times = events["ts"].dt.epoch("ms").to_numpy()
            for name in names:
                found.setdefault(name, []).append(times[events[raw_name(name)].is_not_null().to_numpy()])
        self._times = {name: np.sort(np.concatenate(times)) for name, times in found.items()}

    @property
    def columns(self) -> frozenset[str]:
        """The columns that have such values."""
        return frozenset(self._times)

    def count(self, column: str, start_ms: int, end_ms: int) -> int:
        """Return how many values of a column are of the event times [start, end)."""
        first, last = np.searchsorted(self._times[column], [start_ms, end_ms])
        return max(0, int(last - first))

    def tallies(self, numbering: Numbering) -> Tallies:
        """Return how many there are of each interval."""
        told = list[tuple[str, int, int, int]]()
        for column, times in self._times.items():
            intervals, counts = np.unique(times // numbering.length_ms + numbering.shift, return_counts=True)
            pairs = zip(intervals.tolist(), counts.tolist(), strict=True)
            told += [(column, interval, interval, count) for interval, count in pairs]
        return tallied(told)
