"""Windows that are collected to be compared: ties at the limit, keys, and what executors need for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

from elf.demo.clicks import START_MS
from elf.offline.events import find_files, read_events
from elf.offline.grid import Grid
from elf.offline.verify.counted import Counted
from elf.offline.verify.lacks import Lack
from elf.offline.verify.rows import OfflineRows, RowsPlan
from elf.offline.verify.versions import Counting
from tests.elf.offline.verify.master import COLUMNS, QUERY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.elf.offline.conftest import Shop

WINDOW = (START_MS + 30_000, START_MS + 60_000)


@pytest.fixture(scope="module")
def events(spark: SparkSession, shop: Shop) -> DataFrame:
    columns = {"product": "STRING", "event": "STRING", "quantity": "INT"}
    return read_events(spark, find_files(shop.folders, "clicks"), columns)


def run(events: DataFrame, query: str) -> OfflineRows:
    return RowsPlan(query).run(events, WINDOW)


def test_all_rows_that_tie_at_the_limit_come_back(events: DataFrame, shop: Shop) -> None:
    computed = run(
        events,
        "SELECT product, avg(quantity) n FROM clicks GROUP BY product, window(ts, '30 seconds') ORDER BY n LIMIT 200",
    )
    at_ms = pl.col("ts").dt.epoch("ms")
    within = shop.events.filter(at_ms >= WINDOW[0], at_ms < WINDOW[1])
    wanted = within.group_by("product").agg(pl.col("quantity").mean().alias("n"))
    cut = wanted.sort("n")["n"][199]
    assert sorted(computed.rows) == sorted(wanted.filter(pl.col("n") <= cut).rows())
    assert computed.limit == 200 and len(computed.rows) > 200


def test_keys_that_are_not_shown_identify_nothing(events: DataFrame) -> None:
    assert run(events, "SELECT count(*) n FROM clicks GROUP BY product, event").keys == ()
    assert run(events, "SELECT count(*) n, event, product FROM clicks GROUP BY product, event").keys == (2, 1)


def test_executors_need_no_python(spark: SparkSession, shop: Shop) -> None:
    files = find_files(shop.folders, "clicks")
    lacks = [Lack(START_MS, START_MS + 10_000, "web-2", True, "missing")]
    events = Counted(spark, files, COLUMNS, {}, Counting("", {}), (START_MS, START_MS + 30_000)).read(lacks)
    plan = RowsPlan(QUERY)
    frame = plan._heads(plan.rows(events, Grid(START_MS, START_MS, 30_000, 30_000)))
    shown = str(frame._jdf.queryExecution().executedPlan().toString())
    assert not re.search("python|arrow|pandas", shown, re.IGNORECASE), "nothing has to be installed, or shipped"
