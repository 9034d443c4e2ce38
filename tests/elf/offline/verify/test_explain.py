"""What a label says has to account for what differs: left out, or within bounds; else nothing explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from elf.demo.clicks import START_MS
from elf.offline.events import find_files
from elf.offline.verify.counted import Counted
from elf.offline.verify.explain import Case, alike
from elf.offline.verify.lacks import Lack
from elf.offline.verify.report import Report
from elf.offline.verify.rows import OfflineRows
from elf.offline.verify.run import run_verify
from elf.offline.verify.versions import Counting
from tests.elf.offline.verify.master import STEP_MS, Master, Missing, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop

#: web-2 was away for 20 s.
AWAY: Missing = {("web-2", 4), ("web-2", 5)}
TOUCHED = {START_MS + at * STEP_MS for at in (2, 3, 4, 5)}


def differing(report: Report) -> set[int | None]:
    return {window.start_ms for window in report.windows if window.differences}


def test_an_agent_that_was_away_is_left_out_and_nothing_else(spark: SparkSession, shop: Shop) -> None:
    report = run_verify(Master(shop, AWAY), "top", archives=shop.folders, since="1h")
    assert report.passes and report.explained and not report.agrees
    assert differing(report) == TOUCHED
    whys = {each.why for window in report.windows for each in window.differences}
    away = "2026-01-01T00:00:40Z/2026-01-01T00:01:00Z"
    assert f"without missing web-2 {away} Spark has the same" in whys and len(whys) == 3
    assert report.verdict.startswith("differs, as its label announces")


def test_a_changed_cell_is_not_hidden_by_a_label(spark: SparkSession, shop: Shop) -> None:
    changed = {START_MS + 3 * STEP_MS, START_MS + 8 * STEP_MS}

    def tamper(result: Result) -> None:
        if result["window"]["start_ms"] in changed:
            result["rows"][2]["clicks"] -= 1

    report = run_verify(Master(shop, AWAY, tamper=tamper), "top", archives=shop.folders, since="1h")
    assert not report.passes
    found = {(window.start_ms, each.column) for window in report.windows for each in window.unexplained}
    assert {start for start, _ in found} == changed and ("clicks" in {column for _, column in found})
    assert differing(report) == TOUCHED | changed


def test_what_was_counted_in_part_lies_within_bounds(spark: SparkSession, shop: Shop) -> None:
    some = pl.col("price_cents") % 3 == 0
    report = run_verify(Master(shop, AWAY, some), "top", archives=shop.folders, since="1h")
    assert differing(report) == TOUCHED
    assert report.passes, report.to_dict()
    whys = [each.why for window in report.windows for each in window.differences]
    assert any(why.startswith("within what the label leaves open (missing web-2 ") for why in whys)


def test_more_than_all_events_is_out_of_bounds(spark: SparkSession, shop: Shop) -> None:
    def tamper(result: Result) -> None:
        if result["window"]["start_ms"] == START_MS + 4 * STEP_MS:
            result["rows"][0]["clicks"] += 1_000

    some = pl.col("price_cents") % 3 == 0
    report = run_verify(Master(shop, AWAY, some, tamper), "top", archives=shop.folders, since="1h")
    (wrong,) = [(window.start_ms, each) for window in report.windows for each in window.unexplained]
    assert wrong[0] == START_MS + 4 * STEP_MS and wrong[1].column == "clicks"
    assert not report.passes


def test_events_that_may_count_twice_explain_more_and_never_less(spark: SparkSession, shop: Shop) -> None:
    more, less = START_MS + 2 * STEP_MS, START_MS + 5 * STEP_MS

    def tamper(result: Result) -> None:
        result["completeness"]["semantics"] = "at-least-once"
        result["rows"][0]["clicks"] += {more: 3, less: -1}.get(result["window"]["start_ms"], 0)

    report = run_verify(Master(shop, tamper=tamper), "top", archives=shop.folders, since="1h")
    assert differing(report) == {more, less}
    assert {window.start_ms for window in report.windows if window.unexplained} == {less}
    assert not report.passes


def test_windows_whose_labels_agree_on_what_they_share_are_one_pass() -> None:
    rows = OfflineRows((), (), (), [], [], None)

    def case(start_ms: int, *lacks: Lack) -> Case:
        return Case((start_ms, start_ms + 30), {}, rows, [], list(lacks))

    one = case(0, Lack(20, 30, "a", True, "missing"))
    other = case(10, Lack(20, 40, "a", True, "missing"))
    whole = case(20, Lack(20, 50, "a", True, "missing"), Lack(20, 50, "b", True, "missing"))
    assert alike([one, other, whole]) == [[one, other], [whole]]


def test_what_a_result_lacks_is_left_out_by_agent_and_time(spark: SparkSession, shop: Shop) -> None:
    from pyspark.sql import functions as F

    lacks = [
        Lack(START_MS + 10_000, START_MS + 20_000, "the second", True, "missing"),
        Lack(START_MS + 40_000, START_MS + 50_000, "", True, "void"),
    ]
    files = find_files(shop.folders, "clicks")
    names, span = {"web-2": "the second"}, (START_MS, START_MS + 120_000)
    events = Counted(spark, files, {}, names, Counting("", {}), span).read(lacks)
    seconds = F.floor((F.unix_millis("ts") - F.lit(START_MS)) / 10_000)
    counts = {row[0]: row[1] for row in events.groupBy(seconds).count().collect()}
    all_counts: dict[int, int] = {}
    half = shop.events.height // 2
    for place, at in enumerate(shop.events["ts"].dt.epoch("ms")):
        number = (at - START_MS) // 10_000
        kept = number != 4 and not (number == 1 and place >= half)
        all_counts[number] = all_counts.get(number, 0) + kept
    assert counts == {number: count for number, count in all_counts.items() if count}
