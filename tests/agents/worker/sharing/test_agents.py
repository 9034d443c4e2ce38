"""Jobs of different creators share work at agents, say so, and each has its own right answer."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elf.agents.errors import ElfError
from elf.agents.http.agent_service import Service
from tests.agents.publications.test_control import configure
from tests.agents.results.test_feedback import sell
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, time_s

pytestmark = pytest.mark.virtual

QUERY = "SELECT product, count(*) AS n FROM orders WHERE product <> 'none' GROUP BY product, window(ts, {})"
JOBS = {
    ("shop", "sold"): QUERY.format("'1 second'") + " ORDER BY n DESC",
    ("ops", "best"): QUERY.format("'2 seconds', '1 second'") + " ORDER BY n DESC LIMIT 1",
    ("ops", "all"): "SELECT count(*) AS n FROM orders WHERE (product) <> 'none' GROUP BY window(ts, '1 second')",
}


def text_of(creator: str, name: str, query: str) -> str:
    return f'name = "{name}"\ncreator = "{creator}"\nquery = "{query}"\n'


async def sold_before(agent: Agent, at_ms: int, *products: str) -> None:
    lines = [{"ts": at_ms + number, "product": product} for number, product in enumerate(products)]
    await Service(agent).ingest("orders", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


async def answer(agent: Agent, creator: str, name: str, window: tuple[int, int], wanted: list[tuple[Any, ...]]) -> None:
    """Wait until a window has the rows that are wanted."""
    deadline_s, rows = time_s() + 90, None
    while rows != wanted:
        assert time_s() < deadline_s, f"{creator}/{name}: {rows} instead of {wanted}"
        with contextlib.suppress(ElfError):
            result = await Service(agent).result(creator, name, f"{window[0]}/{window[1]}", None, None)
            rows = [tuple(row.values()) for row in result["rows"]]
        await asyncio.sleep(0.05)


async def test_jobs_of_two_creators_share_and_both_are_right(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    joins: list[list[str]] = [[], [f"127.0.0.1:{ports[0]}"]]
    agents = [Agent(configure(tmp_path, f"web{at}", ports[at], joins[at])) for at in range(2)]
    async with contextlib.AsyncExitStack() as stack:
        for agent in agents:
            await agent.start()
            stack.push_async_callback(agent.stop)
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 2 for agent in agents))
        for (creator, name), query in JOBS.items():
            await Service(agents[0]).publish(text_of(creator, name, query), "job.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.progress()) == len(JOBS) for agent in agents), 60)
        start_ms = (now_ms() // 1_000 - 3) * 1_000
        await sold_before(agents[0], start_ms, "zelda", "tetris", "tetris", "none")
        await sold_before(agents[1], start_ms + 1_000, "tetris", "zelda", "zelda", "none")
        await answer(agents[1], "shop", "sold", (start_ms, start_ms + 1_000), [("tetris", 2), ("zelda", 1)])
        await answer(agents[0], "shop", "sold", (start_ms + 1_000, start_ms + 2_000), [("zelda", 2), ("tetris", 1)])
        await answer(agents[1], "ops", "best", (start_ms, start_ms + 2_000), [("tetris", 3)])
        await answer(agents[0], "ops", "all", (start_ms, start_ms + 1_000), [(3,)])

        async def sharing() -> dict[str, Any]:
            await sell(agents[0], "tetris")
            return dict((await Service(agents[0]).explain("shop", "sold"))["sharing"])

        deadline_s = time_s() + 60
        while not (found := await sharing())["trees"]["count"]:
            assert time_s() < deadline_s
        jobs = {what: found[what]["jobs"] for what in ("parsing", "filtering", "paos", "trees")}
        assert jobs == {
            "parsing": ["ops/all", "ops/best"],
            "filtering": ["ops/all", "ops/best"],
            "paos": ["ops/best"],
            "trees": ["ops/best"],
        }
