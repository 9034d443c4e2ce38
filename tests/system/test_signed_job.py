"""A job that brings functions along is verified on Spark while real agents count, each version with its own source."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import elf
from elf.agents.errors import JobError, JobSpecError
from elf.agents.extensions.signed.signatures import public_key
from elf.offline.backfill.run import run_backfill
from elf.offline.verify.run import run_verify
from tests.agents.extensions.signed.signed_jobs import OTHER, TRUSTED, signed
from tests.elf.offline.shown import shown
from tests.system.cluster import make_agents, running, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP_MS = 500
QUERY = """SELECT shelf(product, at) AS shelf, count(*) AS n, sum(price(cents)) AS cents FROM orders
WHERE price(cents) IS NOT NULL
GROUP BY shelf(product, at), window(ts, '1 second', '500 milliseconds') ORDER BY shelf"""
FIRST = """
def shelf(product, at):
    if product == "broken":
        raise ValueError("no shelf")
    return None if at is None else f"{product}-{at:%H}"
"""
SECOND = FIRST.replace("-{at:%H}", "+{at.minute % 3}")
COLUMNS = {"product": "STRING", "cents": "BIGINT", "at": "TIMESTAMP"}


def job_of(source: str) -> str:
    return signed(f'''name = "sold"
creator = "shop"
query = """
{QUERY}"""
[options]
lateness = "300ms"
[functions.shelf]
args = ["STRING", "TIMESTAMP"]
returns = "STRING"
source = \'\'\'{source}\'\'\'
[functions.price]
args = ["BIGINT"]
returns = "BIGINT"
strict = true
source = "def price(cents): return None if cents % 5 == 0 else cents * 2"
''')


def test_each_version_agrees_with_spark_by_its_own_functions(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    with running(make_agents(tmp_path, [{"orders": {"columns": COLUMNS}}] * 2, TRUSTED)) as agents:
        clients = [elf.connect(agent.url) for agent in agents]
        client = clients[0]

        def sell() -> int:
            now_ms = time.time_ns() // 1_000_000
            for each in clients:
                products = [rng.choice("xyz") for _ in range(4)] + ["broken"]
                each.ingest("orders", [{"ts": now_ms, "product": p, **rest()} for p in products])
            return now_ms

        def rest() -> dict[str, object]:
            at = None if rng.random() < 0.2 else f"2026-07-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:30:00.125Z"
            return {"cents": rng.choice([None, *range(1, 12)]), "at": at}

        def sell_through(at_ms: int) -> None:
            def is_there() -> bool:
                sell()
                return int(client.job("shop/sold")["through_ms"] or 0) >= at_ms

            wait_until(is_there, f"intervals up to {at_ms} are counted")

        client.publish(text=job_of(FIRST))
        sell_through(sell() + 2 * STEP_MS)
        changed = client.update("shop/sold", text=job_of(SECOND))
        assert changed.since_ms is not None
        sell_through(changed.since_ms + STEP_MS)
        last_ms = sell()
        wait_until(lambda: int(client.job("shop/sold")["through_ms"]) > last_ms + STEP_MS, "all is counted")
        archives = [agent.archive for agent in agents]
        report = run_verify(client, "shop/sold", archives=archives, since="1h", trusted=TRUSTED.items())
        assert report.passes, shown(report, 300)
        assert [(each.what, each.windows > 0) for each in report.versions] == [("publish", True), ("update", True)]
        assert sum(each.rows_online for each in report.windows) > 10 and report.archive_events > 50
        assert report.agrees
        for trusted in ([], [("shop", public_key(OTHER))]):
            with pytest.raises(JobSpecError, match=r"^Spark does not run the functions .* that 'shop' sends with job"):
                run_verify(client, "shop/sold", archives=archives, since="1h", trusted=trusted)
        with pytest.raises(JobError, match=r"on Spark only `elf verify` runs such functions"):
            run_backfill(client, "shop/sold", changed.since_ms - 2_000, archives)
        for each in clients:
            each.close()
