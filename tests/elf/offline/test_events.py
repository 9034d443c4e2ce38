"""What Spark reads of the archive: each event once while its files are merged, few files, few columns."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.layout import HOUR_MS, MERGED, ArchiveError
from elf.agents.archive.merge import GRACE_MS, QUIET_MS
from elf.agents.host.disk_damage import Damages
from elf.agents.language.types import SqlType
from elf.demo.clicks import START_MS
from elf.offline.events import find_files, read_events
from elf.offline.grid import Grid
from elf.offline.plan import SparkPlan
from tests.agents.archive.archived import read_archive
from tests.elf.offline.verify.master import COLUMNS, QUERY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.elf.offline.conftest import Shop


def archive_of(folder: Path, *values: tuple[str, SqlType, object]) -> None:
    """Archive a file for each value of `price`, with its type, an hour after the one before."""
    archive = Archive(folder, "clicks", "web-1", rows_max=1_000)
    for hour, (name, kind, value) in enumerate(values):
        at = pl.Series([START_MS + hour * HOUR_MS]).cast(pl.Datetime("ms"))
        archive.append(pl.DataFrame({"ts": at, name: pl.Series([value], dtype=kind.dtype)}))
        archive.prepare(hour + 1)
        archive.commit(hour + 1)


def prices(frame: DataFrame) -> list[object]:
    return [row.price for row in frame.orderBy("ts").collect()]


def test_a_new_attribute_and_a_wider_type_break_no_old_file(spark: SparkSession, tmp_path: Path) -> None:
    big = 2**40 + 1
    archive_of(
        tmp_path,
        ("product", SqlType.STRING, "p1"),
        ("price", SqlType.INT, 3),
        ("price", SqlType.BIGINT, big),
        ("price", SqlType.DOUBLE, 1.5),
    )
    files = find_files([tmp_path], "clicks")
    assert prices(read_events(spark, files, {"price": "DOUBLE"})) == [None, 3.0, float(big), 1.5]
    assert prices(read_events(spark, files[:3], {"price": "BIGINT"})) == [None, 3, big]
    assert prices(read_events(spark, files[:3], {"price": "INT"})) == [None, 3, None], "as an agent reads it"
    assert read_archive(tmp_path, "clicks").sort("ts")["price"].to_list() == [None, 3.0, float(big), 1.5]


def test_a_type_that_cannot_be_read_as_another_is_refused_with_files_and_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive_of(tmp_path, ("price", SqlType.STRING, "1.50"), ("price", SqlType.DOUBLE, 1.5))
    said = (
        r"column 'price' was archived as STRING and is wanted as DOUBLE, which it cannot be read as: "
        r"1 file with events of 2026-01-01T00:00:00Z to 2026-01-01T00:00:00Z, such as .*/web-1-0000000001-000.parquet; "
        r"ask for windows outside of that time, or declare the column as STRING"
    )
    with pytest.raises(ArchiveError, match=said):
        read_events(spark, find_files([tmp_path], "clicks"), {"price": "DOUBLE"})
    with pytest.raises(ArchiveError, match=r"'price' was archived as DOUBLE and is wanted as STRING, .*hour=01/"):
        read_archive(tmp_path, "clicks")
    later = find_files([tmp_path], "clicks", START_MS + HOUR_MS)
    assert prices(read_events(spark, later, {"price": "DOUBLE"})) == [1.5]
    assert read_archive(tmp_path, "clicks", START_MS + HOUR_MS)["price"].to_list() == [1.5]
    assert read_archive(tmp_path, "clicks", columns=[]).height == 2, "other columns are read"


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


def physical(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_only_the_files_columns_and_times_of_the_windows_are_read(spark: SparkSession, shop: Shop) -> None:
    everything = find_files(shop.folders, "clicks")
    files = find_files(shop.folders, "clicks", START_MS + 80_000, START_MS + 120_000)
    assert 0 < len(files) < len(everything)
    grid = Grid(START_MS + 80_000, START_MS + 90_000, 30_000, 10_000)
    spark.conf.set("spark.sql.maxMetadataStringLength", 10_000)
    plan = physical(SparkPlan(QUERY).rows(read_events(spark, files, COLUMNS), grid))
    spark.conf.unset("spark.sql.maxMetadataStringLength")
    read = re.findall(r"ReadSchema: struct<([^>]*)>", plan)
    assert read == ["ts:timestamp,event:string,category:string,product:string,rating:double"], "no other column"
    assert f"InMemoryFileIndex({len(files)} paths)" in plan
    (pushed,) = re.findall(r"PushedFilters: \[([^\]]*)\]", plan)
    assert "GreaterThanOrEqual(ts" in pushed and "LessThan(ts" in pushed, "row groups are skipped by time"
    assert "EqualTo(event,click)" in pushed


def test_files_of_other_schemas_are_read_together(
    spark: SparkSession, shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("other")
    archive = Archive(folder, "clicks", "web-3", rows_max=100)
    odd = pl.DataFrame(
        {"ts": [0], "quantity": [5], "hour": ["nine"]},
        schema={"ts": pl.Int64(), "quantity": pl.Int64(), "hour": pl.String()},
    ).with_columns(ts=pl.from_epoch("ts", time_unit="ms"))
    archive.append(odd)
    archive.prepare(1)
    archive.commit(1)
    frame = read_events(
        spark,
        find_files([*shop.folders, folder, folder], "clicks"),
        {"quantity": "INT", "hour": "STRING", "day": "DATE"},
    )
    assert frame.count() == shop.events.height + 1
    assert [tuple(row)[1:] for row in frame.filter("hour IS NOT NULL").collect()] == [(5, "nine", None)]
    assert read_events(spark, [], {"day": "DATE"}).schema.simpleString() == "struct<ts:timestamp,day:date>"
