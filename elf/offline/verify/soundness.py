"""Whether the archive's files are what their agents wrote, and which of those that are not can still be read."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from elf.agents.archive.layout import ArchivedFile, ArchiveError, check_file
from elf.agents.archive.reader import parquet_of
from elf.agents.language.types import SqlType
from elf.offline.progress import Steps


class Soundness:
    """Checks each file once.

    Attributes:
        checked: the files, by their paths.
        damages: a sentence for each file that is not what its manifest says.
    """

    def __init__(self) -> None:
        self.checked: dict[str, ArchivedFile] = {}
        self.damages: list[str] = []
        self._unreadable: set[str] = set()

    def readable(self, files: Sequence[ArchivedFile], steps: Steps) -> list[ArchivedFile]:
        """Check files, O(bytes) for those not seen before, and return those that hold events in their columns.

        A changed file that still is one is read, so that the keys that were changed in it are found.
        """
        fresh = [file for file in files if str(file.path) not in self.checked]
        steps.checking(len(fresh))
        for file in fresh:
            self.checked[str(file.path)] = file
            try:
                check_file(file)
            except (ArchiveError, OSError) as error:
                readable = _has_columns(file)
                self.damages.append(f"{error}" + ("" if readable else "; it cannot be read and is left out"))
                if not readable:
                    self._unreadable.add(str(file.path))
            steps.checked()
        return [file for file in files if str(file.path) not in self._unreadable]


def _has_columns(file: ArchivedFile) -> bool:
    """Whether a file is Parquet throughout, with the columns of its manifest in their types."""
    try:
        events = pl.read_parquet(parquet_of(file.path), hive_partitioning=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return False
    known: dict[pl.DataType, str] = {kind.dtype: kind.ddl for kind in SqlType}
    stored = {
        name: "TIMESTAMP" if isinstance(dtype, pl.Datetime) else known.get(dtype)
        for name, dtype in events.schema.items()
    }
    return all(stored.get(name) == kind for name, kind in file.entry.columns.items())
