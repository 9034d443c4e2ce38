"""What an agent answers against what `elf verify` computes of the same query: exact ones equal, sketches near."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pyspark.sql import functions as F

from elf.agents.completeness.label import Label
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.query import parse_query
from elf.agents.master.results import completeness_of, result_of
from elf.offline.aggregates import apart
from elf.offline.verify.compare import GUESSED, compare
from elf.offline.verify.report import Difference
from elf.offline.verify.rows import RowsPlan
from tests.agents.jobs.conftest import table  # noqa: F401
from tests.agents.jobs.rows import COLUMNS, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXACT = [
    "SELECT f, count(DISTINCT s) AS a, count(DISTINCT s, i) AS b, count(DISTINCT d) AS c FROM rows GROUP BY f",
    "SELECT s, first(i) AS a, last(d) AS b, first(t, true) AS c, last(dt) IGNORE NULLS AS e FROM rows GROUP BY s",
    "SELECT f, min_by(s, i) AS a, max_by(i, d) AS b, max_by(tm, b) FILTER (WHERE g) AS c FROM rows GROUP BY f",
    "SELECT f, max_by(s, g) AS a, max_by(d, g) AS b, min_by(d, g) AS e, min_by(t, g) AS h FROM rows GROUP BY f",
    "SELECT g, any_value(s) AS a, any_value(d) AS b, any_value(i) FILTER (WHERE f) AS c FROM rows GROUP BY g",
    "SELECT g, any_value(s) AS a, bool_and(f) AS b, some(f) AS c, every(i > 0) AS d FROM rows GROUP BY g",
    "SELECT f, stddev(i) AS a, variance(j) AS b, var_pop(d) AS c, stddev_pop(b) AS e FROM rows GROUP BY f",
    "SELECT f, collect_set(i) AS a, collect_set(dt) AS b, collect_set(tm) AS c FROM rows GROUP BY f",
    "SELECT g, count(*) FILTER (WHERE f) AS n, count(i, j) FILTER (WHERE f) AS m FROM rows GROUP BY g ORDER BY n DESC",
    "SELECT f, max(timestamp_seconds(b)) AS a, min(timestamp_millis(b)) AS c, max(timestamp_micros(b)) AS e FROM rows "
    "GROUP BY f",
    "SELECT count(DISTINCT s) AS n FROM rows WHERE i = 123456",
    "SELECT s, count(DISTINCT t) AS n FROM rows GROUP BY s HAVING count(DISTINCT t) > 1 ORDER BY n DESC, s LIMIT 5",
]
#: Sums that leave BIGINT, sums that nearly do, of a type each.
SUMS = [
    "SELECT f, sum(b) AS a, sum(i) AS c, sum(d) AS e, avg(b) AS h FROM rows GROUP BY f",
    "SELECT f, sum(b) FILTER (WHERE b < 0) AS g, sum(b) FILTER (WHERE b > 0) AS a FROM rows GROUP BY f",
    "SELECT s, sum(b) AS a, sum(b) + 1 AS c, sum(-b) AS e FROM rows GROUP BY s",
    "SELECT f, sum(b DIV 4) AS a, sum(e) AS c FROM rows GROUP BY f HAVING sum(b) IS NULL",
]
SKETCHES = [
    "SELECT f, approx_count_distinct(s) AS a, approx_count_distinct(i, 0.1) AS b FROM rows GROUP BY f",
    "SELECT f, approx_percentile(i, 0.5) AS a, percentile_approx(b, 0.9, 1000) AS b FROM rows GROUP BY f",
    "SELECT s, approx_percentile(e, 0.5) AS a FROM rows WHERE e < 5 GROUP BY s ORDER BY a DESC LIMIT 4",
    "SELECT approx_count_distinct(tm) * 2 AS n FROM rows",
    "SELECT s, approx_count_distinct(t) AS n FROM rows GROUP BY s ORDER BY n DESC, s LIMIT 5",
    # Large states beside distinct values: computed apart, and joined by keys that are null, NaN and both zeros.
    "SELECT s, d, approx_percentile(i, 0.5) AS a, count(DISTINCT t) AS n, count(*) AS m FROM rows GROUP BY s, d",
    "SELECT collect_set(i) AS a, approx_count_distinct(s) AS b, count(DISTINCT t, i) FILTER (WHERE f) AS c FROM rows",
]


def verified(table: DataFrame, query: str, change: dict[str, Any] | None = None) -> tuple[list[Difference], list[str]]:  # noqa: F811
    plan = compile_job(Definition(name="x", creator="x", source="rows", query=query), COLUMNS)
    paos = plan.schema.merge([plan.reduce(piece) for piece in frame().iter_slices(7)])
    rows, _ = plan.told(plan.schema.merge_window([paos]), None)
    label = Label(previous=0, through=1, expected=1)
    result = msgspec.to_builtins(result_of(plan, None, rows, 1, completeness_of(plan, None, label, 0, 1, str)))
    published = [row | (change or {}) for row in result["rows"]]
    return compare([column["name"] for column in result["columns"]], published, RowsPlan(query).run(table, None))


def test_no_large_state_is_kept_for_each_distinct_value() -> None:
    def parts(*calls: str) -> tuple[list[list[int]], list[int]]:
        return apart([item.node for item in parse_query(f"SELECT {', '.join(calls)} FROM rows").items])

    assert parts("count(*)", "count(DISTINCT s)", "sum(i)") == ([[1, 0, 2]], [])
    assert parts("approx_percentile(i, 0.5)", "count(*)") == ([[1]], [0])
    assert parts("COLLECT_SET(i)", "count(DISTINCT s) FILTER (WHERE f)", "count(*)") == ([[1], [0, 2]], [])
    assert parts("approx_count_distinct(s)", "percentile_approx(i, 0.5) FILTER (WHERE f)") == ([[0]], [1])


def test_percentiles_are_what_spark_finds_with_all_accuracy(table: DataFrame) -> None:  # noqa: F811
    # Of NaN, its own function makes the greatest or the least value, as it comes.
    numbers = ("i", "b", "j", "CASE WHEN d < 1e300 THEN d END")
    for column, percentage, where in itertools.product(numbers, (0.0, 0.07, 0.5, 0.95, 1.0), ("", "f")):
        call = f"approx_percentile({column}, {percentage})" + (f" FILTER (WHERE {where})" if where else "")
        found = RowsPlan(f"SELECT s, {call} AS p FROM rows GROUP BY s ORDER BY s").run(table, None)
        only = f"CASE WHEN {where or 'true'} THEN {column} END"
        exact = table.groupBy("s").agg(F.expr(f"percentile_approx({only}, {percentage}, 2147483647)")).orderBy("s")
        assert compared(found.rows) == compared(exact.collect()), call


def compared(rows: Iterable[Sequence[Any]]) -> str:
    """Rows to compare; the two zeros are one."""
    return repr([[cell + 0.0 if isinstance(cell, float) else cell for cell in row] for row in rows])


def test_the_sums_of_these_rows_leave_their_type() -> None:
    plan = compile_job(Definition(name="x", creator="x", source="rows", query=SUMS[0]), COLUMNS)
    _, overflows = plan.told(plan.schema.merge_window([plan.reduce(frame())]), None)
    assert overflows.count > 1


@pytest.mark.parametrize("query", EXACT + SUMS + SKETCHES)
def test_agents_and_spark_agree(table: DataFrame, query: str) -> None:  # noqa: F811
    differences, notes = verified(table, query)
    assert not differences
    assert GUESSED not in notes


@pytest.mark.parametrize(
    ("query", "change"),
    [
        ("SELECT count(DISTINCT s) AS n FROM rows", {"n": 27}),
        ("SELECT collect_set(i) AS n FROM rows", {"n": [1, 2]}),
        ("SELECT approx_count_distinct(s) AS n FROM rows", {"n": 12}),
        ("SELECT approx_percentile(j, 1.0) AS n FROM rows", {"n": 2_100_000_000}),
        ("SELECT stddev(i) AS n FROM rows", {"n": 953_000_000.0}),
    ],
)
def test_wrong_answers_are_found(table: DataFrame, query: str, change: dict[str, Any]) -> None:  # noqa: F811
    assert verified(table, query, change)[0]


def test_rows_near_the_bound_of_an_estimate_are_no_differences(table: DataFrame) -> None:  # noqa: F811
    query = "SELECT f, count(*) AS n FROM rows GROUP BY f HAVING approx_count_distinct(s) > 9"
    online = RowsPlan(query).run(table, None)
    assert online.guessed
    rows = [dict(zip(online.names, row, strict=True)) for row in online.rows]
    assert compare(online.names, rows[1:], online) == ([], [GUESSED])
