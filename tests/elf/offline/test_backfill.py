"""Which intervals a backfill computes, in which passes, and whose archives lack what; Spark is in test_states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.archive.layout import ArchivedFile, FileEntry
from agents.errors import JobError, UnavailableError
from elf.client.results import Intervals
from elf.offline import backfill
from elf.offline.asking import CountedAgent, Reach
from elf.offline.backfill import PASS_BYTES, _Coverage, _passes, run_backfill
from elf.offline.progress import Steps
from elf.offline.session import OfflineError

QUERY = "SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '10 seconds')"


def archived(agent: str, first_ms: int, last_ms: int, size: int = 1) -> ArchivedFile:
    entry = FileEntry(
        path="", source="clicks", agent=agent, sequence=1, rows=1, bytes=size, sha256="", first_ms=first_ms,
        last_ms=last_ms, columns={"ts": "TIMESTAMP"},
    )  # fmt: skip
    return ArchivedFile(Path("x.parquet"), entry)


def reach(*through_ms: int | None, until_ms: int | None = 100_000) -> Reach:
    agents = [CountedAgent(f"id{number}", f"web{number}", each) for number, each in enumerate(through_ms)]
    return Reach("instance", None if until_ms is None else 0, until_ms, agents)


class Asked:
    """An agent that describes a job, each time as the next of some descriptions."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.loaded = list(answers), list[Intervals]()

    def job(self, name: str) -> dict[str, Any]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def load(self, name: str, intervals: Intervals) -> None:
        self.loaded.append(intervals)


def described(until_ms: int | None, *through_ms: int | None, **changes: Any) -> dict[str, Any]:
    agents = [{"agent": f"id{i}", "name": f"web{i}", "through_ms": each} for i, each in enumerate(through_ms)]
    first_ms = None if until_ms is None else 0
    known = {"instance": "i", "first_ms": first_ms, "until_ms": until_ms, "agents": agents}
    job = {"creator": "shop", "name": "top", "source": "clicks", "query": QUERY, "columns": {"product": "STRING"}}
    window = {"size_ms": 10_000, "slide_ms": 10_000}
    return {**job, "options": {}, "backfill": known, "interval_ms": 10_000, "window": window, **changes}


def test_an_archive_has_all_events_after_the_interval_it_begins_in_and_up_to_what_was_counted() -> None:
    files = [archived("id0", 12_000, 90_000), archived("id0", 55_000, 60_000), archived("id1", 0, 90_000)]
    coverage = _Coverage(files, [reach(100_000, 50_000, None, 100_000)], 10_000)
    assert [coverage.missing(interval) for interval in (1, 2, 4, 5)] == [
        ["id0", "id2", "id3"], ["id2", "id3"], ["id2", "id3"], ["id1", "id2", "id3"],
    ]  # fmt: skip
    assert coverage.unseen == ["web2", "web3"]
    assert sorted(coverage.bounds) == [1, 2, 5, 10]


def test_of_several_parts_an_agent_was_counted_up_to_the_last_that_all_have() -> None:
    coverage = _Coverage([archived("id0", 0, 90_000)], [reach(100_000), reach(30_000)], 10_000)
    assert [coverage.missing(interval) for interval in (2, 3)] == [[], ["id0"]]


def test_passes_follow_the_bytes_of_the_archive() -> None:
    hours = [archived("a", 10_000 * hour, 10_000 * hour + 9_999, PASS_BYTES // 2) for hour in range(6)]
    assert list(_passes(hours, 0, 6, 10_000)) == [(0, 2), (2, 4), (4, 6)]
    assert list(_passes(hours, 3, 5, 10_000)) == [(3, 5)]
    assert list(_passes([], 3, 5, 10_000)) == [(3, 5)]


def test_jobs_that_have_no_intervals_are_refused() -> None:
    with pytest.raises(JobError, match="has no window"):
        run_backfill(Asked(described(None, window=None)), "top", 0, [])


def test_a_job_without_a_result_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "_LOOK_S", 0.0)
    monkeypatch.setattr(backfill, "COMMIT_MS", -21_990)
    told: list[str] = []
    with pytest.raises(UnavailableError, match="has not had a result"):
        run_backfill(Asked(described(None, None)), "top", 0, [], say=told.append)
    assert len(told) <= 1
    parts = [{"part": 0, "backfill": described(0, 10_000)["backfill"]}, {"part": 1, "trouble": "no answer"}]
    with pytest.raises(UnavailableError, match="a part of shop/top cannot be asked: no answer"):
        run_backfill(Asked(described(0, 10_000, parts=parts)), "top", 0, [])


def test_an_archive_that_is_not_there_is_an_error_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(backfill, "find_files", lambda folders, source: [archived("id0", 0, 9)])
    with pytest.raises(OfflineError, match="no archive of web1 is among"):
        run_backfill(Asked(described(50_000, 50_000, 50_000)), "top", 0, [tmp_path])
    done = run_backfill(Asked(described(0, 50_000)), "top", 0, [tmp_path])
    assert (done.intervals, done.notes) == (0, ("agents have counted all there is",))
    monkeypatch.undo()
    with pytest.raises(OfflineError, match="no archive folder holds events of source 'clicks'"):
        run_backfill(Asked(described(50_000, 50_000)), "top", 0, [tmp_path])


def test_an_agent_that_does_not_say_what_may_be_backfilled_is_too_old() -> None:
    with pytest.raises(JobError, match="what may be backfilled of shop/top"):
        run_backfill(Asked(described(0, 10_000, backfill=None)), "top", 0, [])


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
    hours = [archived("id0", 10_000 * hour, 10_000 * hour + 9_999, PASS_BYTES // 2) for hour in range(4)]
    monkeypatch.setattr(backfill, "find_files", lambda folders, source: hours)
    monkeypatch.setattr(backfill, "open_session", lambda master, conf: opened.append((master, conf)))
    monkeypatch.setattr(backfill, "_compute", lambda spark, plan, *_: plan.schema.empty())
    asked, told = Asked(described(40_000, 40_000)), Told()
    done = run_backfill(asked, "top", 0, [], "spark://m:7077", conf={"spark.executor.memory": "2g"}, steps=told)
    assert opened == [("spark://m:7077", {"spark.executor.memory": "2g"})]
    assert told.heard == [("intervals", 4), "starting Spark", (2, "0 rows loaded"), (2, "0 rows loaded")]
    assert (done.start_ms, done.end_ms, done.intervals, done.events) == (0, 40_000, 4, 4)
    loads = [(load.first, load.last) for load in asked.loaded]
    assert (loads[0][0], loads[-1][1]) == (0, 3)


def test_what_fails_inside_spark_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkException

    def fail(*_: Any) -> None:
        raise PySparkException("Job aborted.\n\tat org.apache\nCaused by: x.parquet is not a Parquet file")

    monkeypatch.setattr(backfill, "find_files", lambda folders, source: [archived("id0", 0, 39_999)])
    monkeypatch.setattr(backfill, "open_session", lambda master, conf: None)
    monkeypatch.setattr(backfill, "_compute", fail)
    with pytest.raises(OfflineError, match=r"^Spark could not finish: x\.parquet is not a Parquet file$"):
        run_backfill(Asked(described(40_000, 40_000)), "top", 0, [])
