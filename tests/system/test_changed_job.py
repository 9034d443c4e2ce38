"""A job that is changed while real agents count is verified window by window, each by the version that counted it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import elf
from elf.offline.backfill.run import run_backfill
from elf.offline.verify.run import run_verify
from tests.elf.offline.shown import shown
from tests.system.cluster import AgentProcess, make_agents, running, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP_MS = 500
COUNTED = """SELECT product, count(*) AS n FROM orders WHERE kind = 'a'
GROUP BY product, window(ts, '1 second', '500 milliseconds') ORDER BY product"""
SUMMED = COUNTED.replace("count(*)", "sum(cents)").replace("'a'", "'b'")
#: Intervals of 200 ms follow those of 500 ms where both begin.
FINER = SUMMED.replace("'1 second', '500 milliseconds'", "'600 milliseconds', '200 milliseconds'")
JOB = f'name = "sold"\ncreator = "shop"\nquery = """\n{COUNTED}\n"""\n[options]\nlateness = "300ms"\n'


@pytest.fixture
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    columns = {"product": "STRING", "kind": "STRING", "cents": "BIGINT"}
    made = make_agents(tmp_path_factory.mktemp("agents"), [{"orders": {"columns": columns}}] * 2)
    with running(made):
        yield made


@pytest.mark.parametrize("trees", [1, 3])
def test_a_job_that_was_changed_agrees_with_spark(spark: SparkSession, agents: list[AgentProcess], trees: int) -> None:
    clients, rng = [elf.connect(agent.url) for agent in agents], random.Random(1)
    client = clients[0]

    def sell() -> int:
        now_ms = time.time_ns() // 1_000_000
        for each in clients:
            # Of several intervals, and so of several versions, in one batch.
            ages = (0, 100, 200, 250)
            sold = [(kind, rng.choice("xyz"), rng.randint(1, 3), age) for kind in "ab" for age in ages]
            rows = [{"ts": now_ms - age, "product": p, "kind": k, "cents": c} for k, p, c, age in sold]
            each.ingest("orders", rows)
        return now_ms

    def through_ms() -> int:
        return int(client.job("shop/sold")["through_ms"] or 0)

    def sell_through(at_ms: int) -> None:
        def is_there() -> bool:
            sell()
            return through_ms() >= at_ms

        wait_until(is_there, f"intervals up to {at_ms} are counted")

    client.publish(text=f"{JOB}trees = {trees}\n")
    sell_through(sell() + 2 * STEP_MS)
    changes: list[Callable[[], elf.client.Version]] = [
        lambda: client.update("shop/sold", query=SUMMED),
        lambda: clients[1].pause("shop/sold"),
        lambda: client.resume("shop/sold"),
        lambda: client.update("shop/sold", query=FINER),
    ]
    for change in changes:
        sell_through((change().since_ms or 0) + 2 * STEP_MS)
    last_ms = sell()
    wait_until(lambda: through_ms() > last_ms + STEP_MS, "all is counted")
    archives = [agent.archive for agent in agents]
    report = run_verify(client, "shop/sold", archives=archives, since="1h")
    assert report.passes, shown(report, 300)
    assert [each.what for each in report.versions if each.windows] == ["publish", "update", "pause", "resume", "update"]
    assert sum(each.rows_online for each in report.windows) > 10 and report.archive_events > 50
    history = client.versions("shop/sold")
    first_ms, begins_ms = history[1].since_ms, history[4].since_ms
    assert first_ms is not None and begins_ms is not None
    assert [each.begins_ms for each in history] == [None, *[first_ms] * 3, begins_ms]
    assert [each.interval_ms for each in history] == [*[STEP_MS] * 4, 200]
    assert begins_ms % 1_000 == 0, "where intervals of either length begin"
    done = run_backfill(client, "shop/sold", begins_ms - 2_000, archives)
    assert done.notes[0].startswith(f"the job was changed, and the windows of its version {len(history)} begin at ")
    assert done.start_ms >= begins_ms
    report = run_verify(client, "shop/sold", archives=archives, since="1h")
    assert report.passes, shown(report, 300)
    for each in clients:
        each.close()
