"""Jobs that call installed functions: rows, nulls and constants; what fails on an event leaves that event out."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from elf.agents.errors import JobError
from elf.agents.jobs.definition import load_definition
from elf.agents.oneshot import evaluate
from elf.agents.worker.poison import insert_whatever
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.worker import Worker
from elf.cbt.schema import INTERVAL
from elf.cli.app import app
from tests.agents.plans import events, plan_of
from tests.installing import install, install_example

MODULE = """
import asyncio
import datetime
import elf
import polars as pl

@elf.scalar(args=["STRING", "BIGINT"], returns="STRING")
def call_shown(product, cents):
    return f"{product}/{cents}"

@elf.scalar(args=["BIGINT"], returns="BIGINT", strict=True)
def call_fragile(cents):
    if cents == 13:
        raise ValueError("an unlucky number")
    return cents + 1

@elf.scalar(args=["BIGINT"], returns="BIGINT")
def call_wild(cents):
    if cents > 100:
        raise [MemoryError, asyncio.CancelledError, GeneratorExit, SystemExit][cents - 101]
    return cents

@elf.scalar(args=["BIGINT"], returns="INT")
def call_wrong(cents):
    return "many"

@elf.vectorised(args=["BIGINT", "DOUBLE"], returns="DOUBLE")
def call_scaled(cents, factor):
    return cents * factor

@elf.scalar(args=["TIMESTAMP"], returns="TIMESTAMP")
def call_later(at):
    assert at.tzinfo is None
    return at + datetime.timedelta(hours=1)

@elf.aggregate(args=["BIGINT"], returns="BIGINT")
class Product:
    def create(self, values):
        if 13 in values:
            raise ValueError("an unlucky number")
        return self.merge_all(values)
    def merge_all(self, values):
        product = 1
        for value in values:
            product *= value
        return product
    def merge(self, left, right):
        if left == right == 4:
            raise ValueError("too much alike")
        return left * right
    def finish(self, state):
        return None if state == 1 else state
