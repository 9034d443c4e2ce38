"""Computes windows of a table with Spark and leaves one Parquet file for each in a folder.

Rows go from the executors to the files and never through this process, so a window may have more rows than memory here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elf.agents.archive.layout import ArchivedFile
from elf.agents.errors import JobSpecError
from elf.offline.damaged import naming_damages
from elf.offline.events import quoted, read_events
from elf.offline.grid import START, Grid
from elf.offline.pipeline.due import Pass
from elf.offline.plan import SparkPlan
from elf.offline.progress import Steps
from elf.offline.session import OfflineError, in_one_sentence, open_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Columns that every table has beside the query's: the window (not in a total), the archive files and the agents that
#: may have events of it, and when it was computed.
BESIDE = ("_start", "_end", "_files", "_agents", "_computed")
#: The partition of windows, by their start in ms, which readers show as a BIGINT column.
PARTITION = "window"


class SparkCompute:
    """Computes with Spark, which starts when it is needed.

    Args:
        plan: the job's query.
        master: Spark's master.
        conf: Spark's settings.
        steps: is told how far it is.

    Raises:
        JobSpecError: an output column has the name of one that the table has itself.
    """

    def __init__(self, plan: SparkPlan, master: str, conf: Mapping[str, str], steps: Steps) -> None:
        self._plan = plan
        self._master = master
        self._conf = conf
        self._steps = steps
        self._spark: SparkSession | None = None
        for item in plan.query.items:
            if item.name.lower() in (*BESIDE, PARTITION):
                raise JobSpecError(f"a table has a column {item.name!r} of its own: give this output another name (AS)")

    def __call__(
        self, files: Sequence[ArchivedFile], columns: Mapping[str, str], chosen: Pass, now_ms: int, folder: Path
    ) -> dict[int | None, Path]:
        """Write each window's rows to a file of its own in `folder`.

        Args:
            files: the archive, as far as it may have events of the windows.
            columns: the columns to read, and their SQL types.
            chosen: the windows.
            now_ms: wall clock.
            folder: empty.

        Returns:
            The files of windows that have rows, by their starts; that of a total by None.

        Raises:
            ElfError: it could not be computed.
        """
        if self._spark is None:
            self._steps.say("starting Spark")
            self._spark = open_session(self._master, self._conf)
        # What Polars and DuckDB read as times with a zone, and Spark as TIMESTAMP.
        self._spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        reading = self._steps.computing(self._spark, sum(file.entry.rows for file in files))
        with naming_damages(files), in_one_sentence(), reading:
            rows = self._rows(files, columns, chosen, now_ms)
            writer = rows.write.option("maxRecordsPerFile", 0).option("compression", "zstd")
            if chosen.grid is not None:
                writer = writer.partitionBy(PARTITION)
            writer.parquet(str(folder / "rows"))
        return dict(_written(folder / "rows", chosen))

    def _rows(self, files: Sequence[ArchivedFile], columns: Mapping[str, str], chosen: Pass, now_ms: int) -> DataFrame:
        """Return the table's rows of these windows, those of one window in one partition and in order."""
        from pyspark.sql import functions as F

        assert self._spark is not None
        events = read_events(self._spark, files, columns)
        grid = chosen.grid
        if grid is None and chosen.since_ms is not None:
            events = events.filter(F.col("ts") >= F.timestamp_millis(F.lit(chosen.since_ms)))
        rows = self._plan.table(events, grid)
        computed = F.timestamp_millis(F.lit(now_ms)).alias("_computed")
        outputs = [F.col(quoted(item.name)) for item in self._plan.query.items]
        if grid is None:
            agents = {file.entry.agent for file in files}
            counts = F.lit(len(files)).cast("int").alias("_files"), F.lit(len(agents)).cast("int").alias("_agents")
            return rows.select(*outputs, *counts, computed)
        bounds = [
            F.timestamp_millis(F.col(START) + F.lit(length_ms)).alias(name)
            for name, length_ms in (("_start", 0), ("_end", grid.size_ms))
        ]
        index = ((F.col(START) - F.lit(grid.first_ms)) / F.lit(grid.slide_ms)).cast("int")
        file_counts, agent_counts = rests_on(files, grid)
        counts = _at(file_counts, index).alias("_files"), _at(agent_counts, index).alias("_agents")
        return rows.select(*outputs, *bounds, *counts, computed, F.col(START).alias(PARTITION))


def rests_on(files: Sequence[ArchivedFile], grid: Grid) -> tuple[list[int], list[int]]:
    """Return for each window of a grid how many files may have events of it, and of how many agents."""
    per_agent: dict[str, np.ndarray] = {}
    for file in files:
        steps = per_agent.setdefault(file.entry.agent, np.zeros(len(grid.starts) + 1, dtype=np.int64))
        first = max(0, (file.entry.first_ms - grid.first_ms - grid.size_ms) // grid.slide_ms + 1)
        last = min(len(grid.starts) - 1, (file.entry.last_ms - grid.first_ms) // grid.slide_ms)
        if first <= last:
            steps[first] += 1
            steps[last + 1] -= 1
    counts = np.cumsum([np.zeros(len(grid.starts) + 1, dtype=np.int64), *per_agent.values()], axis=1)[:, :-1]
    return counts.sum(axis=0).tolist(), (counts > 0).sum(axis=0).tolist()


def _at(values: Sequence[int], index: Column) -> Column:
    """Look a number up. One literal, for a list of as many would be planned one by one."""
    from pyspark.sql import functions as F

    return F.split(F.lit(",".join(map(str, values))), ",")[index].cast("int")


def _written(folder: Path, chosen: Pass) -> Iterator[tuple[int | None, Path]]:
    if not (folder / "_SUCCESS").exists():
        raise OfflineError(f"Spark wrote nothing to {folder}: all its machines need to see the --out folder")
    for part in folder.rglob("part-*.parquet"):
        start = None if chosen.grid is None else int(part.parent.name.partition("=")[2])
        yield start, part
