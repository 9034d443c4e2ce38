"""Tables as Spark writes them, against DuckDB and the batch plan; and that all three readers agree on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.archive.archive import Archive
from elf.agents.archive.layout import ArchivedFile, FileEntry
from elf.agents.errors import JobSpecError
from elf.demo.clicks import START_MS
from elf.offline.events import find_files, read_events
from elf.offline.grid import Grid
from elf.offline.pipeline.computing import SparkCompute, rests_on
from elf.offline.pipeline.run import Done, PipelineJob, Settings, run_pipeline
from elf.offline.plan import SparkPlan
from elf.offline.progress import Steps
from elf.offline.verify.rows import RowsPlan
from tests.elf.offline.conftest import COLUMNS, click_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop

#: LIMIT cuts through equal counts, and some names need quotes.
TOP = """SELECT product, window.start AS since, count(*) AS clicks, sum(price_cents) AS `cents, all`, max(ts) AS last
FROM clicks WHERE event = 'view'
GROUP BY window(ts, '40 seconds', '20 seconds'), product HAVING count(*) > 1 ORDER BY clicks DESC LIMIT 3"""


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of one's own: the module's is everybody's in this process, and refuses where one left rows unread."""
    with duckdb.connect() as database:
        yield database


def job(query: str, name: str = "top") -> PipelineJob:
    return PipelineJob("ops", name, "clicks", query, {}, 0)


def run(job: PipelineJob, archives: list[Path], out: Path, since_ms: int | None = None) -> list[Done]:
    done: list[Done] = []
    run_pipeline(job, Settings(archives, out, since_ms), done=done.append)
    return done


