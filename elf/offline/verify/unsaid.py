"""Values in the archive that do not fit their column's type, and labels that do not say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.archive.layout import ArchivedFile
from elf.agents.archive.reader import parquet_of
from elf.agents.sources.raw_texts import raw_name
from elf.offline.grid import Window
from elf.offline.verify.lacks import Label, announces
from elf.offline.verify.versions import Counting

#: What a label may say instead: these events are not in the result, so neither are their values.
_EXCUSES = ("late", "damaged", "backfilled")


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

    def unsaid(self, window: Window, label: Label, counting: Counting) -> list[str]:
        """Say of which columns a window has such values though its label, which lacks nothing else, names none."""
        if announces(label) or any(label.get(word) for word in _EXCUSES):
            return []
        said = label.get("mistyped") or {}
        counts = {name: self._count(name, window, counting) for name in self._times if not said.get(name)}
        return [f"{count} values of {name} do not fit its type" for name, count in sorted(counts.items()) if count]

    def _count(self, column: str, window: Window, counting: Counting) -> int:
        """Count a column's values in a window, of the time that the version counts."""
        paused = sum(self._between(column, *run) for run in counting.paused(window))
        return self._between(column, counting.within(window)[0], window[1]) - paused

    def _between(self, column: str, start_ms: int, end_ms: int) -> int:
        first, last = np.searchsorted(self._times[column], [start_ms, end_ms])
        return max(0, int(last - first))
