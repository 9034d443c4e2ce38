"""Jobs that read their last result are computed by Spark, window after window: right results agree, wrong ones not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest
from msgspec.structs import replace

from elf.agents.archive.archive import Archive
from elf.agents.completeness.label import Label
from elf.agents.errors import ExpiredError, JobError, JobSpecError
from elf.agents.extensions.signed.runners import Runners
from elf.agents.extensions.signed.signatures import sign
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.joins import Joined, Use
from elf.agents.language.own_functions import OwnFunction
from elf.agents.master.results import Span, completeness_of, result_of
from elf.offline.plan import SparkPlan
from elf.offline.verify.report import Report
from elf.offline.verify.run import run_verify
from tests.agents.extensions.signed.signed_jobs import SECRET, TRUSTED
from tests.elf.offline.shown import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS, SIZE_MS, STEP_MS = 1_790_000_000_000, 4_000, 1_000
#: All kinds of mixing: conditions, keys, weighted sums, types that go there and back, and a cut.
QUERY = """
SELECT e.dst AS node, min(coalesce(r.label, e.src)) AS label, count(*) AS n, sum(coalesce(r.m % 1000, 1) * e.w) AS m,
  avg(r.part) AS was, round(avg(e.w + coalesce(r.part, 0D)), 6) AS part, max(e.ts) AS newest, min(r.newest) AS before,
  max(CAST(r.newest AS DATE)) AS day, bool_or(r.label IS NULL) AS fresh
