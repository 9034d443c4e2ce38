"""Verification over two agents' archives: right results agree, one changed cell is found and named."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from elf.agents.archive.archive import Archive, list_files
from elf.demo.clicks import START_MS
from elf.offline.asking import JobText
from elf.offline.session import OfflineError
from elf.offline.verify.run import run_verify
from tests.elf.offline.shown import shown
from tests.elf.offline.verify.master import COLUMNS, JOB, QUERY, Master, Result, result_of, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop


@pytest.fixture
def result(shop: Shop) -> Callable[..., Result]:
    return lambda start_ms=START_MS + 30_000, **label: result_of(shop.events, start_ms, **label)


def test_right_results_agree(spark: SparkSession, shop: Shop, result: Callable[..., Result]) -> None:
    results = [result(START_MS + at_ms, backfilled=at_ms // 40_000) for at_ms in (30_000, 40_000, 80_000)]
    assert all(len(each["rows"]) == 10 for each in results)
    report = verify(JOB, shop.folders, results)
    assert report.agrees and not report.damaged
    assert report.verdict.startswith("agrees: 3 windows of shop/top")
    assert [(window.rows_online, window.rows_offline) for window in report.windows] == [(10, 10)] * 3
    assert [window.label for window in report.windows] == [[], ["backfilled 1"], ["backfilled 2"]]
    assert report.to_dict()["agrees"] is True


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
    text = shown(report, 200)
    assert tampered["rows"][row]["product"] in text and "differs: 1 difference" in text


def test_a_missing_agent_is_announced_by_the_label(
    spark: SparkSession, shop: Shop, result: Callable[..., Result]
) -> None:
    half = shop.events.head(shop.events.height // 2)
    label = {"missing": ["web-2"], "reported": 1, "status": "final_incomplete"}
    report = verify(JOB, shop.folders, [result_of(half, START_MS + 30_000, **label)])
    assert not report.agrees and report.explained
    assert report.windows[0].label == ["missing web-2"]
    assert report.verdict.startswith("differs, as its label announces") and report.passes
    whole = "2026-01-01T00:00:30Z/2026-01-01T00:01:00Z"
    assert {each.why for each in report.windows[0].differences} == {f"without missing web-2 {whole} Spark has the same"}


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
    text = shown(report)
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


def test_an_archive_that_is_not_there_is_said_so(tmp_path: Path, result: Callable[..., Result]) -> None:
    with pytest.raises(OfflineError, match=r"no archive folder holds events of source 'clicks' .*--archive"):
        verify(JOB, [tmp_path / "nowhere"], [result()])


def test_all_windows_since_a_time_are_one_pass(spark: SparkSession, shop: Shop) -> None:
    known = set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    master = Master(shop)
    report = run_verify(master, "top", archives=shop.folders, since="60s")
    assert report.agrees, report.to_dict()
    assert [window.end_ms for window in report.windows] == [START_MS + at * 1_000 for at in range(60, 111, 10)]
    assert sorted(master.asked) == sorted(f"{each.start_ms}/{each.end_ms}" for each in report.windows)
    jobs = set(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) - known
    assert 1 <= len(jobs) < len(report.windows), "less than one start of a job for each window"


def test_one_cell_and_one_archived_event_that_were_changed_are_both_named(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    folders = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in shop.folders]
    file = list_files(folders[1], "clicks", START_MS + 10_000, START_MS + 20_000)[-1]
    events = pl.read_parquet(file.path, hive_partitioning=False)
    at_ms, number = pl.col("ts").dt.epoch("ms"), pl.int_range(pl.len())
    wanted = (at_ms >= START_MS + 10_000) & (pl.col("category") == "Video Games") & (pl.col("event") == "click")
    top = result_of(shop.events, START_MS + 10_000)["rows"]
    place, product = (
        events.select(number, "product")
        .filter(
            events.select(
                wanted & (at_ms < START_MS + 20_000) & pl.col("product").is_in([row["product"] for row in top[:5]])
            ).to_series()
        )
        .row(0)
    )
    events.with_columns(product=pl.when(number == place).then(pl.lit("forged")).otherwise("product")).write_parquet(
        file.path
    )

    def tamper(result: Result) -> None:
        if result["window"]["start_ms"] == START_MS + 70_000:
            result["rows"][0]["clicks"] += 1

    report = run_verify(Master(shop, tamper=tamper), "top", archives=folders, since="1h")
    assert not report.passes
    (damage,) = report.damaged
    assert file.path.name in damage and "agent web-2" in damage
    found = {(window.start_ms, each.column): each for window in report.windows for each in window.differences}
    cell = found.pop((START_MS + 70_000, "clicks"))
    assert (cell.kind, cell.online, cell.offline) == ("cell", cell.offline + 1, cell.online - 1)
    assert sum(cell.agents.values()) == cell.offline and set(cell.agents) <= {"web-1", "web-2"}
    event = found[START_MS + 10_000, "clicks"]
    assert event.key == {"product": product} and event.offline == event.online - 1
    assert str(file.path) in event.files and event.agents["web-2"] >= 1
    assert {start_ms for start_ms, _ in found} <= {START_MS + 10_000, START_MS}
    text = shown(report, 200)
    assert product in text and file.path.name in text and "web-2: " in text


def test_a_file_that_is_no_parquet_any_more_is_left_out_and_named(
    spark: SparkSession, shop: Shop, tmp_path: Path, result: Callable[..., Result]
) -> None:
    folders = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in shop.folders]
    file = list_files(folders[0], "clicks", START_MS + 30_000, START_MS + 60_000)[-1]
    file.path.write_bytes(b"PAR1 nothing of the kind PAR1")
    report = verify(JOB, folders, [result()])
    assert len(report.damaged) == 1 and "cannot be read and is left out" in report.damaged[0]
    assert not report.passes


def test_an_agent_whose_archive_is_not_there_is_named_with_the_hours(spark: SparkSession, shop: Shop) -> None:
    report = run_verify(Master(shop), "top", archives=shop.folders[:1], since="20s")
    assert not report.passes and report.windows[0].unexplained
    (gap,) = report.gaps
    assert gap.startswith("web-2 is counted by results, and the archive has no events of it from 2026-01-01T00:01:10Z ")
    assert gap in " ".join(shown(report, 1_000).split()), "it is shown"


def test_a_single_row_without_keys_is_compared_cell_by_cell(spark: SparkSession, shop: Shop) -> None:
    query = "SELECT count(*) AS n, max(price_cents) AS most FROM clicks GROUP BY window(ts, '30 seconds')"
    job = JobText("shop", "all", "clicks", query, {"price_cents": "BIGINT"})
    inside = shop.events.filter(pl.col("ts").dt.epoch("ms") // 30_000 == START_MS // 30_000)
    row = {"n": inside.height - 1, "most": inside["price_cents"].max()}
    published = {
        "window": {"start_ms": START_MS, "end_ms": START_MS + 30_000},
        "columns": [{"name": "n", "type": "BIGINT"}, {"name": "most", "type": "BIGINT"}],
        "rows": [row],
        "completeness": {"status": "final", "expected": 2, "reported": 2},
    }
    report = verify(job, shop.folders, [published])
    (difference,) = report.windows[0].differences
    assert (difference.kind, difference.column, difference.offline) == ("cell", "n", inside.height)
    assert sum(difference.agents.values()) == inside.height
