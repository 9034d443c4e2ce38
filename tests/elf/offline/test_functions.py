"""Installed functions on Spark: the same rows as an agent has, without the events that a function fails on."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.worker.poison import insert_whatever
from elf.cbt import BufferTree
from elf.cbt.schema import INTERVAL
from elf.offline.asking import JobText
from elf.offline.backfill.states import state_frames
from elf.offline.session import OfflineError, in_one_sentence
from elf.offline.verify.rows import RowsPlan
from tests.elf.offline.shown import shown
from tests.elf.offline.verify.master import verify
from tests.installing import install, install_example

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODULE = """
import datetime
import elf
import polars as pl

@elf.scalar(args=["TIMESTAMP", "DATE", "BOOLEAN", "INT"], returns="TIMESTAMP")
def spark_moved(at, day, forward, hours):
    if at is None:
        return None
    assert at.tzinfo is None
    if hours == 13:
        raise ValueError("an unlucky number")
    return at + datetime.timedelta(hours=hours if forward else -hours, days=0 if day is None else day.day)

@elf.vectorised(args=["STRING", "DOUBLE"], returns="DOUBLE", strict=True)
def spark_weight(text, factor):
    assert text.null_count() == 0
    return text.str.len_chars() * factor

@elf.scalar(args=["BIGINT"], returns="BIGINT")
def spark_fragile(number):
    if number is None or number > 2:
        raise ValueError("too many")
    return number