FROM edges e LEFT JOIN last_result r ON e.src = r.node
WHERE e.w > 0 AND (r.n IS NULL OR r.n + e.w > 2) GROUP BY e.dst, window(ts, '4 seconds', '1 second')
HAVING count(*) > 0 ORDER BY n DESC, node LIMIT 9
"""
COLUMNS = {"src": "STRING", "dst": "STRING", "w": "INT"}
DEFINITION = Definition(name="graph", creator="me", source="edges", query=QUERY, columns=COLUMNS)
PLAN = compile_job(DEFINITION, DEFINITION.types)


def edges() -> pl.DataFrame:
    """Some edges a second over ten seconds; nodes without a name, too."""
    rows = [
        (START_MS + 100 * at, f"n{at * at % 11}" if at % 17 else None, f"n{(at * 7 + 1) % 11}", at % 4)
        for at in range(100)
    ]
    frame = pl.DataFrame(rows, {"ts": pl.Int64, "src": pl.String, "dst": pl.String, "w": pl.Int32}, orient="row")
    return frame.with_columns(pl.col("ts").cast(pl.Datetime("ms")))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found = []
    for number in range(2):
        folder = tmp_path_factory.mktemp(f"agent{number}")
        archive = Archive(folder, "edges", f"web-{number}", rows_max=1_000)
        archive.append(edges().filter(pl.int_range(pl.len()) % 2 == number))
        archive.prepare(0)
        archive.commit(0)
        found.append(folder)
    return found


class Master:
    """The job's master: results as agents compute them; those of windows that end at the oldest or before are gone."""

    def __init__(
        self, oldest: int = -1, wrong: int | None = None, begins: int | None = None, what: str = "reset"
    ) -> None:
        self.oldest, self.wrong, self.begins, self.what = oldest, wrong, begins, what
        self.asked: list[int] = []

    def job(self, name: str) -> dict[str, Any]:
        same = {"query": QUERY, "columns": COLUMNS, "options": {}, "made_ms": 0, "until_ms": None}
        reset_ms = None if self.begins is None else START_MS + STEP_MS * self.begins
        reset = same | {"version": 1, "what": self.what, "since_ms": reset_ms, "begins_ms": reset_ms}
        return {
            "creator": "me",
            "name": "graph",
            "source": "edges",
            "query": QUERY,
            "columns": COLUMNS,
            "window": {"size_ms": SIZE_MS, "slide_ms": STEP_MS},
            "interval_ms": STEP_MS,
            "through_ms": START_MS + 10_000,
            "expired_ms": START_MS + STEP_MS * self.oldest - SIZE_MS + STEP_MS,
            "agents": {"web-0": "web-0", "web-1": "web-1"},
            "roster": ["web-0", "web-1"],
            "versions": [] if self.begins is None else [reset],
        }

    def rows(self, end: int) -> pl.DataFrame:
        since = self.begins or 0
        if end <= since:
            return PLAN.finish(PLAN.grouped.empty().drop("interval"), (0, 1))
        at = (pl.col("ts").dt.epoch("ms") - START_MS) // STEP_MS
        inside = edges().filter(at >= max(since, end - SIZE_MS // STEP_MS), at < end)
        assert PLAN.iterating is not None
        paos = PLAN.iterating.regroup(PLAN.schema.merge_window([PLAN.reduce(inside)]), self.rows(end - 1))
        return PLAN.finish(paos, (START_MS + 1_000 * end - SIZE_MS, START_MS + 1_000 * end))

    def query(self, name: str, *, window: str, limit: int | None = None) -> dict[str, Any]:
        start_ms, end_ms = map(int, window.split("/"))
        end = (end_ms - START_MS) // STEP_MS
        self.asked.append(end)
        if end <= self.oldest:
            raise ExpiredError("it is gone")
        rows = self.rows(end)
        if end == self.wrong:
            rows = rows.with_columns(
                pl.when(pl.col("node") == "n1").then(pl.lit("x")).otherwise("label").alias("label")
            )
        lacks = self.begins is not None and end - SIZE_MS // STEP_MS < self.begins
        label = Label(0, 0, 2, ("web-0", "web-1") if lacks else ())
        span = Span(start_ms, end_ms)
        result = result_of(PLAN, span, rows, end_ms, completeness_of(PLAN, span, label, 0, end_ms, str))
        return {"job": "me/graph", **msgspec.to_builtins(result)}


def verified(master: Master, folders: list[Path], *ends: int) -> Report:
    spans = [f"{START_MS + STEP_MS * end - SIZE_MS}/{START_MS + STEP_MS * end}" for end in ends]
    return run_verify(master, "me/graph", spans, folders)


def test_right_results_agree_from_the_beginning_and_in_the_middle(spark: SparkSession, folders: list[Path]) -> None:
    master = Master()
    report = verified(master, folders, 2, 1)
    assert report.agrees and not report.damaged, shown(report, 200)
    assert [window.end_ms for window in report.windows] == [START_MS + STEP_MS, START_MS + 2 * STEP_MS]
    assert all(window.rows_offline == window.rows_online > 5 and not window.skipped for window in report.windows)
    assert sorted(master.asked) == [0, 1, 2], "of windows before only that before the first one"


def test_what_follows_from_a_wrong_result_is_found_and_what_cannot_be_known_is_not_compared(
    spark: SparkSession, folders: list[Path]
) -> None:
    report = verified(Master(oldest=4, wrong=6), folders, 5, 6)
    assert "no longer there" in (report.windows[0].skipped or "")
    assert [each.kind for each in report.windows[1].differences] == ["cell"]
    assert not report.agrees


def test_functions_that_the_job_brings_along_are_called_on_its_events(
    spark: SparkSession, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    function = OwnFunction(name="half", args=("INT",), returns="INT", source="def half(w): return 6 // w")
    functions = sign("me", "graph", [function], SECRET)
    query = QUERY.replace("* e.w)", "* half(e.w))").replace("e.w > 0", "half(e.w) > 2")
    runners = Runners(None)
    changed = replace(DEFINITION, query=query, functions=functions)
    monkeypatch.setitem(globals(), "QUERY", query)
    monkeypatch.setitem(globals(), "PLAN", compile_job(changed, DEFINITION.types, runners.admit))
    # An agent leaves out what a function fails on.
    found = edges().filter(pl.col("w") > 0)
    monkeypatch.setitem(globals(), "edges", lambda: found)

    class Signed(Master):
        def job(self, name: str) -> dict[str, Any]:
            return super().job(name) | {"functions": msgspec.to_builtins(functions)}

    spans = [f"{START_MS + STEP_MS * end - SIZE_MS}/{START_MS + STEP_MS * end}" for end in (1, 2)]
    report = run_verify(Signed(), "me/graph", spans, folders, trusted=[("me", TRUSTED["shop"])])
    runners.close()
    assert report.agrees and all(window.rows_online >= 5 for window in report.windows), shown(report, 200)


def test_a_reset_begins_anew(spark: SparkSession, folders: list[Path]) -> None:
    report = verified(Master(begins=5), folders, 6)
    assert report.agrees and report.windows[0].rows_online, shown(report, 200)


def test_a_job_that_was_published_on_a_source_being_read_has_nothing_of_before_its_results_begin(
    spark: SparkSession, folders: list[Path]
) -> None:
    master = Master(begins=5, what="publish")
    report = verified(master, folders, 4, 6)
    assert report.agrees, shown(report, 200)
    empty, first = report.windows
    assert (empty.rows_online, empty.rows_offline) == (0, 0) and first.rows_online == first.rows_offline > 0
    assert sorted(master.asked) == [4, 6], "their last results are known to be empty"


class Reader(Master):
    """The master of a job that reads it, too."""

    def job(self, name: str) -> dict[str, Any]:
        use = Use(job="me/graph", window=(SIZE_MS, STEP_MS), columns={"node": "STRING"})
        joined = Joined(query="SELECT g.node FROM job('me/graph') g", uses=(use,))
        return super().job(name) | ({"joined": msgspec.to_builtins(joined)} if name == "me/over" else {})


def test_elsewhere_spark_refuses_them() -> None:
    with pytest.raises(JobError, match="me/graph reads its last result, so Spark does not join"):
        run_verify(Reader(), "me/over", ["latest"], [])
    with pytest.raises(JobSpecError, match="last result"):
        SparkPlan(QUERY)
