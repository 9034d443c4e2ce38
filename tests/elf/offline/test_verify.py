"""Verification over two agents' archives: right results agree, one changed cell is found and named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agents.archive.archive import Archive, list_files
from agents.errors import JobError
from elf.demo.clicks import START_MS
from elf.offline.verify import JobText, OfflineError, run_verify, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop

QUERY = """SELECT product, count(*) AS clicks, avg(rating) AS mean, max(ts) AS newest FROM clicks
WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '30 seconds', '10 seconds') ORDER BY clicks DESC LIMIT 10"""
COLUMNS = {"event": "STRING", "category": "STRING", "product": "STRING", "rating": "DOUBLE"}
JOB = JobText("shop", "top", "clicks", QUERY, COLUMNS)
Result = dict[str, Any]


def result_of(events: pl.DataFrame, start_ms: int, **label: Any) -> Result:
    """The Result an agent would publish, computed by Polars."""
    at_ms = pl.col("ts").dt.epoch("ms")
    newest = pl.col("ts").max().dt.to_string("%Y-%m-%dT%H:%M:%S%.3fZ").alias("newest")
    top = (
        events.filter(at_ms >= start_ms, at_ms < start_ms + 30_000, event="click", category="Video Games")
        .group_by("product")
        .agg(pl.len().alias("clicks"), pl.col("rating").mean().alias("mean"), newest)
        .sort("clicks", "product", descending=[True, False])
        .head(10)
    )
    kinds = ("STRING", "BIGINT", "DOUBLE", "TIMESTAMP")
    completeness = {"expected": 2, "reported": 2, "missing": [], "late": 0, "shed": 0, "gaps": 0, "revision": 0}
    return {
        "job": JOB.key,
        "window": {"start_ms": start_ms, "end_ms": start_ms + 30_000},
        "columns": [{"name": name, "type": kind} for name, kind in zip(top.columns, kinds, strict=True)],
        "rows": top.to_dicts(),
        "completeness": completeness | {"status": "final"} | label,
    }


@pytest.fixture
def result(shop: Shop) -> Callable[..., Result]:
    return lambda start_ms=START_MS + 30_000, **label: result_of(shop.events, start_ms, **label)


def test_right_results_agree(spark: SparkSession, shop: Shop, result: Callable[..., Result]) -> None:
    results = [result(START_MS + at_ms) for at_ms in (30_000, 40_000, 80_000)]
    assert all(len(each["rows"]) == 10 for each in results)
    report = verify(JOB, shop.folders, results)
    assert report.agrees and not report.damaged
    assert report.verdict.startswith("agrees: 3 windows of shop/top")
    assert [(window.rows_online, window.rows_offline) for window in report.windows] == [(10, 10)] * 3
    assert json.loads(report.to_json())["agrees"] is True


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [(0, "clicks", 1), (3, "mean", 0.123), (9, "newest", "2026-01-01T00:00:31.000Z"), (5, "mean", None)],
)
def test_one_changed_cell_is_found_and_named(
    spark: SparkSession, shop: Shop, result: Callable[..., Result], row: int, column: str, value: Any
) -> None:
    tampered = copy.deepcopy(result())
    right = tampered["rows"][row][column]
    tampered["rows"][row][column] = value
    report = verify(JOB, shop.folders, [tampered])
    (difference,) = report.windows[0].differences
    assert (difference.kind, difference.column) == ("cell", column)
    assert difference.key == {"product": tampered["rows"][row]["product"]}
    assert difference.online != difference.offline
    if column == "clicks":
        assert (difference.online, difference.offline) == (value, right)
    assert not report.agrees and not report.explained
    text = report.text(width=200)
    assert tampered["rows"][row]["product"] in text and "differs: 1 difference" in text


def test_a_missing_agent_is_announced_by_the_label(
    spark: SparkSession, shop: Shop, result: Callable[..., Result]
) -> None:
    half = shop.events.head(shop.events.height // 2)
    label = {"missing": ["web-2"], "reported": 1, "status": "final_incomplete"}
    report = verify(JOB, shop.folders, [result_of(half, START_MS + 30_000, **label)])
    assert not report.agrees and report.explained
    assert report.windows[0].label == ["missing web-2"]
    assert report.verdict.startswith("differs, as its label announces")


def test_open_windows_are_skipped(shop: Shop, result: Callable[..., Result]) -> None:
    report = verify(JOB, shop.folders, [result(status="open")])
    assert report.windows[0].skipped and not report.agrees
    assert report.verdict == "nothing to compare: no final window of shop/top"


def test_a_window_of_nothing_agrees_with_nothing_and_says_so(
    spark: SparkSession, shop: Shop, result: Callable[..., Result]
) -> None:
    report = verify(JOB, shop.folders, [result(START_MS - 86_400_000)])
    assert report.agrees, "no cell differs"
    assert report.verdict == "nothing to compare: 1 window of shop/top without rows, and no archived events"
    text = report.text()
    assert "no rows, no events" in text and "agrees" not in text
    filtered = JobText("shop", "top", "clicks", QUERY.replace("'Video Games'", "'no such'"), COLUMNS)
    found_none = verify(filtered, shop.folders, [result() | {"rows": []}])
    assert found_none.verdict.startswith("agrees: 1 window"), "events were archived, and none is wanted"


def test_a_changed_archive_file_is_named(spark: SparkSession, tmp_path: Path, shop: Shop) -> None:
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=100_000)
    archive.append(shop.events)
    archive.prepare(1)
    archive.commit(1)
    file = list_files(tmp_path, "clicks", START_MS, START_MS + 60_000)[-1]
    events = pl.read_parquet(file.path, hive_partitioning=False)
    video = (pl.col("category") == "Video Games") & (pl.col("event") == "click")
    doubled = pl.concat([events, events.filter(video)])
    doubled.write_parquet(file.path)
    report = verify(JOB, [tmp_path], [result_of(shop.events, START_MS + 30_000)])
    assert len(report.damaged) == 1 and file.path.name in report.damaged[0]
    assert report.windows[0].differences and not report.agrees and not report.explained
    assert report.verdict == f"the archive is damaged: 1 of {report.archive_files} files"


def test_a_job_without_windows_is_compared_through_its_last_event(spark: SparkSession, shop: Shop) -> None:
    job = JobText(
        "shop", "all", "clicks", "SELECT event, count(*) AS n FROM clicks GROUP BY event", {"event": "STRING"}
    )
    through_ms = START_MS + 50_000
    counted = shop.events.filter(pl.col("ts").dt.epoch("ms") < through_ms).group_by("event").len("n")
    result = {
        "window": None,
        "through_ms": through_ms,
        "columns": [{"name": "event", "type": "STRING"}, {"name": "n", "type": "BIGINT"}],
        "rows": counted.to_dicts(),
        "completeness": {"status": "final", "expected": 2, "reported": 2},
    }
    assert verify(job, shop.folders, [result]).agrees


class Client:
    """An agent's answers, by window."""

    def __init__(self, description: dict[str, Any], results: dict[str, Result]) -> None:
        self._description, self._results = description, results

    def job(self, name: str) -> dict[str, Any]:
        return self._description

    def query(self, name: str, *, window: str) -> Result:
        return self._results[window]


def test_run_verify_asks_the_agent(spark: SparkSession, shop: Shop, result: Callable[..., Result]) -> None:
    definition = {"source": "clicks", "query": QUERY, "columns": COLUMNS}
    flat = {"creator": "shop", "name": "top", "master": "127.0.0.1:1", **definition}
    nested = {"creator": "shop", "name": "top", "definition": definition}
    for description in (flat, nested):
        report = run_verify(Client(description, {"latest": result()}), "top", ["latest"], shop.folders)
        assert report.agrees and report.job == "shop/top"
    with pytest.raises(JobError, match="description of job 'top' is incomplete"):
        run_verify(Client({"name": "top"}, {}), "top")


def test_an_archive_that_is_not_there_is_said_so(tmp_path: Path, result: Callable[..., Result]) -> None:
    with pytest.raises(OfflineError, match=r"no archive folder holds events of source 'clicks' .*--archive"):
        verify(JOB, [tmp_path / "nowhere"], [result()])