"""
POINTS = {
    "call_product": "calling:Product",
    **{
        n: f"calling:{n}"
        for n in ("call_shown", "call_fragile", "call_wild", "call_wrong", "call_scaled", "call_later")
    },
}
KEYED = "FROM clicks GROUP BY 1, window(ts, '4 seconds') ORDER BY 1"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, "calling", POINTS, {"calling": MODULE})


def answer(query: str, rows: list[tuple[int, str | None, int | None]]) -> list[tuple[object, ...]]:
    plan = plan_of(query)
    paos = plan.schema.merge_window([plan.reduce(events([row])) for row in rows])
    return plan.finish(paos, (0, 4_000)).rows()


def test_functions_get_rows_nulls_and_constants() -> None:
    rows = [(0, "a", 1), (1, None, 2), (2, "a", None)]
    shown = answer(f"SELECT call_shown(product, cents) AS x, count(*) AS n {KEYED}", rows)
    assert shown == [("None/2", 1), ("a/1", 1), ("a/None", 1)]
    assert answer(f"SELECT call_scaled(cents, 0.5) AS x, count(*) AS n {KEYED}", rows) == [
        (None, 1),
        (0.5, 1),
        (1.0, 1),
    ]
    constant = f"SELECT call_shown('k', 2) AS x, call_product(cents) AS p {KEYED}"
    assert answer(constant, rows) == [("k/2", 2)]
    later = answer("SELECT max(call_later(ts)) AS x FROM clicks GROUP BY window(ts, '4 seconds')", rows)
    assert [row[0].isoformat() for row in later] == ["1970-01-01T01:00:00.002000"]  # type: ignore[attr-defined]


def test_functions_stand_wherever_expressions_do() -> None:
    query = """SELECT product, call_fragile(sum(call_fragile(cents))) AS s FROM clicks
    WHERE call_scaled(cents, 2) > 2 GROUP BY product, window(ts, '4 seconds')
    HAVING call_fragile(count(*)) > 2 ORDER BY call_scaled(sum(cents), -1)"""
    rows = [(0, "a", 1), (1, "a", 2), (2, "a", 3), (3, "b", 4), (3, "b", 5), (3, "c", 9)]
    assert answer(query, rows) == [("b", 12), ("a", 8)]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT call_fragile(cents) AS x, count(*) AS n {KEYED}",
        f"SELECT product AS x, sum(call_fragile(cents)) AS n {KEYED}",
        f"SELECT product AS x, count(*) AS n {KEYED.replace('GROUP', 'WHERE call_fragile(cents) > 0 GROUP')}",
        f"SELECT product AS x, call_product(cents) AS n {KEYED}",
        f"SELECT product AS x, count(*) FILTER (WHERE call_fragile(cents) > 0) AS n {KEYED}",
    ],
)
def test_an_event_a_function_fails_on_is_left_out_of_that_job_under_a_label(
    query: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(plan_of(query), "w1")
    frame = events([(0, "a", 2), (4_000, "a", 13), (4_001, "b", 13), (5_000, "a", 3), (9_000, "b", 4)])
    assert insert_whatever(worker, frame) == 2
    assert worker.progress.gaps == ((1, 1),)
    (record,) = caplog.records
    assert "fails on 2 of 5 events, which it leaves out: " in record.getMessage()
    assert "ValueError: an unlucky number" in record.getMessage() and "\n" not in record.getMessage()
    assert sum(1 for snapshot in worker.seal(20_000) if snapshot.payload) == 3


@pytest.mark.parametrize("cents", range(101, 105))
def test_whatever_a_function_raises_leaves_its_event_out_and_no_other(cents: int) -> None:
    worker = Worker(plan_of(f"SELECT call_wild(cents) AS x, count(*) AS n {KEYED}"), "w1")
    assert insert_whatever(worker, events([(0, "a", 2), (4_000, "a", cents), (4_001, "b", 3)])) == 1
    assert worker.progress.gaps == ((1, 1),)


def test_an_event_is_left_out_of_all_parts_of_a_job_and_of_no_other_job() -> None:
    query = f"SELECT call_fragile(cents) AS x, count(*) AS n {KEYED}"
    parts = [Worker(plan_of(query, options="trees = 2"), f"w{part}") for part in range(2)]
    other = Worker(plan_of(), "w")
    workers = Workers({bytes([at]): worker for at, worker in enumerate([*parts, other])})
    workers.insert(events([(0, "a", 13), (1, "a", 2)]))
    workers.take_in()
    assert [worker.progress.gaps for worker in (*parts, other)] == [((0, 0),), ((0, 0),), ()]


def test_answers_of_another_type_are_failures() -> None:
    worker = Worker(plan_of(f"SELECT call_wrong(cents) AS x, count(*) AS n {KEYED}"), "w1")
    assert insert_whatever(worker, events([(0, "a", 1), (1, "a", 2)])) == 2


def test_what_fails_on_merged_values_is_an_error_of_the_result_that_names_the_function() -> None:
    shown = f"SELECT product, call_fragile(sum(cents)) AS n {KEYED}"
    with pytest.raises(JobError, match=r"^the function call_fragile fails: ValueError: an unlucky number$"):
        answer(shown, [(0, "a", 6), (1, "a", 7)])
    merged = f"SELECT product, call_product(cents) AS n {KEYED}"
    assert answer(merged, [(0, "a", 4), (1, "a", 3), (0, "b", None), (0, "c", 1)]) == [
        ("a", 12),
        ("b", None),
        ("c", None),
    ]
    said = "the aggregate call_product fails: ValueError: too much alike"
    with pytest.raises(JobError, match=rf"^call_product\(cents\) of product = 'a' is not there: {said}$"):
        answer(merged, [(0, "a", 4), (1, "a", 4), (2, "a", 2), (0, "b", 2)])


def test_an_aggregate_that_fails_for_one_key_takes_no_other_key_away() -> None:
    plan = plan_of(f"SELECT product, call_product(cents) AS n, sum(cents) AS s {KEYED}")
    found = [(0, "a", 4), (1, "a", 4), (2, "a", 2), (0, "b", 2), (0, "c", 5), (1, "c", 2**63 - 1)]
    rows, overflows = plan.told(plan.schema.merge_window([plan.reduce(events([row])) for row in found]), (0, 4_000))
    assert sorted(rows.rows()) == [("a", None, 10), ("b", 2, 2), ("c", None, None)]
    large, alike, total = overflows.first
    assert (alike.key, alike.why) == ({"product": "a"}, "the aggregate call_product fails: ValueError: too much alike")
    assert (large.key, large.why.split(":")[0]) == ({"product": "c"}, "the aggregate call_product fails")
    assert (total.column, total.key) == ("sum(cents)", {"product": "c"})


def test_states_that_a_peer_made_up_are_an_error_of_the_result() -> None:
    plan = plan_of(f"SELECT product, call_product(cents) AS n {KEYED}")
    mine = plan.reduce(events([(0, "a", 4)]))
    for state in (b"\xc1\xff", b"\x92", b"\xa3abc", b"\x01\x01", b"\xff" * 9):
        theirs = mine.with_columns(pl.lit(state).alias("a0_state"))
        for parts in ([theirs], [mine, theirs], [theirs, theirs]):
            paos = plan.schema.merge_window(parts)
            try:
                plan.finish(paos, (0, 4_000))
            except JobError as error:
                assert "call_product" in str(error) or state.startswith(b"\xc1")


def test_arguments_and_forms_that_an_aggregate_does_not_take_are_refused() -> None:
    for call, said in (
        ("call_product(product > 'a')", "call_product() takes BIGINT, not BOOLEAN"),
        ("call_product(cents, 1)", "call_product() takes 1 argument, not 2"),
        ("call_product(*)", "is not in the job language"),
        ("call_product(DISTINCT cents)", "call_product(DISTINCT ...) is not in the job language"),
    ):
        with pytest.raises(JobError) as caught:
            plan_of(f"SELECT {call} AS x FROM clicks")
        assert said in str(caught.value)


def test_the_example_runs_once_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = install_example(tmp_path / "example", monkeypatch)
    rows = [
        ("/shop/toys/train", 100),
        ("/shop/toys/kite", 400),
        ("/shop/books", 20_000),
        (None, 5),
        ("/", 0),
        ("/", None),
    ]
    lines = [{"ts": 1_790_000_000_000 + at, "path": path, "cents": cents} for at, (path, cents) in enumerate(rows)]
    (tmp_path / "a.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = evaluate(load_definition(query, filename="job.sql"), [str(tmp_path / "a.log")], "json")
    assert outcome.failed == 1
    assert outcome.frame.drop("window_start", "window_end").with_columns(pl.col("typical").round(6)).rows() == [
        ("toys", "low", 2, 200.0),
        (None, None, 1, None),
        (None, "low", 1, 5.0),
        ("books", "high", 1, 20_000.0),
    ]
    (tmp_path / "job.sql").write_text(query)
    ran = CliRunner().invoke(app, ["run", "--once", "--input", str(tmp_path / "a.log"), str(tmp_path / "job.sql")])
    assert ran.exit_code == 0
    assert "1 event left out, on which the job's expressions or functions fail" in ran.stderr
    assert CliRunner().invoke(app, ["validate", str(tmp_path / "job.sql")]).exit_code == 0


def test_states_are_of_one_interval_each() -> None:
    plan = plan_of("SELECT call_product(cents) AS p FROM clicks GROUP BY window(ts, '4 seconds', '2 seconds')")
    paos = plan.reduce(events([(0, "a", 2), (1_999, "a", 3), (2_000, "a", 5)])).sort(INTERVAL)
    assert paos["a0_state"].to_list() == [b"\x06", b"\x05"]