def test_windows_are_what_duckdb_and_the_batch_plan_compute(
    spark: SparkSession, shop: Shop, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (done,) = run(job(TOP), shop.folders, tmp_path)
    assert done.windows == done.with_rows + 1, "of one, HAVING takes all rows"
    assert done.events == shop.events.height
    table = f"'{tmp_path}/ops/top/window=*/rows.parquet'"
    columns = 'product, epoch_ms(since), clicks, "cents, all", epoch_ms(last)'
    got = database.execute(f"SELECT {columns} FROM {table} ORDER BY since, clicks DESC, product").fetchall()
    shop.events.with_columns(pl.col("ts").dt.epoch("ms")).write_parquet(tmp_path / "events.parquet")
    clicks = f"'{tmp_path}/events.parquet'"
    placed = database.sql(
        f"""SELECT product, since, count(*) AS clicks, sum(price_cents)::BIGINT AS cents, max(ts) AS last FROM (
            SELECT *, unnest([ts // 20000 * 20000, ts // 20000 * 20000 - 20000]) AS since FROM {clicks}
            WHERE event = 'view') GROUP BY product, since HAVING count(*) > 1
        QUALIFY row_number() OVER (PARTITION BY since ORDER BY count(*) DESC, product) <= 3
        ORDER BY since, clicks DESC, product"""
    )
    assert got == placed.fetchall() and len(got) > 10

    grid = Grid(done.since_ms or 0, (done.until_ms or 0) - 40_000, 40_000, 20_000)
    rows = RowsPlan(TOP).run_all(read_events(spark, find_files(shop.folders, "clicks"), COLUMNS), grid)
    frame = pl.read_parquet(tmp_path / "ops/top/window=*/rows.parquet", hive_partitioning=False)
    for start_ms in grid.starts:
        batch = {row[:1] + row[2:3] for row in rows[start_ms].rows}
        own = frame.filter(pl.col("_start").dt.epoch("ms") == start_ms)
        assert own["clicks"].is_sorted(descending=True)
        assert set(own.select("product", "clicks").rows()) <= batch and own.height == min(3, len(batch))


def test_spark_polars_and_duckdb_read_the_same_typed_table(
    spark: SparkSession, shop: Shop, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    begun_us = time.time_ns() // 1_000
    query = "SELECT category, avg(rating) AS rating FROM clicks GROUP BY window(ts, '1 minute'), category"
    run(job(query), shop.folders, tmp_path)
    names = ["category", "rating", "_start", "_end", "_files", "_agents", "_computed"]
    by_spark = spark.read.parquet(str(tmp_path / "ops/top"))
    kinds = dict(by_spark.dtypes)
    assert [kinds[name] for name in names] == [
        *("string", "double", "timestamp", "timestamp", "int", "int", "timestamp")
    ]
    assert sorted(row["_end"].timestamp() for row in by_spark.select("_end").distinct().collect()) == [
        START_MS / 1_000 + 60 * minutes for minutes in (0, 1, 2)
    ]
    by_polars = pl.read_parquet(tmp_path / "ops/top").select(names)
    utc = pl.Datetime("us", "UTC")
    assert by_polars.dtypes == [pl.String, pl.Float64, utc, utc, pl.Int32, pl.Int32, utc]
    by_duckdb = database.sql(
        f"SELECT category, rating, epoch_us(_start), \"window\" FROM '{tmp_path}/ops/top/*/*.parquet' ORDER BY ALL"
    )
    assert by_duckdb.types[-1] == "BIGINT" and kinds["window"] == "bigint"
    rows = pl.read_parquet(tmp_path / "ops/top").select("category", "rating", pl.col("_start").dt.epoch("us"), "window")
    assert by_duckdb.fetchall() == rows.sort(pl.all()).rows()
    assert set(by_polars["_agents"]) == {2} and by_polars["_computed"].dt.epoch("us").min() >= begun_us // 1_000 * 1_000  # type: ignore[operator]
    assert by_polars.height == spark.read.parquet(str(tmp_path / "ops/top")).count()


def test_late_events_and_a_total(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a", "clicks", "web-1", rows_max=10_000)
    events = click_frame(1, 300)
    for sequence, part in enumerate((events[:200], events[200:])):
        archive.append(part)
        archive.prepare(sequence)
        archive.commit(sequence)
        for query, name in (
            ("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '30 seconds')", "windows"),
            ("SELECT count(*) AS n, min(ts) AS first FROM clicks WHERE event = 'none'", "total"),
        ):
            since_ms = START_MS + 30_000
            assert len(run(job(query, name), [tmp_path / "a"], tmp_path / "out", since_ms)) == 1
    windows = pl.read_parquet(tmp_path / "out/ops/windows").sort("_start")
    at_ms = events["ts"].dt.epoch("ms")
    expected = [
        int(at_ms.is_between(START_MS + begin, START_MS + begin + 30_000, closed="left").sum())
        for begin in (30_000, 60_000, 90_000)
    ]
    assert windows["n"].to_list() == expected
    # Computed again were the windows that the second file touches, and no others.
    late_ms = int(events[200:]["ts"].dt.epoch("ms").min())  # type: ignore[arg-type]
    newest = windows["_computed"].max()
    assert {
        (row["_end"].timestamp() * 1_000 > late_ms) == (row["_computed"] == newest)
        for row in windows.iter_rows(named=True)
    } == {True}
    total = pl.read_parquet(tmp_path / "out/ops/total/rows.parquet")
    assert total.columns == ["n", "first", "_files", "_agents", "_computed"]
    assert total.select("n", "first", "_files").row(0) == (0, None, 2)


def test_a_name_that_the_table_has_itself_is_refused() -> None:
    query = "SELECT count(*) AS `Window` FROM clicks"
    with pytest.raises(JobSpecError, match="a column 'Window' of its own: give this output another name"):
        SparkCompute(SparkPlan(query), "local[2]", {}, Steps())


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-50, 150), st.integers(0, 60)), max_size=8),
    st.integers(1, 4),
    st.integers(1, 10),
    st.integers(0, 8),
)
def test_windows_say_how_many_files_and_agents_they_rest_on(
    files: list[tuple[str, int, int]], times: int, slide_ms: int, more: int
) -> None:
    grid = Grid(0, more * slide_ms, times * slide_ms, slide_ms)
    entries = [
        ArchivedFile(Path(), FileEntry("", "clicks", agent, 0, 1, 1, "", first, first + length, {}))
        for agent, first, length in files
    ]
    over = [
        [
            file.entry.agent
            for file in entries
            if file.entry.first_ms < start + grid.size_ms and file.entry.last_ms >= start
        ]
        for start in grid.starts
    ]
    assert rests_on(entries, grid) == ([len(each) for each in over], [len(set(each)) for each in over])
