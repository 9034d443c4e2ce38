"""One definition, two engines: what the agents compute from PAOs is what Spark computes from the archive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.functions.registry import function_names
from elf.agents.language.types import SqlType
from elf.agents.sources.format import parse_chunk
from elf.agents.sources.json_lines import JsonLines
from elf.demo.clicks import START_MS
from elf.offline.expressions import FUNCTIONS
from tests.elf.offline.conftest import Shop
from tests.elf.offline.verify.master import verify

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

Result = dict[str, Any]
WINDOW = (START_MS + 20_000, START_MS + 80_000)
SLIDING = "window(ts, '60 seconds', '20 seconds')"

QUERIES = [
    f"""SELECT product, count(*) AS clicks FROM clicks WHERE event = 'click' AND category = 'Video Games'
    GROUP BY product, {SLIDING} ORDER BY clicks DESC LIMIT 10""",
    f"""SELECT category, event, count(*) n, sum(price_cents * quantity) s, avg(rating) a, min(rating), max(product)
    FROM clicks GROUP BY category, event, {SLIDING}""",
    f"""SELECT lower(category) c, count(user) n, sum(quantity) / count(*) mean FROM clicks
    GROUP BY lower(category), {SLIDING} HAVING n > 300 ORDER BY mean DESC""",
    f"""SELECT user, sum(CASE WHEN event = 'buy' THEN price_cents ELSE 0 END) spent, max(ts) AS last FROM clicks
    GROUP BY user, {SLIDING} HAVING sum(quantity) > 3 ORDER BY spent DESC, user LIMIT 25""",
    f"""SELECT window.start AS s, window.end AS e, count(*) n, avg(price_cents) FROM clicks
    WHERE product LIKE '%2' GROUP BY {SLIDING}""",
    f"""SELECT split_part(path, '/', 3) AS section, date_trunc('minute', ts) AS minute, count(*) n FROM clicks
    GROUP BY section, minute, {SLIDING} ORDER BY 1, 2""",
    f"""SELECT product FROM clicks WHERE rating > 4 AND quantity IN (1, 2)
    GROUP BY product, {SLIDING} ORDER BY product LIMIT 5""",
    f"""SELECT to_date(ts) d, price_cents % 7 = 0 AS lucky, min(quantity) q FROM clicks
    GROUP BY 1, 2, {SLIDING} ORDER BY 2""",
]


def publish(shop: Shop, query: str) -> tuple[Definition, Result]:
    """Compute one window as the agents do: each agent reduces, snapshots merge, the master finishes."""
    definition = Definition(name="both", creator="shop", source="clicks", query=query, columns=shop.columns)
    plan = compile_job(definition, definition.types)
    half = shop.events.height // 2
    snapshots = [plan.schema.merge([plan.reduce(part)]) for part in (shop.events[:half], shop.events[half:])]
    first, last = (bound // plan.interval_ms for bound in WINDOW)
    within = [frame.filter(pl.col("interval").is_between(first, last, closed="left")) for frame in snapshots]
    rows = plan.finish(plan.schema.merge_window(within), WINDOW)
    texts = rows.with_columns(
        pl.selectors.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ"), pl.selectors.date().dt.to_string()
    )
    return definition, {
        "window": {"start_ms": WINDOW[0], "end_ms": WINDOW[1]},
        "columns": [{"name": name, "type": kind.value} for name, kind in plan.output],
        "rows": texts.to_dicts(),
        "completeness": {"status": "final", "expected": 2, "reported": 2},
    }


@pytest.mark.parametrize("query", QUERIES)
def test_agents_and_spark_agree(spark: SparkSession, shop: Shop, query: str) -> None:
    definition, result = publish(shop, query)
    report = verify(definition, shop.folders, [result])
    assert result["rows"]
    assert report.agrees, report.to_dict()


def test_columns_that_a_definition_does_not_list_are_taken_as_stored(spark: SparkSession, shop: Shop) -> None:
    definition, result = publish(shop, QUERIES[0])
    bare = Definition(name="both", creator="shop", source="clicks", query=definition.query)
    assert verify(bare, shop.folders, [result]).agrees


PATHS = {"request.uri": "STRING", "request.headers['User-Agent'][0]": "STRING", "request.bytes": "BIGINT"}


@pytest.mark.parametrize("bytes_sent", ["request.bytes", "request['bytes']", "`request.bytes`"])
def test_paths_are_columns_of_the_archive(spark: SparkSession, tmp_path: Path, bytes_sent: str) -> None:
    """The text that agents run is the text that Spark runs, however it writes a path."""
    requests = [{"uri": f"/{n % 7}", "headers": {"User-Agent": [f"a{n % 3}"]}, "bytes": n} for n in range(1_000)]
    rows = [{"ts": START_MS + 100 * n, "request": request} for n, request in enumerate(requests)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    events = parse_chunk(JsonLines(), lines, {name: SqlType.parse(kind) for name, kind in PATHS.items()}).events
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=2_000)
    archive.append(events)
    archive.prepare(0)
    archive.commit(0)
    query = f"""SELECT request.uri, get_json_object(request, '$.headers[\\'User-Agent\\'][0]') AS agent, count(*) AS n,
        sum({bytes_sent}) AS bytes FROM clicks WHERE clicks.request.uri <> '/3'
        GROUP BY request.uri, request.headers['User-Agent'][0], {SLIDING} HAVING sum(request.bytes) > 10 ORDER BY 4"""
    definition, result = publish(Shop([tmp_path], events, PATHS), query)
    assert [column["name"] for column in result["columns"]] == ["uri", "agent", "n", "bytes"]
    report = verify(definition, [tmp_path], [result])
    assert len(result["rows"]) == 18
    assert report.agrees, report.to_dict()


def test_the_planner_calls_every_function_of_the_job_language() -> None:
    assert set(function_names()) <= FUNCTIONS
