"""What Spark reads of the archive: each event once while its files are merged, in the types of the job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agents.archive.archive import Archive
from agents.archive.keeper import Keeper
from agents.archive.layout import MERGED
from agents.archive.merging import GRACE_MS, QUIET_MS
from agents.damages import Damages
from elf.offline.events import find_files, read_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_767_225_600_000


def test_spark_reads_each_event_once_whatever_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=1_000)
    now_ms = time.time_ns() // 1_000_000
    keeper = Keeper(tmp_path, "web-1", ["clicks"], None, None, lambda: now_ms, Damages())
    for sequence in (1, 2, 3):
        number = pl.int_range(sequence * 10, sequence * 10 + 10, eager=True)
        at = pl.from_epoch(START_MS + number, time_unit="ms").cast(pl.Datetime("ms"))
        archive.append(pl.DataFrame({"ts": at, "number": number}))
        archive.prepare(sequence)
        archive.commit(sequence)
    # Listed before anything is merged, read after: they are there for as long as GRACE_MS.
    early = read_events(spark, find_files([tmp_path], "clicks"), {"number": "BIGINT"})
    now_ms += QUIET_MS + 1_000
    keeper.turn()
    waiting = find_files([tmp_path], "clicks")
    assert [MERGED in file.path.parts for file in waiting] == [True]
    late = read_events(spark, waiting, {"number": "BIGINT"})
    assert sorted(row.number for row in early.collect()) == list(range(10, 40))
    now_ms += GRACE_MS + 1_000
    keeper.turn()
    assert sorted(row.number for row in late.collect()) == list(range(10, 40))
    assert [MERGED in file.path.parts for file in find_files([tmp_path], "clicks")] == [False]
