"""Jobs that read other jobs, on real agents: each window is of the same window of all, whoever is asked."""

from __future__ import annotations

import asyncio
import collections
import pathlib
from typing import Any

import pytest

from elf.agents.errors import JobError, JobSpecError, UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.publications.change import Wanted
from tests.agents.shop import INTERVAL_MS, Shop, counted_through, running
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms, time_s

pytestmark = pytest.mark.virtual

SOLD = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders WHERE kind = 'a' GROUP BY product, window(ts, '500 milliseconds')"
[options]
lateness = "200ms"
"""
#: Its keys are in two trees, and its windows are half as long.
WORTH = """
name = "worth"
creator = "shop"
query = '''
SELECT product, sum(cents) AS cents FROM orders WHERE kind = 'b' GROUP BY product, window(ts, '250 milliseconds')
'''
[options]
lateness = "200ms"
trees = 2
"""
RATIO = """
name = "ratio"
creator = "shop"
query = '''
SELECT s.product, n, cents, cents / n AS each FROM job('shop/sold') s LEFT JOIN job('shop/worth') w
ON w.product = s.product WHERE s.product <> 'z' ORDER BY n DESC
'''
[options]
feedback = 10
"""


def expected(shop: Shop, start_ms: int) -> list[dict[str, Any]]:
    """What was sold in a window, counted from what was sent."""
    count: collections.Counter[str] = collections.Counter()
    cents: collections.Counter[str] = collections.Counter()
    for line in shop.sold:
        if start_ms <= line["ts"] < start_ms + INTERVAL_MS and line["product"] != "z":
            count[line["product"]] += line["kind"] == "a"
            cents[line["product"]] += line["cents"] if line["kind"] == "b" else 0
    rows = [
        {"product": each, "n": n, "cents": cents[each] or None, "each": cents[each] / n if cents[each] else None}
        for each, n in count.items()
        if n
    ]
    return sorted(rows, key=lambda row: (-row["n"], row["product"]))


async def settled(agent: Agent, shop: Shop, start_ms: int) -> dict[str, Any]:
    """Return a window's result once it is what was sold."""
    deadline = time_s() + 30
    while True:
        result = await Service(agent).result("shop", "ratio", f"{start_ms}/{start_ms + INTERVAL_MS}", None, None)
        if result["rows"] == expected(shop, start_ms) and result["completeness"]["status"] in ("final", "revised"):
            return result
        if time_s() > deadline:
            pytest.fail(f"{result} is not {expected(shop, start_ms)}")
        await asyncio.sleep(0.1)


