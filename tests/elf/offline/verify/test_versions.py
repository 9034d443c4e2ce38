"""A changed job's windows are compared by the version that counted them, over the events that it counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.client.results import Version
from elf.demo.clicks import START_MS
from elf.offline.asking import JobText
from elf.offline.verify.run import run_verify
from elf.offline.verify.versions import Counting, Countings
from tests.elf.offline.shown import shown
from tests.elf.offline.verify.changed import BOUGHT, FIRST, HISTORY, Changed, window
from tests.elf.offline.verify.master import JOB, STEP_MS, Result, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop


def described(number: int, what: str, since: int | None, until: int | None, begins: int | None) -> Version:
    return Version(number, what, f"query {number}", 0, since, until, begins)


PAUSED = (
    described(1, "publish", None, 30, None),
    described(2, "pause", 30, 50, None),
    described(3, "resume", 50, 70, None),
    described(4, "update", 70, 90, 70),
    described(5, "pause", 90, 90, 70),
    described(6, "stop", 90, None, 70),
)


def test_a_result_is_counted_by_the_version_that_it_names() -> None:
    countings = Countings(JOB, PAUSED, 10)
    found = {number: countings.of({"version": number}) for number in range(1, 8)}
    assert [each and each.query for each in found.values()] == [f"query {at}" for at in range(1, 7)] + [None]
    assert countings.of({}) is None, "which one nobody knows"
    unchanged = Countings(JOB, PAUSED[:1])
    assert (unchanged.of({}) or JOB).query == "query 1"
    assert Countings(JOB).of({"version": 9}) == Counting(JOB.query, JOB.columns), "an agent that knows no versions"


def test_versions_that_were_made_meanwhile_are_asked_for_once() -> None:
    asked: list[int] = []

    def again() -> tuple[Version, ...]:
        asked.append(1)
        return PAUSED

    countings = Countings(JOB, PAUSED[:2], 10, again)
    assert (countings.of({"version": 4}) or JOB).query == "query 4" and countings.changed
    assert countings.of({"version": 99}) is None and countings.of({"version": 99}) is None
    assert len(asked) == 2


@given(st.integers(0, 20), st.integers(1, 20), st.sampled_from(PAUSED))
def test_what_is_left_out_is_what_lies_before_its_begin_and_pauses(first: int, length: int, by: Version) -> None:
    counting = Countings(JOB, PAUSED, 10).of({"version": by.version})
    assert counting is not None
    span = first * 10, (first + length) * 10
    counted = counting.within(span)
    assert span[0] <= counted[0] <= counted[1] == span[1]
    runs = [(span[0], counted[0]), *counting.paused(span)]
    for at in range(first, first + length):
        paused = 3 <= at < 5 or at >= 9
        is_left_out = any(since <= at * 10 < until for since, until in runs)
        assert is_left_out == (at * 10 < (by.begins_ms or 0) or paused)
    count = sum(until - since for since, until in counting.paused(span)) // 10
    full = {"expected": 2, "reported": 2, "void": count}
    assert counting.relieved(full, span) == {**full, "void": 0}, "pauses explain nothing more"
    assert counting.relieved({**full, "void": count + 2}, span)["void"] == 2
    named = {"expected": 2, "reported": 0, "missing": ["a", "b"], "void": count}
    assert not counting.unsaid(span, named)
    assert bool(counting.unsaid(span, full)) == (counted[0] > span[0])
    assert bool(counting.unsaid(span, {**named, "void": max(0, count - 1)})) == (count > 0)
    assert len(counting.notes(span)) == (counted[0] > span[0]) + bool(count)


def test_windows_of_all_versions_are_held_to_what_counted_them(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    with Changed(tmp_path, shop, told={"web-2": {3: 6}}) as master:
        report = run_verify(master, "top", archives=shop.folders, since="1h")
    assert report.passes, report.to_dict()
    ends = [((each.end_ms or 0) // STEP_MS - FIRST, each.version) for each in report.windows]
    assert ends == list(enumerate([1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6], 1))
    found = {end: each for (end, _), each in zip(ends, report.windows, strict=True)}
    assert {end for end, each in found.items() if each.differences} <= {6, 7}, "where web-2 counted some of interval 5"
    assert found[7].differences and not any(each.unexplained for each in report.windows)
    assert all("missing web-2" in each.why for each in found[7].differences)
    assert all(each.rows_online for each in report.windows), "there is something to compare"
    began = "nothing before 2026-01-01T00:00:50Z, when this version's windows begin"
    paused = "paused 2026-01-01T00:01:10Z/2026-01-01T00:01:20Z"
    notes = {end: each.notes for end, each in found.items() if each.notes not in ([], ["tie at the cut"])}
    assert notes == {6: [began], 8: [paused], 9: [paused], 11: [began.replace("00:50", "01:40")]}
    assert "(versions 1, 2, 3, 4, 5, 6)" in report.verdict
    assert [(each.version, each.what, each.windows) for each in report.versions] == [
        (1, "publish", 3), (2, "update", 2), (3, "update", 2), (4, "pause", 1), (5, "resume", 2), (6, "reset", 2)
    ]  # fmt: skip
    text = shown(report, 400)
    assert "version 3 (update) from 2026-01-01T00:00:50Z until 2026-01-01T00:01:10Z, 2 windows compared: SELECT" in text


def test_neither_a_pause_nor_a_begin_hides_a_changed_cell_or_label(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    def tamper(result: Result) -> None:
        end = result["window"]["end_ms"] // STEP_MS - FIRST
        result["rows"][0]["n"] += end in (8, 11)
        if end == 9:
            result["completeness"] |= {"void": 0, "status": "final"}

    with Changed(tmp_path, shop, tamper=tamper) as master:
        windows = [window(end - 2, end) for end in (8, 9, 11)]
        report = run_verify(master, "top", windows, shop.folders)
    found = [(each.kind, each.column, each.why) for window in report.windows for each in window.differences]
    assert found == [("cell", "n", ""), ("label", "", ""), ("cell", "n", "")]
    assert report.windows[1].differences[0].offline == "the job was paused for 1 of its intervals"
    assert not report.passes and report.verdict == "differs: 3 differences in shop/top (versions 4, 5, 6)"
    assert report.windows[1].accuracy < 1 and "the label does not say it" in shown(report, 300)


def test_a_total_counts_from_its_versions_begin(spark: SparkSession, shop: Shop) -> None:
    query = "SELECT count(*) AS n FROM clicks"
    job = JobText("shop", "all", "clicks", query, {})
    through_ms, since_ms, paused_ms = START_MS + 100_000, START_MS + 50_000, START_MS + 70_000
    history = (
        Version(1, "publish", "SELECT 1 AS n FROM clicks", 0, None, since_ms),
        Version(2, "reset", query, 0, since_ms, paused_ms, since_ms),
        Version(3, "pause", query, 0, paused_ms, paused_ms + 10_000, since_ms),
        Version(4, "resume", query, 0, paused_ms + 10_000, None, since_ms),
    )
    at_ms = shop.events["ts"].dt.epoch("ms")
    counted = sum(since_ms <= at < through_ms and not paused_ms <= at < paused_ms + 10_000 for at in at_ms)

    def published(n: int) -> dict[str, Any]:
        label = {"status": "final_incomplete", "expected": 2, "reported": 2, "void": 1}
        columns = [{"name": "n", "type": "BIGINT"}]
        return {
            "window": None, "through_ms": through_ms, "columns": columns, "rows": [{"n": n}],
            "completeness": label, "version": 4,
        }  # fmt: skip

    countings = Countings(job, history, 10_000)
    assert verify(job, shop.folders, [published(counted)], countings=countings).agrees
    report = verify(job, shop.folders, [published(counted - 5)], countings=countings)
    assert not report.passes, "the pause explains nothing that it did not leave out"


def test_windows_of_a_version_that_is_forgotten_are_not_compared(shop: Shop, tmp_path: Path) -> None:
    class Forgetful(Changed):
        def job(self, name: str) -> dict[str, Any]:
            known = super().job(name)
            return {**known, "versions": known["versions"][1:]}

    with Forgetful(tmp_path, shop, HISTORY[:2]) as master:
        report = run_verify(master, "top", [window(0, 3)], shop.folders)
    assert report.windows[0].skipped == "counted by version 1, which the job does not remember: not compared"
    assert not report.passes


@pytest.mark.parametrize("since", ["1h", "40s"])
def test_since_lists_the_windows_of_each_version_that_end_among_its_intervals(
    shop: Shop, tmp_path: Path, since: str
) -> None:
    from elf.offline.asking import describe
    from elf.offline.verify.windows import windows_since

    with Changed(tmp_path, shop) as master:
        windows = windows_since(describe(master, "top"), since)
    found = [(start // STEP_MS - FIRST, end // STEP_MS - FIRST) for start, end in windows]
    sizes = [3 if end <= 5 else 2 for end in range(1, 13)]
    expected = [(end - size, end) for end, size in enumerate(sizes, 1)]
    assert found == (expected if since == "1h" else expected[-4:])
    assert BOUGHT in describe(master, "top").query
