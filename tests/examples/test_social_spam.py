"""The social-spam example on agents in this process: the campaign is found, and no post is lost at any change."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import pathlib
import random
import re
import time
from typing import Any

import msgspec

import elf
from elf.agents.http.agent_service import Service
from examples.social_spam.hunt import JOB, hunt, quoted
from examples.social_spam.posts import CAMPAIGN, LINK, posts
from tests.examples.web import web_servers

WINDOW, WINDOW_MS = "500 milliseconds", 500
FILE = pathlib.Path(__file__).parents[2] / "examples" / "social_spam" / "job.toml"


def counted(post: dict[str, Any], query: str) -> str | None:
    """The group that a query counts a post in, if any; an evaluation of the three queries of the example."""
    accounts, link = re.search(r"IN \((.*?)\)", query), re.search(r"link = '(.*?)'", query)
    if accounts is not None:
        return post["link"] or None if quoted(post["account"]) in accounts[1].split(", ") else None
    if link is not None:
        return post["account"] if post["link"] == link[1] else None
    return str(post["account"])


def some(rng: random.Random, now_ms: int) -> list[dict[str, Any]]:
    """Posts of one moment: enough for the campaign to stand out, and one at least of each of its accounts.

    So the hunt finds all of it in whatever window it looks, however few of these a busy machine writes in one.
    """
    sure = [{"ts": now_ms, "account": account, "link": LINK} for account in CAMPAIGN]
    return posts(rng, 200, now_ms) + sure


async def test_the_campaign_is_found_and_no_post_is_lost(tmp_path: pathlib.Path) -> None:
    made, rng = list[dict[str, Any]](), random.Random(1)
    text = FILE.read_text().replace("5 seconds", WINDOW).replace('"1s"', '"300ms"')
    ended = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        agents, urls = await stack.enter_async_context(
            web_servers(tmp_path, ["posts"], {"account": "STRING", "link": "STRING"})
        )

        async def post() -> None:
            while not ended.is_set():
                for agent in agents:
                    lines = some(rng, time.time_ns() // 1_000_000)
                    made.extend(lines)
                    await Service(agent).ingest("posts", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
                await asyncio.sleep(0.1)

        posting = asyncio.create_task(post())
        stack.callback(ended.set)
        client = await stack.enter_async_context(elf.connect(urls[1]))
        await client.publish(text=text)
        async with asyncio.timeout(120):
            # Its first window may be one that no agent has all of.
            found = await hunt(client, JOB, WINDOW)
        ended.set()
        await posting
        assert found.link == LINK and sorted(found.accounts) == sorted(CAMPAIGN)

        last_ms = max(line["ts"] for line in made) // WINDOW_MS * WINDOW_MS
        history = await client.versions(JOB)
        assert [version.what for version in history] == ["publish", "update", "update"]
        first_ms = (history[1].since_ms or 0) - WINDOW_MS
        for start_ms in range(first_ms, last_ms + 1, WINDOW_MS):
            version = [each for each in history if (each.since_ms or 0) <= start_ms][-1]
            groups = (counted(line, version.query) for line in made if start_ms <= line["ts"] < start_ms + WINDOW_MS)
            expected = collections.Counter(group for group in groups if group is not None)
            best = sorted(expected.items(), key=lambda pair: (-pair[1], pair[0]))[: 100 if version.version == 3 else 5]
            async with asyncio.timeout(60):
                while True:
                    result = await client.query(JOB, f"{start_ms}/{start_ms + WINDOW_MS}")
                    rows = [tuple(row.values()) for row in result.rows]
                    if rows == best and result.completeness.status in ("final", "revised"):
                        break
                    await asyncio.sleep(0.1)
            assert result.version == version.version


def test_what_strangers_post_stays_a_text() -> None:
    assert quoted("o'hara \\ x") == "'o\\'hara \\\\ x'"