async def test_a_new_job_over_others_has_no_final_window_before_its_first(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as (agent,):
        service = Service(agent)
        for text in (SOLD, WORTH):
            await service.publish(text, "job.toml", None, None)
        shop = Shop([agent])
        shop.open()
        deadline = time_s() + 60
        while None in [(await service.job("shop", name))["through_ms"] for name in ("sold", "worth")]:
            assert time_s() < deadline
            await asyncio.sleep(0.05)
        await service.publish(RATIO, "job.toml", None, None)
        statuses: dict[bool, set[str]] = {False: set(), True: set()}
        while not statuses[True]:
            assert time_s() < deadline
            for window in ("latest", "1s"):
                result = await service.result("shop", "ratio", window, None, None)
                has_begun = result["window"]["end_ms"] > 0
                statuses[has_begun].add(result["completeness"]["status"])
                assert has_begun or not result["rows"]
        await shop.close()
        assert statuses[False] == {"open"}


async def test_results_of_other_jobs_are_joined_window_by_window(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        shop = Shop(agents)
        for agent, text in zip(agents, (SOLD, WORTH, RATIO), strict=True):
            await Service(agent).publish(text, "job.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
        shop.open()
        begun_ms = (now_ms() // INTERVAL_MS + 2) * INTERVAL_MS
        seen: list[dict[str, Any]] = []

        async def watch() -> None:
            async for result, _ in Service(agents[1]).results("shop", "ratio"):
                seen.append(result)

        watching = asyncio.create_task(watch())
        described = await Service(agents[0]).job("shop", "ratio")
        assert [use["job"] for use in described["joined"]["uses"]] == ["shop/sold", "shop/worth"]
        assert described["query"].strip().startswith("SELECT s.product") and described["source"] == "orders"
        deadline = time_s() + 60
        while described["through_ms"] is None or described["through_ms"] < begun_ms + 4 * INTERVAL_MS:
            assert time_s() < deadline
            await asyncio.sleep(0.1)
            described = await Service(agents[0]).job("shop", "ratio")
        newest = await Service(agents[2]).result("shop", "ratio", "latest", None, None)
        assert newest["completeness"]["status"] != "open" and newest["through_ms"] >= newest["window"]["end_ms"]
        await shop.close()
        for number, start_ms in enumerate(range(begun_ms, begun_ms + 4 * INTERVAL_MS, INTERVAL_MS)):
            result = await settled(agents[number % 3], shop, start_ms)
            assert result["completeness"]["expected"] == 3 and result["job"] == "shop/ratio"
            assert [column["type"] for column in result["columns"]] == ["STRING", "BIGINT", "BIGINT", "DOUBLE"]
        await wait_until(lambda: sum(1 for each in seen if each["rows"]) > 2)
        watching.cancel()
        assert all(each["completeness"]["status"] != "open" for each in seen)
        # None of it may have been sold in the first window.
        starts = range(begun_ms, begun_ms + 4 * INTERVAL_MS, INTERVAL_MS)
        sold_ms = next(at_ms for at_ms in starts if "x" in {row["product"] for row in expected(shop, at_ms)})
        span = f"{sold_ms}/{sold_ms + INTERVAL_MS}"
        one = await Service(agents[1]).result("shop", "ratio", span, "x", 1)
        assert [row["product"] for row in one["rows"]] == ["x"]
        told = Service(agents[1]).feedback("shop", "ratio")
        assert b'"shop/ratio"' in told.body
        with pytest.raises(JobError, match="reads other jobs"):
            await Service(agents[0]).change("shop", "ratio", Wanted(change="reset"))
        await Service(agents[0]).stop("shop", "sold")
        with pytest.raises(UnavailableError, match="shop/ratio reads shop/sold: job shop/sold is stopped; until"):
            await Service(agents[1]).result("shop", "ratio", span, None, None)
        await Service(agents[0]).change("shop", "sold", Wanted(change="resume"))
        assert (await Service(agents[1]).result("shop", "ratio", span, "x", 1))["rows"] == one["rows"]


async def test_a_job_that_reads_others_since_is_no_empty_result_to_those_that_read_it(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as (agent,):
        service = Service(agent)
        await service.publish(SOLD, "job.toml", None, None)
        await service.publish(SOLD.replace('"sold"', '"other"'), "job.toml", None, None)
        await service.publish("SELECT product FROM job('shop/sold')", "view.sql", None, "shop")
        await service.stop("shop", "sold", 0)
        await service.publish("SELECT product, n FROM job('shop/other')", "sold.sql", None, "shop")
        with pytest.raises(JobError, match="shop/view reads shop/sold: shop/sold reads other jobs"):
            await service.result("shop", "view", "latest", None, None)


async def test_a_job_whose_intervals_make_up_no_such_windows_any_more_is_an_error(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as (agent,):
        service = Service(agent)
        await service.publish(SOLD, "job.toml", None, None)
        await service.publish("SELECT product, n FROM job('shop/sold')", "view.sql", None, "shop")
        made = await service.change(
            "shop", "sold", Wanted(change="update", query=SOLD.split('"')[5].replace("500", "750"))
        )
        since_ms = made["since_ms"]
        await counted_through(agent, since_ms + 1_500)
        before = await service.result("shop", "view", f"{since_ms - 500}/{since_ms}", None, None)
        assert before["completeness"]["status"] == "final"
        why = "shop/view reads shop/sold: a window of this job is made of whole intervals of 750 ms"
        with pytest.raises(JobError, match=why):
            await service.result("shop", "view", f"{since_ms}/{since_ms + 500}", None, None)


async def test_what_cannot_be_joined_is_refused_at_publish(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as (agent,):
        service = Service(agent)
        await service.publish(SOLD, "job.toml", None, None)
        total = "SELECT product, count(*) AS n FROM orders GROUP BY product"
        await service.publish(total, "total.sql", None, "shop")
        odd = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '300 milliseconds')"
        await service.publish(odd, "odd.sql", None, "shop")
        await service.publish("SELECT product FROM job('shop/sold')", "view.sql", None, "shop")
        for query, message in (
            ("SELECT n FROM job('shop/nothing') t", "no job 'shop/nothing'"),
            ("SELECT m FROM job('shop/sold') t", "there is no column 'm'"),
            ("SELECT n FROM job('shop/total') t", "has no window"),
            ("SELECT product FROM job('shop/view') t", "reads other jobs itself"),
            ("SELECT s.n FROM job('shop/sold') s JOIN job('shop/odd') o ON s.n = o.n", "intervals of 300 ms"),
        ):
            with pytest.raises(JobSpecError, match=message):
                await service.publish(query, "other.sql", None, "shop")
        with pytest.raises(JobError, match="another definition"):
            await service.publish("SELECT n FROM job('shop/sold')", "view.sql", None, "shop")
        assert (await service.publish("SELECT product FROM job('shop/sold')", "view.sql", None, "shop"))["version"] == 1
