"""The states that Spark computes from the archive are those that agents would have kept: equal answers, mergeable."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.cbt import INTERVAL
from elf.demo.clicks import START_MS
from elf.offline.backfill.panes import hand_over, read_frames
from elf.offline.backfill.states import state_frames
from elf.offline.events import find_files, read_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop

Computed = Callable[[str], pl.DataFrame]
WINDOW = "window(ts, '60 seconds', '20 seconds')"
#: All of the shop's events, some of which are out of order.
SPAN = START_MS - 60_000, START_MS + 180_000
QUERIES = {
    "plain": f"""SELECT category, event, count(*) n, count(rating) r, count_if(quantity > 1) c, sum(price_cents) s,
        sum(quantity) q, sum(-price_cents * 4000000) big, sum(rating) d, avg(rating) a, min(rating), max(rating),
        min(product), max(user), bool_and(quantity > 0) AS every_, bool_or(rating > 4) AS some_, any_value(path),
        var_pop(rating) v, stddev_samp(price_cents) sd, first(product) f, last(product) l, min(ts) t0, max(to_date(ts)),
        first(rating) IGNORE NULLS AS fr, last(rating, true) lr, first(rating) AS fn, min_by(product, price_cents) mb,
        max_by(rating, quantity) xb, sum(quantity) FILTER (WHERE event = 'buy') sold
        FROM clicks WHERE event <> 'scroll' GROUP BY category, event, {WINDOW}""",
    "slotted": f"""SELECT event, count(DISTINCT user) u, count(DISTINCT rating, product) p, collect_set(category) cs,
        approx_count_distinct(session) h, approx_percentile(price_cents, 0.9) p9, approx_percentile(rating, 0.5) AS pr,
        count(DISTINCT user) FILTER (WHERE quantity > 1) AS b, count(*) n FROM clicks GROUP BY event, {WINDOW}""",
    "times": f"""SELECT date_trunc('minute', ts) AS minute, rating, to_date(ts) AS day, quantity > 1 AS many, count(*) n
        FROM clicks GROUP BY minute, rating, day, many, {WINDOW}""",
    "of one row": f"""SELECT event, last(product) l, last(rating) r, first(user) f, first(rating) IGNORE NULLS AS g,
        max_by(product, quantity) p, max_by(user, quantity) FILTER (WHERE rating > 2) AS q, any_value(product) AS a,
        any_value(rating) AS b FROM clicks GROUP BY event, {WINDOW}""",
    "no keys": f"SELECT count(*) n, max(price_cents) m FROM clicks GROUP BY {WINDOW}",
    "no aggregates": f"SELECT product FROM clicks WHERE rating > 4 GROUP BY product, {WINDOW}",
}


def plan_of(query: str, shop: Shop) -> Plan:
    definition = Definition(name="job", creator="shop", source="clicks", query=query, columns=shop.columns)
    return compile_job(definition, definition.types)


@pytest.fixture(scope="module")
def computed(spark: SparkSession, shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Computed:
    """Computes the rows of a query of this module, once."""

    @functools.cache
    def rows_of(query: str) -> pl.DataFrame:
        plan, folder = plan_of(query, shop), tmp_path_factory.mktemp("computed")
        columns = {name: shop.columns[name] for name in plan.columns}
        # As one task has them; tests/system/test_backfill.py has passes of several.
        events = read_events(spark, find_files(shop.folders, "clicks"), columns).coalesce(1)
        for name, frame in state_frames(plan, events, SPAN):
            hand_over(frame, folder, name)
        return read_frames(folder, plan.schema)

    return rows_of


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_spark_computes_what_agents_keep(shop: Shop, computed: Computed, query: str) -> None:
    plan = plan_of(query, shop)
    rows = computed(query)
    assert rows.schema == plan.schema.empty().schema
    assert rows[INTERVAL].is_sorted()
    kept = plan.schema.merge([plan.reduce(shop.events)])
    merged = plan.schema.merge([rows])
    assert merged.height == kept.height
    # Sums of doubles differ in their last bits, as Spark's do: what they answer is compared.
    for first, last in ((0, 4), (5, 9)):
        begin = SPAN[0] // plan.interval_ms
        answers = []
        for frame in (merged, kept):
            within = frame.filter(pl.col(INTERVAL).is_between(begin + first, begin + last))
            bounds = ((begin + first) * plan.interval_ms, (begin + last + 1) * plan.interval_ms)
            found = plan.finish(plan.schema.merge_window([within]), bounds)
            by = [name for name, kind in plan.output if not isinstance(found[name].dtype, pl.List | pl.Float64)]
            answers.append(found.sort(by, nulls_last=True))
        assert answers[0].height
        assert_frame_equal(*answers, rel_tol=1e-9, abs_tol=1e-9)


def test_states_of_both_origins_merge(shop: Shop, computed: Computed) -> None:
    """A window may begin in backfilled intervals and end in counted ones: sketches have to hash and cut alike."""
    plan = plan_of(QUERIES["slotted"], shop)
    rows, kept = computed(QUERIES["slotted"]), plan.reduce(shop.events)
    middle = SPAN[0] // plan.interval_ms + 6
    parts = [rows.filter(pl.col(INTERVAL) < middle), kept.filter(pl.col(INTERVAL) >= middle)]
    answer, expected = (plan.finish(plan.schema.merge_window(each), SPAN).sort("event") for each in (parts, [kept]))
    assert_frame_equal(answer, expected, rel_tol=1e-9)
