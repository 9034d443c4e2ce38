"""The Spark planner against three judges: Polars and DuckDB computations, and Spark's own SQL on the same text."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

from elf.agents.errors import JobSpecError
from elf.demo.clicks import START_MS
from elf.offline.events import find_files, read_events
from elf.offline.verify.rows import OfflineRows, RowsPlan, close

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.elf.offline.conftest import Shop

WINDOW = (START_MS + 30_000, START_MS + 60_000)


@pytest.fixture(scope="module")
def events(spark: SparkSession, shop: Shop) -> DataFrame:
    frame = read_events(spark, find_files(shop.folders, "clicks"), shop.columns).coalesce(1).persist()
    inside = f"ts >= timestamp_millis({WINDOW[0]}) AND ts < timestamp_millis({WINDOW[1]})"
    frame.filter(inside).createOrReplaceTempView("clicks")
    return frame


@pytest.fixture(scope="module")
def within(shop: Shop) -> pl.DataFrame:
    at_ms = pl.col("ts").dt.epoch("ms")
    return shop.events.filter(at_ms >= WINDOW[0], at_ms < WINDOW[1])


def run(events: DataFrame, query: str) -> OfflineRows:
    return RowsPlan(query).run(events, WINDOW)


def test_top_ten_equals_polars(events: DataFrame, within: pl.DataFrame) -> None:
    computed = run(
        events,
        """SELECT product, count(*) AS clicks, sum(price_cents * quantity) AS cents
        FROM clicks WHERE event = 'click' AND category = 'Video Games'
        GROUP BY product, window(ts, '30 seconds') ORDER BY clicks DESC, product LIMIT 10""",
    )
    wanted = (
        within.filter(event="click", category="Video Games")
        .group_by("product")
        .agg(pl.len(), (pl.col("price_cents") * pl.col("quantity")).sum().alias("cents"))
        .sort("len", "product", descending=[True, False])
        .head(10)
    )
    assert computed.rows == wanted.rows()
    assert computed.names == ("product", "clicks", "cents")
    assert computed.types == ("string", "bigint", "bigint")
    assert computed.keys == (0,)


def test_aggregates_skip_nulls_as_duckdb_says(events: DataFrame, shop: Shop) -> None:
    computed = run(
        events,
        """SELECT category, count(rating) n, avg(rating) a, min(rating) lo, max(product) hi, count(*) AS every
        FROM clicks WHERE rating IS NULL OR rating > 1.5 GROUP BY category, window(ts, '30 seconds') 
        ORDER BY category""",
    )
    inside = f"epoch_ms(ts) >= {WINDOW[0]} AND epoch_ms(ts) < {WINDOW[1]}"
    with duckdb.connect() as base:
        wanted = (
            base.read_parquet([f"{folder}/**/*.parquet" for folder in shop.folders])
            .filter(f"{inside} AND (rating IS NULL OR rating > 1.5)")
            .aggregate("category, count(rating), avg(rating), min(rating), max(product), count(*)", "category")
            .order("category")
            .fetchall()
        )
    assert len(wanted) == 8
    assert all(close(one, other) for one, other in zip(computed.rows, wanted, strict=True))


#: Text that runs here and, unchanged, in `spark.sql`, where the view `clicks` holds just the window's events.
TEXTS = [
    "SELECT count(*) FROM clicks",
    "SELECT count(*) c, sum(price_cents) s FROM clicks WHERE event = 'none'",
    "SELECT category FROM clicks GROUP BY category ORDER BY 1",
    "SELECT lower(category) AS c, count(*) FROM clicks GROUP BY 1 ORDER BY 1",
    "SELECT lower(category) AS c, count(*) n FROM clicks GROUP BY c ORDER BY n DESC",
    "SELECT upper(category) AS category, count(*) FROM clicks GROUP BY category ORDER BY category DESC",
    "SELECT upper(category) AS category, count(*) FROM clicks GROUP BY category HAVING category = 'Toys'",
    "SELECT -price_cents AS price_cents, count(*) FROM clicks GROUP BY price_cents ORDER BY price_cents, 2",
    "SELECT event, category, max(quantity) FROM clicks GROUP BY event, category ORDER BY event, category DESC",
    "SELECT product, count(*) AS n FROM clicks GROUP BY product HAVING n > 40 AND min(price_cents) "
    "> 300 ORDER BY n, product",
    "SELECT user, count(*) n FROM clicks GROUP BY user HAVING count(*) > 5 ORDER BY user NULLS LAST",
    "SELECT user, count(*) n FROM clicks GROUP BY user HAVING count(*) > 5 ORDER BY user DESC NULLS FIRST",
    "SELECT sum(price_cents) / count(*) AS mean, avg(price_cents) a, sum(quantity) DIV 7 q, "
    "sum(quantity) % 7 FROM clicks",
    "SELECT event, sum(CASE WHEN quantity > 1 THEN price_cents ELSE 0 END) FROM clicks GROUP BY event ORDER BY 1",
    "SELECT CASE event WHEN 'buy' THEN 'b' WHEN 'like' THEN 'l' END k, count(*) FROM clicks GROUP BY 1 ORDER BY k",
    "SELECT count_if(quantity > 1), count(user), mean(rating), min(ts), max(ts) FROM clicks",
    "SELECT count(*) FROM clicks WHERE product LIKE 'Angry%' OR product ILIKE '%bruno%' OR product RLIKE '^T.*s$'",
    "SELECT count(*) FROM clicks WHERE path LIKE '%!_%' ESCAPE '!' OR path LIKE '_shop%'",
    "SELECT count(*) FROM clicks WHERE quantity IN (2, 3) AND category NOT IN ('Toys', 'Office')",
    "SELECT count(*) FROM clicks WHERE price_cents BETWEEN 500 AND 1500.5 AND NOT rating <=> NULL",
    "SELECT count(*) FROM clicks WHERE user IS NULL OR rating IS NOT NULL AND (quantity > 1) IS TRUE",
    "SELECT count(*) FROM clicks WHERE (user = 'u000001') IS NOT TRUE AND event <> 'buy' AND user != 'x'",
    "SELECT count(*) FROM clicks WHERE ts >= TIMESTAMP '2026-01-01 00:00:45' AND to_date(ts) = DATE '2026-01-01'",
    "SELECT date_trunc('minute', ts) m, hour(ts) h, count(*) FROM clicks GROUP BY 1, 2 ORDER BY m",
    "SELECT to_date(ts) d, count(*) FROM clicks GROUP BY to_date(ts)",
    "SELECT split_part(path, '/', 3) p, count(*) n FROM clicks GROUP BY split_part(path, '/', 3) ORDER BY n DESC, p",
    "SELECT regexp_extract(user, 'u0*([0-9])', 1) d, count(*) FROM clicks GROUP BY 1 ORDER BY 1",
    "SELECT substr(session, 2, 2) || '-' || event AS k, count(*) n FROM clicks GROUP BY 1 ORDER BY n DESC, k LIMIT 7",
    "SELECT CAST(substr(user, 2) AS INT) % 3 r, count(*), sum(CAST(rating AS INT)) FROM clicks GROUP BY 1 ORDER BY r",
    "SELECT sum(price_cents * 0.01) AS euros, sum(price_cents * 1e-2) x, max(-quantity), "
    "sum(quantity / 0) z FROM clicks",
    "SELECT coalesce(user, 'nobody') u, count(*) n FROM clicks GROUP BY 1 ORDER BY n DESC, u LIMIT 5",
    "SELECT event e, count(*) FROM clicks c WHERE c.quantity & 1 = 1 GROUP BY c.event ORDER BY upper(e), count(*)",
    "SELECT product, count(*) n, sum(quantity) FROM clicks GROUP BY product ORDER BY sum(quantity) "
    "* 2 DESC, product LIMIT 3",
    "SELECT `event`, count(*) FROM clicks GROUP BY `event` ORDER BY `event` LIMIT 2",
    "SELECT if(quantity = 1, 'one', 'more') q, count(*) FROM clicks GROUP BY if(quantity = 1, "
    "'one', 'more') ORDER BY q",
    "SELECT -2147483648 AS low, 2147483648 AS high, 'a' 'b' AS text, NULL AS nothing, true AS yes, "
    "count(*) FROM clicks",
]


@pytest.mark.parametrize("text", TEXTS)
def test_each_clause_equals_sparks_own_sql(spark: SparkSession, events: DataFrame, text: str) -> None:
    computed = run(events, text)
    frame = spark.sql(text)
    assert list(computed.types) == [field.dataType.simpleString() for field in frame.schema.fields]
    wanted = [_cells(frame, row) for row in frame.collect()]
    limit = computed.limit or len(computed.rows)
    assert len(computed.rows[:limit]) == len(wanted)
    ordered = "ORDER BY" in text
    rows = computed.rows[:limit] if ordered else sorted(computed.rows, key=repr)
    for one, other in zip(rows, wanted if ordered else sorted(wanted, key=repr), strict=True):
        assert close(one, other), (one, other)


def _cells(frame: DataFrame, row: Any) -> tuple[Any, ...]:
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    return tuple(
        round(value.timestamp() * 1e6)
        if kind == "timestamp" and value is not None
        else (value - datetime.date(1970, 1, 1)).days
        if kind == "date" and value is not None
        else float(value)
        if kind.startswith("decimal") and value is not None
        else value
        for kind, value in zip(kinds, row, strict=True)
    )


def test_window_bounds_are_columns(events: DataFrame) -> None:
    computed = run(
        events,
        "SELECT window.start AS s, window.end AS e, event, count(*) n FROM clicks "
        "GROUP BY event, window(ts, '30 seconds') ORDER BY window.start, event",
    )
    assert {row[:2] for row in computed.rows} == {(WINDOW[0] * 1_000, WINDOW[1] * 1_000)}
    assert computed.keys == (2,)


def test_a_window_without_events_has_no_rows(events: DataFrame) -> None:
    plan = RowsPlan("SELECT count(*) n FROM clicks GROUP BY window(ts, '30 seconds')")
    assert plan.run(events, (0, 30_000)).rows == []
    assert len(plan.run(events, WINDOW).rows) == 1
    assert RowsPlan("SELECT count(*) n FROM clicks").run(events, (0, 30_000)).rows == [(0,)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT nothing, count(*) FROM clicks GROUP BY nothing", "no column 'nothing'"),
        ("SELECT product, count(*) FROM clicks GROUP BY event", "'product' is neither in GROUP BY"),
        ("SELECT reflect('java.lang.System', 'exit', 0), count(*) FROM clicks", "does not call the function 'reflect'"),
        ("SELECT uper(event), count(*) FROM clicks GROUP BY 1", "did you mean 'upper'"),
        ("SELECT event, count(*) FROM clicks GROUP BY 3", "position 3"),
        ("SELECT sum(quantity) FROM clicks WHERE substr(event) = 'x'", "Spark refuses the query"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_reason(events: DataFrame, query: str, said: str) -> None:
    with pytest.raises(JobSpecError, match=said):
        run(events, query)
