"""Jobs over other jobs are computed by Spark from the archive: right results agree, wrong cells are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest

from elf.agents.completeness.label import Label
from elf.agents.errors import JobError, JobSpecError
from elf.agents.extensions.signed.signatures import sign
from elf.agents.language.combination import compile_joined
from elf.agents.language.joins import Joined, Use
from elf.agents.language.own_functions import OwnFunction
from elf.agents.master.results import Span, completeness_of, result_of
from elf.demo.clicks import START_MS
from elf.offline.asking import describe
from elf.offline.verify.run import run_verify
from tests.agents.extensions.signed.signed_jobs import SECRET, TRUSTED
from tests.agents.plans import plan_of
from tests.elf.offline.shown import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop

SIZE_MS, STEP_MS = 30_000, 10_000
CLICKED = """SELECT product, concat(product, '!') AS named, count(*) AS clicks FROM clicks WHERE event = 'click'
GROUP BY product, window(ts, '30 seconds', '10 seconds') ORDER BY clicks DESC, product LIMIT 40"""
#: Its own windows are others; two of its versions count one half of the time each.
RATED = """SELECT concat(product, '!') AS name, avg(rating) AS rating, max(ts) AS newest FROM clicks
WHERE rating > {least} GROUP BY concat(product, '!'), window(ts, '10 seconds')"""
QUERY = """SELECT c.product, clicks * 2 AS twice, rating, newest, window.end AS until FROM job('shop/clicked') c
LEFT JOIN job('shop/rated') r ON r.name = c.named WHERE clicks > 3 ORDER BY twice DESC LIMIT 20"""
CHANGED_MS = START_MS + 60_000
JOINED = Joined(
    query=QUERY,
    uses=(
        Use(
            job="shop/clicked",
            window=(SIZE_MS, STEP_MS),
            columns={"product": "STRING", "named": "STRING", "clicks": "BIGINT"},
        ),
        Use(
            job="shop/rated",
            window=(STEP_MS, STEP_MS),
            columns={"name": "STRING", "rating": "DOUBLE", "newest": "TIMESTAMP"},
        ),
    ),
)


class Masters:
    """The masters of all three jobs: results are computed by Polars."""

    def __init__(self, shop: Shop) -> None:
        self._events = shop.events

    def job(self, name: str) -> dict[str, Any]:
        columns = {"product": "STRING", "event": "STRING", "rating": "DOUBLE"}
        known: dict[str, Any] = {
            "creator": "shop",
            "name": name.partition("/")[2],
            "source": "clicks",
            "query": {"shop/clicked": CLICKED, "shop/rated": RATED.format(least=1), "shop/both": QUERY}[name],
            "columns": columns,
            "window": {"size_ms": STEP_MS if name == "shop/rated" else SIZE_MS, "slide_ms": STEP_MS},
            "interval_ms": STEP_MS,
            "through_ms": START_MS + 110_000,
            "agents": {"web-1": "web-1", "web-2": "web-2"},
            "joined": msgspec.to_builtins(JOINED) if name == "shop/both" else None,
        }
        if name == "shop/rated":
            same = {"columns": columns, "options": {}, "made_ms": 0}
            first = {"version": 1, "what": "publish", "since_ms": None, "until_ms": CHANGED_MS, "begins_ms": None}
            second = {"version": 2, "what": "update", "since_ms": CHANGED_MS, "until_ms": None, "begins_ms": CHANGED_MS}
            queries = {"query": RATED.format(least=0)}, {"query": known["query"]}
            known["versions"] = [first | same | queries[0], second | same | queries[1]]
        return known

    def query(self, name: str, *, window: str, limit: int | None = None) -> dict[str, Any]:
        start_ms, end_ms = map(int, window.split("/"))
        at_ms = pl.col("ts").dt.epoch("ms")
        events = self._events.filter(at_ms >= start_ms, at_ms < end_ms)
        clicked = (
            events.filter(event="click")
            .group_by("product")
            .agg((pl.col("product").first() + "!").alias("named"), pl.len().cast(pl.Int64).alias("clicks"))
            .sort("clicks", "product", descending=[True, False])
            .head(40)
        )
        counted, least = (events.filter(at_ms >= CHANGED_MS), 1) if end_ms > CHANGED_MS else (events, 0)
        rated = (
            counted.filter(pl.col("rating") > least)
            .group_by((pl.col("product") + "!").alias("name"))
            .agg(pl.col("rating").mean(), pl.col("ts").max().cast(pl.Datetime("us")).alias("newest"))
        )
        plan = plan_of("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '30 seconds', '10 seconds')")
        combining = compile_joined(JOINED)
        rows = combining.combine([clicked, rated], (start_ms, end_ms))
        plan = msgspec.structs.replace(plan, output=combining.output)
        label, span = Label(0, 0, 2), Span(start_ms, end_ms)
        completeness = completeness_of(plan, span, label, 0, end_ms, str)
        result: dict[str, Any] = msgspec.to_builtins(result_of(plan, span, rows, end_ms, completeness))
        return {"job": "shop/both", **result}


def windows(*starts: int) -> list[str]:
    return [f"{START_MS + start}/{START_MS + start + SIZE_MS}" for start in starts]


def test_right_results_agree_whichever_version_of_a_job_that_is_read_counts_them(
    spark: SparkSession, shop: Shop
) -> None:
    masters = Masters(shop)
    report = run_verify(masters, "shop/both", windows(20_000, 30_000, 40_000, 70_000), shop.folders)
    assert report.agrees and not report.damaged, shown(report, 200)
    assert [window.rows_online for window in report.windows] == [20] * 4
    rated = [sum(row["rating"] is not None for row in masters.query("", window=one)["rows"]) for one in windows(20_000)]
    assert rated[0] > 5, "most rows have a partner"


def test_functions_that_a_job_that_is_read_brings_along_run_if_its_creator_is_trusted(
    spark: SparkSession, shop: Shop
) -> None:
    source = "def loud(product, least): return product and product + '!'"
    function = OwnFunction(name="loud", args=("STRING", "DOUBLE"), returns="STRING", source=source)
    functions = msgspec.to_builtins(sign("shop", "rated", [function], SECRET))

    class Signed(Masters):
        def job(self, name: str) -> dict[str, Any]:
            known = super().job(name)
            if name == "shop/rated":
                newest = {"query": known["query"].replace("concat(product, '!')", "loud(product, 1)")}
                newest |= {"functions": functions}
                known = known | newest | {"versions": [known["versions"][0], known["versions"][1] | newest]}
            return known

    report = run_verify(Signed(shop), "shop/both", windows(20_000, 70_000), shop.folders, trusted=TRUSTED.items())
    assert report.agrees and [window.rows_online for window in report.windows] == [20] * 2, shown(report, 200)
    with pytest.raises(JobSpecError, match=r"the functions \(loud\) that 'shop' sends with job shop/rated: give its"):
        run_verify(Signed(shop), "shop/both", windows(20_000), shop.folders)


def test_a_wrong_cell_is_found(spark: SparkSession, shop: Shop) -> None:
    masters = Masters(shop)
    right = masters.query

    def tampered(name: str, *, window: str, limit: int | None = None) -> dict[str, Any]:
        result = right(name, window=window)
        result["rows"][4]["twice"] += 1
        return result

    masters.query = tampered  # type: ignore[method-assign]
    report = run_verify(masters, "shop/both", windows(20_000), shop.folders)
    assert not report.agrees and not report.passes
    masters.query = lambda name, **given: (
        tampered(name, **given)
        | {  # type: ignore[method-assign]
            "completeness": tampered(name, **given)["completeness"]
            | {"missing": ["web-1"], "status": "final_incomplete"}
        }
    )
    report = run_verify(masters, "shop/both", windows(20_000), shop.folders)
    (window,) = report.windows
    assert not report.passes and window.unexplained, "whatever its label says"
    assert window.label == ["missing web-1"] and "verify the jobs that it reads" in window.notes[-1]


def test_other_offline_work_is_for_the_jobs_that_it_reads(shop: Shop) -> None:
    with pytest.raises(JobError, match="ask so of shop/clicked and shop/rated"):
        describe(Masters(shop), "shop/both")
