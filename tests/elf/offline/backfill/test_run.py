"""Which intervals a backfill computes, and what it tells; Spark itself is in test_states."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.jobs.intervals import Numbering
from elf.client.results import Version
from elf.offline.backfill import run
from elf.offline.backfill.passes import TASK_BYTES_MAX, Pass
from elf.offline.backfill.run import run_backfill, without_pauses
from elf.offline.progress import Steps
from elf.offline.session import OfflineError
from tests.elf.offline.backfill.asked import Asked, archived, described

#: Stands for Spark where nothing is computed: its cores, and what is said of its jobs.
SPARK = Mock(**{"sparkContext.defaultParallelism": 1})


def test_an_archive_that_is_not_there_is_an_error_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "find_files", lambda folders, source: [archived("id0", 0, 9)])
    with pytest.raises(OfflineError, match="no archive of web1 is among"):
        run_backfill(Asked(described(50_000, 50_000, 50_000)), "top", 0, [tmp_path])
    done = run_backfill(Asked(described(0, 50_000)), "top", 0, [tmp_path])
    assert (done.intervals, done.notes) == (0, ("agents have counted all there is",))
    monkeypatch.undo()
    with pytest.raises(OfflineError, match="no archive folder holds events of source 'clicks'"):
        run_backfill(Asked(described(50_000, 50_000)), "top", 0, [tmp_path])


class Told(Steps):
    """Remembers how far the work was said to be."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def total(self, what: str, count: int) -> None:
        self.heard.append((what, count))

    def say(self, what: str) -> None:
        self.heard.append(what)

    def done(self, count: int, detail: str = "") -> None:
        self.heard.append((count, detail))


def test_spark_gets_its_settings_and_each_pass_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    hours = [archived("id0", 10_000 * hour, 10_000 * hour + 9_999, TASK_BYTES_MAX // 2) for hour in range(4)]
    monkeypatch.setattr(run, "find_files", lambda folders, source: hours)
    monkeypatch.setattr(run, "open_session", lambda *asked: opened.append(asked) or SPARK)
    monkeypatch.setattr(run, "_compute", lambda spark, plan, *_: plan.schema.empty())
    asked, told = Asked(described(40_000, 40_000)), Told()
    done = run_backfill(asked, "top", 0, [], "spark://m:7077", conf={"spark.executor.memory": "2g"}, steps=told)
    assert opened == [("spark://m:7077", {"spark.executor.memory": "2g"})]
    assert told.heard == [
        ("intervals", 4),
        "starting Spark",
        (2, "2 events, 0 rows loaded"),
        (2, "4 events, 0 rows loaded"),
    ]
    assert (done.start_ms, done.end_ms, done.intervals, done.events) == (0, 40_000, 4, 4)
    loads = [(load.first, load.last) for load in asked.loaded]
    assert (loads[0][0], loads[-1][1]) == (0, 3)


def test_files_without_a_column_that_the_query_reads_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    files = [archived("id0", 0, 9_999), archived("id0", 10_000, 29_999, 1, "event"), archived("id0", 30_000, 39_999)]
    monkeypatch.setattr(run, "find_files", lambda folders, source: files)
    monkeypatch.setattr(run, "open_session", lambda master, conf: SPARK)

    def compute(spark: Any, plan: Any, job: Any, wanted: Pass, *_: Any) -> Any:
        read.extend(file.entry.first_ms for file in wanted.files)
        return plan.schema.empty()

    monkeypatch.setattr(run, "_compute", compute)
    asked = Asked(described(40_000, 40_000))
    done = run_backfill(asked, "top", 0, [])
    assert read == [0, 30_000]
    assert done.notes == ("the archives have events without product, which nobody read then: left out",)
    assert [(load.first, load.last, load.missing) for load in asked.loaded] == [
        (0, 0, ["id0"]), (1, 2, ["id0"]), (3, 3, [])
    ]  # fmt: skip


pauses = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12) | st.none()), max_size=4)


@given(st.integers(0, 10), st.integers(0, 10), pauses)
def test_intervals_of_pauses_are_not_computed(first: int, until: int, drawn: list[tuple[int, int | None]]) -> None:
    ends = sorted((since, since if end is None else max(since, end)) for since, end in drawn)
    runs = [(since, end) for at, (since, end) in enumerate(ends) if at == 0 or since >= ends[at - 1][1]]
    versions = [Version(at, "pause", "", 0, since * 10, end * 10) for at, (since, end) in enumerate(runs)]
    found = without_pauses([Version(99, "publish", "", 0), *versions], Numbering(10), first, until)
    counted = [at for begin, end in found for at in range(begin, end)]
    assert counted == [at for at in range(first, until) if not any(since <= at < end for since, end in runs)]
    last = Version(100, "pause", "", 0, 30)
    assert without_pauses([last], Numbering(10), 0, 9) == [(0, 3)], "it is paused still"


def test_what_fails_inside_spark_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkException

    def fail(*_: Any) -> None:
        raise PySparkException("Job aborted.\n\tat org.apache\nCaused by: x.parquet is not a Parquet file")

    spark = Mock(**{"sparkContext.defaultParallelism": 1})
    monkeypatch.setattr(run, "find_files", lambda folders, source: [archived("id0", 0, 39_999)])
    monkeypatch.setattr(run, "open_session", lambda master, conf: spark)
    monkeypatch.setattr(run, "_compute", fail)
    with pytest.raises(OfflineError, match=r"^Spark could not finish: x\.parquet is not a Parquet file$"):
        run_backfill(Asked(described(40_000, 40_000)), "top", 0, [])
    (tag,) = spark.sparkContext.cancelJobsWithTag.call_args.args
    spark.sparkContext.addJobTag.assert_called_with(tag)
