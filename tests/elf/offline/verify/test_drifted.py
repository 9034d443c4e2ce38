"""A column whose values drift away from its type: Spark reads what they are, from what a whole agent archived."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from elf.agents.archive.layout import list_files
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import ArchiveSection, PrivacySection, SourceConfig
from elf.agents.sources.raw_texts import raw_name
from elf.offline.asking import JobText
from elf.offline.backfill.run import run_backfill
from tests.agents.publications.test_control import configure
from tests.elf.offline.backfill.asked import Asked, described
from tests.elf.offline.verify.master import Result, verify
from tests.virtual.agents import Agent, free_port, now_ms, time_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.virtual

QUERY = "SELECT product, sum(cents) AS cents, count(*) AS n FROM orders GROUP BY product, window(ts, '10 seconds')"
COLUMNS = {"product": "STRING", "cents": "BIGINT"}
JOB = JobText("shop", "sold", "orders", QUERY, COLUMNS)
TEXT = f'name = "sold"\ncreator = "shop"\nquery = "{QUERY}"\n[columns]\nproduct = "STRING"\ncents = "BIGINT"\n'


async def sold(folder: Path, values: list[Any], **privacy: Any) -> tuple[Path, Result]:
    """Run an agent that is given orders with these values, one a second; return its archive and a window of them."""
    config = configure(folder, "web", free_port(), [])
    source = SourceConfig(columns=COLUMNS, privacy=PrivacySection(**privacy))
    agent = Agent(replace(config, archive=ArchiveSection(), sources={"orders": source}))
    await agent.start()
    try:
        service = Service(agent)
        await service.publish(TEXT, "sold.toml", None, None)
        start_ms = -(-now_ms() // 10_000) * 10_000 + 10_000
        await asyncio.sleep((start_ms - now_ms()) / 1_000)
        lines = [{"ts": start_ms + 900 * at, "product": "x", "cents": each} for at, each in enumerate(values)]
        await service.ingest("orders", "".join(json.dumps(line) + "\n" for line in lines).encode())
        await asyncio.sleep(10)
        deadline, result = time_s() + 120, dict[str, Any]()
        while result.get("completeness", {}).get("status", "open") == "open":
            assert time_s() < deadline
            await asyncio.sleep(1)
            await service.ingest("orders", b'{"ts":%d,"product":"y","cents":1}\n' % now_ms())
            result = await service.result("shop", "sold", f"{start_ms}/{start_ms + 10_000}", None, None)
    finally:
        await agent.stop()
    return folder / "web" / "archive", result


def without_label(result: Result) -> Result:
    label = {name: said for name, said in result["completeness"].items() if name not in ("mistyped", "causes")}
    return {**result, "completeness": label | {"status": "final"}}


async def test_a_drifted_column_is_explained_by_its_label_and_found_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, result = await sold(tmp_path, [1, "2.5", 4, 7.5, "n/a", "1e400"])
    assert result["rows"] == [{"product": "x", "cents": 5, "n": 6}]
    assert result["completeness"]["mistyped"] == {"cents": 4}
    report = verify(JOB, [archive], [result])
    (window,) = report.windows
    (cell,) = window.differences
    assert (cell.column, cell.online, cell.offline) == ("cents", 5, 5 + 2 + 7), "CAST('2.5' AS BIGINT) is 2"
    assert cell.why == "without the values of cents that do not fit its type Spark has the same"
    assert report.passes and not report.agrees
    assert window.notes == ["4 values of cents do not fit its type: Spark read their texts"]
    lying = verify(JOB, [archive], [without_label(result)])
    assert not lying.explained
    assert [(each.kind, each.column) for each in lying.windows[0].unexplained] == [("cell", "cents"), ("label", "")]
    assert lying.windows[0].differences[1].offline == "4 values of cents do not fit its type"
    wrong = {**result, "rows": [{"product": "x", "cents": 6, "n": 6}]}
    assert not verify(JOB, [archive], [wrong]).explained, "a label excuses what it names alone"


async def test_what_spark_cannot_read_either_agrees_if_the_label_tells(spark: SparkSession, tmp_path: Path) -> None:
    archive, result = await sold(tmp_path, [1, "n/a", True, {"a": 1}, 2**63])
    assert result["completeness"]["mistyped"] == {"cents": 4}
    assert verify(JOB, [archive], [result]).agrees
    lying = verify(JOB, [archive], [without_label(result)])
    assert [each.kind for each in lying.windows[0].unexplained] == ["label"]


async def test_windows_that_are_backfilled_say_what_did_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    archive, result = await sold(tmp_path, [1, "2.5", 4, "n/a"])
    start_ms = result["window"]["start_ms"]
    asked = Asked(described(start_ms + 20_000, start_ms + 20_000, source="orders", query=QUERY, columns=COLUMNS))
    run_backfill(asked, "sold", start_ms, [archive], incomplete=True)
    assert asked.loaded and all(set(each.mistyped) <= {"cents"} for each in asked.loaded)
    runs = [run for each in asked.loaded for run in each.mistyped.get("cents", ())]
    assert runs == [(start_ms // 10_000, start_ms // 10_000, 2)]
    lying = result["completeness"] | {"mistyped": {}, "causes": [], "status": "final", "backfilled": 1}
    assert not verify(JOB, [archive], [{**result, "completeness": lying}]).explained


async def test_what_a_value_was_is_redacted_like_all_else(tmp_path: Path) -> None:
    secrets = ["203.0.113.77", "[2001:db8::17]:443", "/?token=abc", {"a": "203.0.113.78"}, {"token": "abc"}]
    archive, _ = await sold(tmp_path, [1, *secrets], ip="prefix")
    files = list_files(archive, "orders")
    texts = [each for file in files for each in read(file.path)]
    assert texts == ["203.0.113.0", "2001:db8::", "/?token=***", '{"token": "***"}']


def read(path: Any) -> list[str]:
    import polars as pl

    events = pl.read_parquet(path, hive_partitioning=False)
    return events[raw_name("cents")].drop_nulls().to_list() if raw_name("cents") in events.columns else []
