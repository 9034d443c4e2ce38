"""Hours that retention has removed: a verification says so, and finds no differences there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from elf.agents.archive.archive import Archive
from elf.agents.archive.layout import HOUR_MS, source_folder
from elf.agents.archive.removed import EVER_MS, add_removed
from elf.offline.asking import JobText
from elf.offline.removed import removed_hours, removed_records
from tests.elf.offline.verify.master import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_767_225_600_000
COUNT = "SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 hour')"


def test_the_sentence_names_hours_and_agents(tmp_path: Path) -> None:
    assert removed_hours(removed_records([tmp_path], "clicks"), None, None) == ""
    root = source_folder(tmp_path, "clicks")
    add_removed(root, "web-1", [(START_MS, START_MS + HOUR_MS)])
    add_removed(root, "web-2", [(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS)])
    said = removed_hours(removed_records([tmp_path, tmp_path], "clicks"), None, None)
    assert said == (
        "the archive no longer has these hours: 2026-01-01T00:00:00Z/2026-01-01T02:00:00Z (removed at web-1, web-2)"
    )
    assert removed_hours(removed_records([tmp_path], "clicks"), START_MS + HOUR_MS, None).endswith("(removed at web-2)")
    assert removed_hours(removed_records([tmp_path], "clicks"), START_MS + 2 * HOUR_MS, None) == ""
    records = removed_records([tmp_path], "clicks")
    assert removed_hours(records, None, None, {"web-1": "the first"}).endswith("(removed at the first, web-2)")
    add_removed(root, "web-3", [(EVER_MS, START_MS - HOUR_MS)])
    assert "the start/2025-12-31T23:00:00Z" in removed_hours(removed_records([tmp_path], "clicks"), None, START_MS)


def test_a_window_over_removed_hours_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=100)
    at = pl.from_epoch(pl.Series([START_MS, START_MS + HOUR_MS]), time_unit="ms").cast(pl.Datetime("ms"))
    archive.append(pl.DataFrame({"ts": at}))
    archive.prepare(1)
    archive.commit(1)
    add_removed(source_folder(tmp_path, "clicks"), "web-1", [(START_MS, START_MS + HOUR_MS)])
    results = [
        {
            "window": {"start_ms": start_ms, "end_ms": start_ms + HOUR_MS},
            "columns": [{"name": "n", "type": "BIGINT"}],
            "rows": [{"n": count}],
            "completeness": {"status": "final", "expected": 1, "reported": 1},
        }
        for start_ms, count in ((START_MS, 2), (START_MS + HOUR_MS, 1))
    ]
    job = JobText("shop", "all", "clicks", COUNT, {})
    report = verify(job, [tmp_path], results)
    assert "no longer has these hours: 2026-01-01T00:00:00Z/2026-01-01T01:00:00Z" in report.windows[0].skipped
    assert not report.windows[0].differences and report.windows[1].agrees
    gone = verify(job, [tmp_path], results[:1])
    assert not gone.agrees and gone.verdict.startswith("nothing to compare: the archive no longer has these hours")
