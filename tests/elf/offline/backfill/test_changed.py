"""A changed job is backfilled from the begin of its version on, by its definition, and then agrees with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elf.demo.clicks import START_MS
from elf.offline.backfill.run import run_backfill
from elf.offline.verify.run import run_verify
from tests.elf.offline.verify.changed import FIRST, Changed, version, window
from tests.elf.offline.verify.master import QUERY, STEP_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop

BOUGHT = """SELECT product, count(*) AS n FROM clicks WHERE event = 'buy'
GROUP BY product, window(ts, '20 seconds', '10 seconds') ORDER BY product"""
HISTORY = (
    version(1, "publish", QUERY, None, None, 0),
    version(2, "update", BOUGHT, 5, 5, 2),
    version(3, "pause", BOUGHT, 6, 5, 2),
    version(4, "resume", BOUGHT, 7, 5, 2),
)
#: Not begun yet: what is backfilled is not of it.
NEXT = version(5, "update", BOUGHT.replace("'buy'", "'click'"), 12 + 1, 12 + 1, 5)


def test_what_an_agent_lacks_of_a_version_is_computed_by_it(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    with Changed(tmp_path, shop, [*HISTORY, NEXT], told={"web-2": {2: 8, 4: 8}}) as master:
        windows = [window(*span) for span in ((5, 6), (4, 6), (6, 8), (7, 8), (7, 9))]

        def labels() -> list[list[str]]:
            return [master.query("top", window=each)["completeness"]["missing"] for each in windows]

        assert all("web-2" in missing for missing in labels())
        former = master.query("top", window=window(2, 5))
        done = run_backfill(master, "top", START_MS, shop.folders)
        assert (done.intervals, done.missing) == (2, ())
        assert done.notes == (
            "the job was changed, and the windows of its version 4 begin at 2026-01-01T00:00:50Z: those of former "
            "versions stay as they are",
            "the job was paused for 1 intervals, which count nothing",
        )
        assert labels() == [[], ["web-1", "web-2"], [], [], []]
        assert master.query("top", window=windows[0])["completeness"]["backfilled"] == 1
        assert master.query("top", window=window(2, 5)) == former
        report = run_verify(master, "top", windows, shop.folders)
    assert report.agrees, report.to_dict()
    assert all(each.rows_online for each in report.windows)


def test_what_an_agent_lacks_of_shorter_intervals_is_computed_in_these(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    """From the fifth interval on they are half as long, and their numbers go on."""
    query = BOUGHT.replace("'20 seconds', '10 seconds'", "'10 seconds', '5 seconds'")
    finer = version(2, "update", query, 5, 5, 2, shift=-(FIRST + 5))
    with Changed(tmp_path, shop, [HISTORY[0], finer], told={"web-2": {2: 8}}) as master:
        from_ms = (FIRST + 5) * STEP_MS
        windows = [f"{from_ms + first_ms}/{from_ms + first_ms + 10_000}" for first_ms in (0, 5_000, 10_000, 15_000)]

        def labels() -> list[list[str]]:
            return [master.query("top", window=each)["completeness"]["missing"] for each in windows]

        assert labels() == [["web-2"], ["web-2"], ["web-2"], []]
        former = master.query("top", window=window(2, 5))
        done = run_backfill(master, "top", START_MS, shop.folders)
        assert (done.intervals, done.missing, done.start_ms, done.end_ms) == (3, (), from_ms, from_ms + 15_000)
        assert labels() == [[], [], [], []] and master.query("top", window=window(2, 5)) == former
        report = run_verify(master, "top", windows, shop.folders)
        whole = run_verify(master, "top", None, shop.folders, since="1h")
    assert report.agrees, report.to_dict()
    assert whole.passes and [each.windows for each in whole.versions] == [5, 7], whole.to_dict()
    assert all(each.rows_online for each in report.windows)
