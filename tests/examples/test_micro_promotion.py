"""The micro-promotion example on agents in this process: coupons are the top ten of an independent count."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import pathlib
import re
import time

import polars as pl
from aiohttp.test_utils import TestClient, TestServer

import elf
from elf.agents.agent import Agent
from elf.agents.http.agent_service import Service
from elf.demo.clicks import COLUMNS, ClickStream
from elf.demo.shop import catalogue
from examples.micro_promotion.shop import COUPONS, DISCOUNT_PERCENT, all_prices, make_shop
from tests.examples.web import SERVERS, web_servers
from tests.overlay.cluster import wait_until

WINDOW_MS, LATENESS_MS = 2_000, 2_000
#: What a test can wait for.
SHORTER = {"300 seconds": "2 seconds", '"6s"': '"2s"'}
JOB = pathlib.Path(__file__).parents[2] / "examples" / "micro_promotion" / "job.toml"
LINES = 400
#: The most clicked ones, far before the others.
FAVOURITES = catalogue().filter(pl.col("category") == "Video Games").sort("share", descending=True)["product"].head(5)


def job_text() -> str:
    """The example's job, with short windows."""
    text = JOB.read_text()
    for written, short in SHORTER.items():
        assert text.count(written) == 1
        text = text.replace(written, short)
    return text


def sold_out(start_ms: int) -> str:
    """The product that nobody clicks in a window, or two windows of many clicks would have the same coupons."""
    return FAVOURITES[start_ms // WINDOW_MS % len(FAVOURITES)]


class Visitors:
    """People who click at one server, counted here as well.

    Args:
        clicks: window's start -> product -> clicks, of all servers.
        delayed: windows of which a line came too late to be sure of the first result.
    """

    def __init__(self, agent: Agent, seed: int, clicks: dict[int, collections.Counter[str]], delayed: set[int]) -> None:
        self._agent, self._stream = agent, ClickStream(seed, out_of_order_share=0)
        self._clicks, self._delayed = clicks, delayed

    async def click(self) -> None:
        """Write some lines, of this moment."""
        now_ms = time.time_ns() // 1_000_000
        start_ms = now_ms - now_ms % WINDOW_MS
        drawn = self._stream.take(pl.Series([now_ms] * LINES)).splitlines()
        events = [event for event in map(json.loads, drawn) if event["product"] != sold_out(start_ms)]
        for event in events:
            if event["event"] == "click" and event["category"] == "Video Games":
                self._clicks.setdefault(start_ms, collections.Counter())[event["product"]] += 1
        await Service(self._agent).ingest("clicks", "\n".join(map(json.dumps, events)).encode())
        if time.time_ns() // 1_000_000 >= start_ms + WINDOW_MS + LATENESS_MS:
            self._delayed.add(start_ms)


def top_ten(clicks: collections.Counter[str]) -> list[str]:
    """The best ten, those that sell equally well by name, as bytes order it."""
    return sorted(clicks, key=lambda product: (-clicks[product], product.encode()))[:10]


async def test_coupons_are_the_top_ten_of_all_servers_and_change_with_them(tmp_path: pathlib.Path) -> None:
    clicks: dict[int, collections.Counter[str]] = {}
    delayed: set[int] = set()
    async with contextlib.AsyncExitStack() as stack:
        agents, urls = await stack.enter_async_context(web_servers(tmp_path, ["clicks"], COLUMNS))
        shops = [make_shop(url, all_prices()) for url in urls]
        browsers = [await stack.enter_async_context(TestClient(TestServer(shop))) for shop in shops]
        assert await (await browsers[0].get("/coupons")).json() == {"window": None, "products": []}
        async with elf.connect(urls[1]) as client:
            await client.publish(text=job_text())
        await wait_until(lambda: all(agent.attachments.progress() for agent in agents))
        began_ms = time.time_ns() // 1_000_000

        visitors = [Visitors(agent, seed, clicks, delayed) for seed, agent in enumerate(agents)]
        #: Window's start -> the coupons of each shop.
        seen: dict[int, dict[int, list[str]]] = {}

        def compared() -> list[int]:
            whole = [start for start, each in seen.items() if len(each) == SERVERS and start >= began_ms]
            return [start for start in whole if clicks.get(start) and start not in delayed]

        async with asyncio.timeout(120):
            while len({sold_out(start_ms) for start_ms in compared()}) < 2:
                await asyncio.gather(*(each.click() for each in visitors))
                for number, shop in enumerate(shops):
                    coupons = shop[COUPONS]
                    if coupons.window is not None:
                        seen.setdefault(coupons.window[0], {})[number] = list(coupons.products)
        for start_ms in compared():
            assert list(seen[start_ms].values()) == [top_ten(clicks[start_ms])] * SERVERS
        assert len({tuple(seen[start_ms][0]) for start_ms in compared()}) > 1, "other clicks, other coupons"


async def test_pages_say_what_is_cheaper_also_while_no_agent_answers() -> None:
    prices = all_prices()
    shop = make_shop("http://127.0.0.1:9", prices)
    shop[COUPONS].products = ["Tetris"]
    async with TestClient(TestServer(shop)) as browser:
        for product in ("Tetris", "Dune"):
            page = await (await browser.get(f"/product/{product}")).text()
            cents = [round(float(price) * 100) for price in re.findall(r"\d+\.\d\d", page)]
            assert cents[0] == prices[product]
            cheaper = [round(prices[product] * (100 - DISCOUNT_PERCENT) / 100)] if product == "Tetris" else []
            assert cents[1:] == cheaper
        assert (await browser.get("/product/nothing")).status == 404
