"""Whole queries against Spark: groups, windows, HAVING, ORDER BY and LIMIT, in pieces as agents see them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.master.emission import closed
from elf.cbt.schema import INTERVAL
from tests.agents.jobs.rows import COLUMNS, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Results without an order of their own are compared as sets of rows.
UNORDERED = [
    "SELECT count(*) AS n FROM rows",
    "SELECT count(*), count(s), count(i, j), count(1), count(NULL) FROM rows",
    "SELECT sum(i) AS i, sum(b) AS b, avg(i) AS ai, min(i) AS lo, max(i) AS hi FROM rows",
    "SELECT min(s) AS s, max(s) AS t, min(dt) AS d, max(tm) AS m, min(f) AS f, max(g) AS g FROM rows",
    "SELECT min(d) AS lo, max(d) AS hi, min(e) AS elo, max(e) AS ehi FROM rows",
    "SELECT count(*) AS n, sum(i) AS total, min(s) AS s FROM rows WHERE i = 12345",
    "SELECT s, count(*) AS n FROM rows GROUP BY s",
    "SELECT i, j, count(*) AS n FROM rows GROUP BY i, j",
    "SELECT d, count(*) AS n FROM rows GROUP BY d",
    "SELECT e, sum(i) AS total FROM rows GROUP BY e",
    "SELECT f, avg(i) AS a, sum(i) / count(i) AS q FROM rows GROUP BY f",
    "SELECT lower(s) AS low, count(*) AS n FROM rows GROUP BY low",
    "SELECT lower(s) AS low, count(*) AS n FROM rows GROUP BY 1",
    "SELECT lower(S) AS Low, COUNT(*) AS n FROM rows r GROUP BY LOWER(r.s)",
    "SELECT upper(lower(s)) AS x, length(lower(s)) AS l, count(*) AS n FROM rows GROUP BY lower(s)",
    "SELECT i % 3 AS m, max(b) AS b FROM rows WHERE i IS NOT NULL GROUP BY i % 3",
    "SELECT i + 1 AS x, (i + 1) * 2 AS y, count(*) AS n FROM rows GROUP BY i + 1",
    "SELECT s, count(*) FILTER (WHERE i > 0) AS pos, sum(i) FILTER (WHERE i < 0) AS neg FROM rows GROUP BY s",
    "SELECT f, count_if(i > 0) AS pos, count_if(f) AS yes FROM rows GROUP BY f",
    "SELECT f, sum(CASE WHEN i > 0 THEN 1 ELSE 0 END) AS p, 100 * count_if(i > 0) / count(*) AS q FROM rows GROUP BY f",
    "SELECT f, sum(n) AS text, avg(n) AS mean, mean(i) AS m FROM rows WHERE n != 'NaN' GROUP BY f",
    "SELECT s FROM rows GROUP BY s",
    "SELECT s, count(*) AS n FROM rows GROUP BY s HAVING count(*) > 1",
    "SELECT s, count(*) AS n FROM rows GROUP BY s HAVING n > 1 AND s != ''",
    "SELECT s, max(i) AS top FROM rows GROUP BY s HAVING sum(b % 1000) IS NOT NULL OR min(j) < 0",
    "SELECT s AS x, count(*) AS n FROM rows WHERE t = 'b' OR f GROUP BY s HAVING length(s) > 1",
    "SELECT coalesce(s, 'none') AS s2, round(avg(j), 2) AS a FROM rows GROUP BY coalesce(s, 'none')",
    "SELECT date_trunc('minute', ts) AS minute, count(*) AS n FROM rows GROUP BY date_trunc('minute', ts)",
    "SELECT hour(tm) AS h, weekofyear(dt) AS w, count(*) AS n FROM rows GROUP BY hour(tm), weekofyear(dt)",
    "SELECT parse_url(u, 'PATH') AS path, count(*) AS n FROM rows GROUP BY parse_url(u, 'PATH')",
    "SELECT count(*) AS n FROM rows GROUP BY f, g",
    "SELECT -sum(i) AS a, sum(i) DIV 7 AS b, max(b) % 10 AS c, if(count(*) > 3, 'many', 'few') AS d FROM rows",
    "SELECT sum(i) + sum(i) AS twice, concat(min(s), '-', max(t)) AS x FROM rows GROUP BY g",
    "SELECT min(ts) AS first, max(ts) AS last FROM rows",
    "SELECT 1 AS one, 'x' AS x, count(*) AS n FROM rows GROUP BY f",
]
#: Compared in order.
ORDERED = [
    "SELECT s, count(*) AS n FROM rows GROUP BY s ORDER BY n DESC, s LIMIT 5",
    "SELECT s, count(*) AS n FROM rows GROUP BY s ORDER BY count(*), s DESC",
    "SELECT s FROM rows GROUP BY s ORDER BY s DESC NULLS FIRST LIMIT 7",
    "SELECT s FROM rows GROUP BY s ORDER BY s NULLS LAST",
    "SELECT d, count(*) AS n FROM rows GROUP BY d ORDER BY d",
    "SELECT d AS x FROM rows GROUP BY d ORDER BY 1 DESC",
    "SELECT i, sum(b % 100000007) AS total FROM rows GROUP BY i ORDER BY total DESC, i LIMIT 4",
    "SELECT i FROM rows GROUP BY i ORDER BY max(b) DESC, abs(i), i",
    "SELECT f, g, count(*) AS n FROM rows GROUP BY f, g ORDER BY f, g DESC LIMIT 100",
    "SELECT lower(s) AS s, count(*) AS n FROM rows GROUP BY lower(s) ORDER BY length(s), s",
    "SELECT dt FROM rows GROUP BY dt HAVING count(*) > 2 ORDER BY dt LIMIT 3",
    "SELECT s, count(*) AS n FROM rows GROUP BY s ORDER BY s LIMIT 0",
]
WINDOWED = [
    "SELECT window.start AS w, count(*) AS n FROM rows GROUP BY window(ts, '30 seconds')",
    "SELECT f, window.start a, window.end AS b, sum(i) t FROM rows GROUP BY f, window(ts, '30 seconds', '10 seconds')",
    "SELECT window.end AS b, s, avg(j) AS a FROM rows GROUP BY window(ts, '1 minute', '25 seconds'), s",
    "SELECT window.start AS a, count(*) AS n FROM rows WHERE f GROUP BY window(ts, '20 seconds') HAVING n > 2",
    "SELECT unix_timestamp(window.start) / 7 AS a, max(d) AS n FROM rows GROUP BY window(ts, 'interval 1 minute')",
    "SELECT date_format(window.start, 'HH:mm:ss') AS at, g, min(t) AS t FROM rows GROUP BY g, window(ts, '17 seconds')",
]


@pytest.fixture(scope="module", autouse=True)
def view(table: DataFrame) -> None:
    table.createOrReplaceTempView("rows")


def planned(query: str) -> Plan:
    definition = Definition(name="x", creator="x", source="rows", query=query)
    return compile_job(definition, COLUMNS)


def evaluated(plan: Plan) -> pl.DataFrame:
    """Run the plan as a cluster would: the events in pieces, each reduced for itself, then merged per window."""
    events = frame().sample(fraction=1.0, shuffle=True, seed=7)
    paos = plan.schema.merge([plan.reduce(piece) for piece in events.iter_slices(13)])
    if plan.window is None:
        return plan.finish(plan.schema.merge_window([paos]), None)
    first, last = int(paos[INTERVAL].min()) * plan.interval_ms, (int(paos[INTERVAL].max()) + 1) * plan.interval_ms  # type: ignore[arg-type]
    results = []
    # As masters close them.
    for span in closed(plan.window, first, last + plan.window.size_ms, 1 << 20).spans:
        low, high = span.start_ms // plan.interval_ms, span.end_ms // plan.interval_ms
        inside = paos.filter(pl.col(INTERVAL).is_between(low, high, closed="left"))
        if inside.height:
            results.append(plan.finish(plan.schema.merge_window([inside]), (span.start_ms, span.end_ms)))
    return pl.concat(results)


def truth(spark: SparkSession, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    result = spark.sql(query)
    numbers = {"timestamp": "unix_micros(`{0}`) AS `{0}`", "date": "unix_date(`{0}`) AS `{0}`"}
    names = [field.name for field in result.schema]
    result = result.toDF(*(f"c{index}" for index in range(len(names))))
    plain = result.selectExpr(*(numbers.get(f.dataType.simpleString(), "{0}").format(f.name) for f in result.schema))
    return [f.dataType.simpleString().upper() for f in result.schema], [tuple(row) for row in plain.collect()]


def compare(spark: SparkSession, query: str, *, ordered: bool) -> None:
    plan = planned(query)
    ours = evaluated(plan)
    types, expected = truth(spark, query)
    assert [kind.value for _, kind in plan.output] == types
    rows = ours.select(_plain(ours)).rows()
    if not ordered:
        rows, expected = sorted(rows, key=_key), sorted(expected, key=_key)
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert all(_same(cell, other) for cell, other in zip(row, wanted, strict=True)), f"{row} is not {wanted}"


def _plain(result: pl.DataFrame) -> list[pl.Expr]:
    return [pl.col(name).to_physical() if kind.is_temporal() else pl.col(name) for name, kind in result.schema.items()]


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    # Doubles that differ in the last bits must not change places.
    cells = (float(f"{cell:.9g}") if isinstance(cell, float) else cell for cell in row)
    return tuple((cell is not None, str(cell)) for cell in cells)


def _same(ours: Any, wanted: Any) -> bool:
    if isinstance(ours, float) and isinstance(wanted, float):
        # Sums of doubles depend on the order of the rows.
        return (math.isnan(ours) and math.isnan(wanted)) or math.isclose(ours, wanted, rel_tol=1e-12)
    return type(ours) is type(wanted) and bool(ours == wanted)


@pytest.mark.parametrize("query", UNORDERED + WINDOWED)
def test_same_rows_as_spark(spark: SparkSession, query: str) -> None:
    compare(spark, query, ordered=False)


@pytest.mark.parametrize("query", ORDERED)
def test_same_order_as_spark(spark: SparkSession, query: str) -> None:
    compare(spark, query, ordered=True)