@elf.aggregate(args=["TIMESTAMP"], returns="TIMESTAMP")
class Latest:
    def create(self, values):
        return max((value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) for value in values)
    def merge(self, left, right):
        return max(left, right)
    def finish(self, state):
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=state)
"""
POINTS = {name: f"spark_functions:{name}" for name in ("spark_moved", "spark_weight", "spark_fragile")}
POINTS["spark_latest"] = "spark_functions:Latest"
START_MS = 1_767_225_600_000
COLUMNS = {"k": SqlType.STRING, "n": SqlType.INT, "day": SqlType.DATE, "at": SqlType.TIMESTAMP}


@pytest.fixture
def frame() -> pl.DataFrame:
    day, at = datetime.date(2026, 2, 3), datetime.datetime(2026, 7, 1, 2, 30, 0, 123_456)
    rows: list[tuple[Any, ...]] = [
        (0, "a", 1, day, at), (1, "a", 2, None, at), (2, None, 3, day, None), (3, "bcd", 13, day, at),
        (4, "a", None, day, at), (5, "é", -4, day, at), (6, "", 5, day, datetime.datetime(1900, 1, 1)),
    ]  # fmt: skip
    schema = {"ts": pl.Int64, **{name: kind.dtype for name, kind in COLUMNS.items()}}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        (pl.col("ts") + START_MS).cast(pl.Datetime("ms"))
    )


def plan_of(query: str, columns: dict[str, SqlType] = COLUMNS) -> Plan:
    return compile_job(load_definition(query, filename="job.sql"), columns)


class Taker:
    """Events as an agent takes them in."""

    jobs = "the job"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tree = BufferTree(self.plan.schema)

    def insert(self, events: pl.DataFrame) -> None:
        self.tree.insert(self.plan.reduce(events))

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        pass

    def rows(self, window: tuple[int, int] | None) -> pl.DataFrame:
        return self.plan.finish(self.plan.schema.merge_window([self.tree.snapshot()]), window)


def on_spark(spark: SparkSession, frame: pl.DataFrame, tmp_path: Path) -> DataFrame:
    frame.with_columns(
        pl.col("ts").cast(pl.Datetime("us", "UTC")), pl.col("at").dt.replace_time_zone("UTC")
    ).write_parquet(tmp_path / "events.parquet")
    return spark.read.parquet(str(tmp_path / "events.parquet"))


def times(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times and dates as Spark's rows have them, in microseconds and days."""
    begin, step = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)

    def cell(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return (value - begin) // step
        return (value - begin.date()).days if isinstance(value, datetime.date) else value

    return [tuple(map(cell, row)) for row in rows]


def test_spark_calls_functions_as_agents_do(
    spark: SparkSession, frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, "spark-functions", POINTS, {"spark_functions": MODULE})
    query = """SELECT spark_moved(at, day, n > 0, n) AS moved, spark_weight(k, 2) AS weight, count(*) AS c,
      spark_fragile(count(*)) AS few, spark_latest(at) FILTER (WHERE n > 0) AS latest, spark_latest(ts) AS newest
    FROM clicks GROUP BY 1, 2, window(ts, '1 minute') ORDER BY 1, 2"""
    taker = Taker(plan_of(query))
    assert insert_whatever(taker, frame) == 2  # n = 13, and no number of hours
    ours = times(taker.rows((START_MS, START_MS + 60_000)).rows())
    theirs = RowsPlan(query).run(on_spark(spark, frame, tmp_path), (START_MS, START_MS + 60_000))
    assert theirs.rows == ours and len(ours) == 5
    assert theirs.types == ("timestamp", "double", "bigint", "bigint", "timestamp", "timestamp")


def test_what_is_backfilled_is_what_agents_would_have(
    spark: SparkSession, frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, "spark-functions", POINTS, {"spark_functions": MODULE})
    keyed = "FROM clicks WHERE spark_fragile(n) > 0 GROUP BY spark_weight(k, 2), window(ts, '1 minute')"
    taker = Taker(plan_of(f"SELECT spark_weight(k, 2) AS w, sum(n) AS s {keyed}"))
    assert insert_whatever(taker, frame) == 4
    events, span = on_spark(spark, frame, tmp_path), (START_MS, START_MS + 60_000)
    ((_, states),) = state_frames(taker.plan, events, span)
    assert [tuple(row) for row in states.collect()] == taker.tree.snapshot().select(states.columns).rows()
    plan = plan_of(f"SELECT spark_latest(at) AS x {keyed}")
    with pytest.raises(JobSpecError, match=r"^spark_latest\(\) cannot be backfilled"):
        list(state_frames(plan, events, span))


def test_what_fails_on_grouped_values_is_one_sentence(
    spark: SparkSession, frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, "spark-functions", POINTS, {"spark_functions": MODULE})
    plan = RowsPlan("SELECT spark_fragile(count(*)) AS few FROM clicks")
    said = "^the function spark_fragile fails on Spark: ValueError: too many$"
    with pytest.raises(OfflineError, match=said), in_one_sentence():
        plan.run(on_spark(spark, frame, tmp_path), None)


def test_what_is_not_installed_is_named(spark: SparkSession, frame: pl.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(
        JobSpecError, match="does not call the function 'spark_nothing', and none of that name is installed"
    ):
        RowsPlan("SELECT spark_nothing(k) AS x, count(*) AS n FROM clicks GROUP BY 1").run(
            on_spark(spark, frame, tmp_path), None
        )


def test_the_example_is_verified(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = install_example(tmp_path / "site", monkeypatch)
    paths = ["/shop/toys/kite", "/shop/toys/train", None, "/", "/shop/books"]
    frame = pl.DataFrame(
        {
            "ts": pl.Series([START_MS + 97 * at for at in range(300)]).cast(pl.Datetime("ms")),
            "path": [paths[at % 5] for at in range(300)],
            "cents": [None if at % 7 == 0 else 37 * at % 20_011 - 37 for at in range(300)],
        }
    )
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=2_000)
    archive.append(frame)
    archive.prepare(0)
    archive.commit(0)
    taker = Taker(plan_of(query, {"path": SqlType.STRING, "cents": SqlType.BIGINT}))
    assert insert_whatever(taker, frame) > 0
    rows = taker.rows((START_MS, START_MS + 60_000))
    assert rows.height > 5 and taker.tree.snapshot()[INTERVAL].n_unique() == 1
    completeness = {"expected": 1, "reported": 1, "missing": [], "late": 0, "shed": 0, "gaps": 1, "revision": 0}
    result = {
        "job": "shop/typical",
        "window": {"start_ms": START_MS, "end_ms": START_MS + 60_000},
        "columns": [{"name": name, "type": kind.value} for name, kind in taker.plan.output],
        "rows": rows.to_dicts(),
        "completeness": completeness | {"status": "final"},
    }
    columns = {"path": "STRING", "cents": "BIGINT"}
    report = verify(JobText("shop", "typical", "clicks", query, columns), [tmp_path], [result])
    assert report.agrees, shown(report, 200)
    assert report.windows[0].rows_offline == rows.height
