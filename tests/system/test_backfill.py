"""A job that is published late answers as one that was there from the start, once it is backfilled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import elf
from elf.client.results import Intervals
from elf.offline.backfill.run import run_backfill
from tests.system.cluster import AgentProcess, make_agents, running, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """SELECT product, count(*) AS n, sum(quantity) AS q, max(quantity) AS most, count(DISTINCT customer) AS c
FROM orders GROUP BY product, window(ts, '6 seconds', '2 seconds') ORDER BY product"""
#: Event time that is pushed before the late jobs are published; windows move by this.
LENGTH_S, SLIDE_MS = 60, 2_000
Row = dict[str, Any]


def job(name: str, options: str = "") -> str:
    return f'name = "{name}"\ncreator = "shop"\nquery = """\n{QUERY}\n"""\n[options]\nlateness = "1s"\n{options}'


def orders(agent: int, start_ms: int, count: int) -> list[Row]:
    return [
        {
            "ts": start_ms + number * LENGTH_S * 1_000 // count,
            "product": f"p{number % 7}",
            "quantity": number % 11,
            "customer": f"c{agent}-{number % 13}",
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def start_ms() -> int:
    return (round(time.time() * 1_000) - 120_000) // SLIDE_MS * SLIDE_MS


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    columns = {"product": "STRING", "quantity": "BIGINT", "customer": "STRING"}
    made = make_agents(tmp_path_factory.mktemp("agents"), [{"orders": {"columns": columns}}] * 2)
    with running(made):
        yield made


@pytest.fixture(scope="module")
def pushed(agents: list[AgentProcess], start_ms: int) -> list[Row]:
    """Push events that a job counts which was there from the start."""
    events: list[Row] = []
    with elf.connect(agents[0].url) as client:
        client.publish(text=job("early"))
        for number, agent in enumerate(agents):
            mine = orders(number, start_ms, 400)
            with elf.connect(agent.url) as own:
                assert own.ingest("orders", mine) == len(mine)
            events += mine
        whole = f"{start_ms}/{start_ms + LENGTH_S * 1_000}"
        wait_until(lambda: sum(row["n"] for row in client.query("shop/early", whole).rows) == 800, "all are counted")
    return events


class Interrupted(Exception):
    """Somebody has pressed Ctrl-C."""


class Clumsy:
    """A client that is interrupted after some loads."""

    def __init__(self, client: elf.Client, loads: int) -> None:
        self._client, self._left = client, loads

    def job(self, name: str) -> dict[str, Any]:
        return self._client.job(name)

    def load(self, name: str, intervals: Intervals) -> None:
        if not self._left:
            raise Interrupted
        self._left -= 1
        self._client.load(name, intervals)


@pytest.mark.parametrize("options", ["", "trees = 2"], ids=["one tree", "two trees"])
def test_a_late_job_answers_like_an_early_one(
    spark: SparkSession,
    agents: list[AgentProcess],
    pushed: list[Row],
    start_ms: int,
    options: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elf.offline.backfill.panes.INTERVALS_MAX", 5)
    name = "shop/late" + options[-1:]
    archives = [agent.archive for agent in agents]
    with elf.connect(agents[1].url) as client:
        client.publish(text=job(name.partition("/")[2], options))
        with pytest.raises(Interrupted):
            run_backfill(Clumsy(client, 3), name, start_ms - 3_600_000, archives)
        done = run_backfill(client, name, start_ms - 3_600_000, archives)
        assert done.events >= 800
        assert done.missing == ("web1", "web2"), "of the interval in which the archives begin"
        once = answers(client, name, start_ms)
        assert run_backfill(client, name, start_ms - 3_600_000, archives).rows == done.rows
        assert answers(client, name, start_ms) == once
        early = answers(client, "shop/early", start_ms)
        for window, (rows, completeness) in once.items():
            assert rows == early[window][0] == direct(pushed, *window)
            begins = window[0] <= start_ms
            assert sorted(completeness.missing) == (["web1", "web2"] if begins else [])
            assert completeness.status == ("final_incomplete" if begins else "final")
            assert completeness.backfilled
        now_ms = round(time.time() * 1_000)
        with elf.connect(agents[0].url) as own:
            own.ingest("orders", [{"ts": now_ms, "product": "new", "quantity": 1, "customer": "c"}])
        span = f"{start_ms + SLIDE_MS}/{now_ms // SLIDE_MS * SLIDE_MS + SLIDE_MS}"
        wait_until(
            lambda: client.query(name, span).completeness.status in ("final", "revised"), "the new event's window"
        )
        for each in (name, "shop/early"):
            rows = {row["product"]: row["n"] for row in client.query(each, span).rows}
            assert rows["new"] >= 1
            assert sum(rows.values()) - rows["new"] == sum(1 for event in pushed if event["ts"] >= start_ms + SLIDE_MS)


def test_an_archive_that_is_not_given_is_named(
    spark: SparkSession, agents: list[AgentProcess], pushed: list[Row], start_ms: int
) -> None:
    with elf.connect(agents[0].url) as client:
        client.publish(text=job("half"))
        with pytest.raises(elf.ElfError, match="no archive of web2 is among the folders given"):
            run_backfill(client, "shop/half", start_ms, [agents[0].archive])
        done = run_backfill(client, "shop/half", start_ms, [agents[0].archive], incomplete=True)
        assert "web2" in done.missing
        window = f"{start_ms + 10_000}/{start_ms + 16_000}"
        result = client.query("shop/half", window)
        assert (result.completeness.missing, result.completeness.status) == (["web2"], "final_incomplete")
        run_backfill(client, "shop/half", start_ms, [agent.archive for agent in agents])
        result = client.query("shop/half", window)
        assert (result.completeness.missing, result.completeness.status) == ([], "revised")


def answers(client: elf.Client, name: str, start_ms: int) -> dict[tuple[int, int], tuple[list[Row], Any]]:
    found = {}
    for begin_ms in range(start_ms - 2 * SLIDE_MS, start_ms + LENGTH_S * 1_000 - 6_000, 5 * SLIDE_MS):
        window = begin_ms, begin_ms + 6_000
        result = client.query(name, f"{window[0]}/{window[1]}")
        found[window] = result.rows, result.completeness
    return found


def direct(events: list[Row], start_ms: int, end_ms: int) -> list[Row]:
    """The window's rows, computed from the events themselves."""
    within = [event for event in events if start_ms <= event["ts"] < end_ms]
    counts = Counter(event["product"] for event in within)
    rows = []
    for product in sorted(counts):
        own = [event for event in within if event["product"] == product]
        quantities = [event["quantity"] for event in own]
        customers = len({event["customer"] for event in own})
        rows.append({"product": product, "n": len(own), "q": sum(quantities), "most": max(quantities), "c": customers})
    return rows
