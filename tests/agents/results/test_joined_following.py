"""Who follows a job over others is sent each window again that late data of these has changed, on real agents."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from elf.agents.errors import UnavailableError, UnknownJobError
from elf.agents.http.agent_service import Service
from elf.agents.publications.change import Wanted
from elf.agents.wire.positions import Position
from tests.agents.shop import INTERVAL_MS, running
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms

pytestmark = pytest.mark.virtual

SOLD = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders WHERE kind = 'a' GROUP BY product, window(ts, '500 milliseconds')"
[options]
lateness = "200ms"
"""
#: Its windows are half as long as those of `sold`, and its keys in several trees.
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
SELECT s.product, n, cents FROM job('shop/sold') s LEFT JOIN job('shop/worth') w ON w.product = s.product ORDER BY n
'''
[options]
feedback = 10
"""
Sent = list[tuple[dict[str, Any], Position]]


async def sell(agent: Agent, kind: str, cents: int, at_ms: int | None = None) -> int:
    """Sell one, at a time or now; return the window's begin."""
    ts = now_ms() if at_ms is None else at_ms
    line = {"ts": ts, "product": "x", "kind": kind, "cents": cents}
    await Service(agent).ingest("orders", msgspec.json.encode(line) + b"\n")
    return ts // INTERVAL_MS * INTERVAL_MS


@contextlib.asynccontextmanager
async def followed(agent: Agent, position: Position | None = None) -> AsyncIterator[Sent]:
    """Follow the job; the list grows meanwhile."""
    sent: Sent = []

    async def follow() -> None:
        async for result, reached in Service(agent).results("shop", "ratio", position):
            sent.append((result, reached))

    following = asyncio.create_task(follow())
    try:
        yield sent
        assert not following.done()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def of(sent: Sent, start_ms: int, n: int, cents: int | None) -> Callable[[], list[int]]:
    """Return a question for the revisions in which a window came with these values."""
    rows = [{"product": "x", "n": n, "cents": cents}]

    def revisions() -> list[int]:
        of_window = (each for each, _ in sent if each["window"]["start_ms"] == start_ms and each["rows"] == rows)
        return [each["completeness"]["revision"] for each in of_window]

    return revisions


def fed_back(agent: Agent) -> tuple[int, list[Any]]:
    """Return the window and the rows that an agent was told of."""
    with contextlib.suppress(UnavailableError, UnknownJobError):
        told = msgspec.json.decode(Service(agent).feedback("shop", "ratio").body)
        return told["window"]["start_ms"], told["rows"]
    return 0, []


def parts_at(agent: Agent) -> int:
    """How many parts of jobs an agent works on."""
    return len(agent.attachments.attached().get("orders", ()))


async def publish(agent: Agent, *texts: str) -> None:
    for text in texts:
        await Service(agent).publish(text, "job.toml", None, None)


async def test_late_data_of_a_job_that_is_read_is_sent_to_followers(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 2) as (one, other):
        await publish(one, SOLD, WORTH, RATIO)
        await wait_until(lambda: all(parts_at(agent) == 4 for agent in (one, other)))
        async with followed(other) as sent:
            await wait_until(lambda: bool(sent), 60)
            start_ms = await sell(one, "a", 1)
            await wait_until(of(sent, start_ms, 1, None), 60)
            first = of(sent, start_ms, 1, None)()
            # The newest window is what the agents are told of; late data of it, too, unless another one has closed.
            await wait_until(lambda: fed_back(other)[0] > start_ms, 60)
            await sell(other, "b", 5, start_ms)
            await wait_until(of(sent, start_ms, 1, 5), 60)
            revised = of(sent, start_ms, 1, 5)()
            assert revised[0] > first[0]
            position = sent[-1][1]
            assert fed_back(other)[0] > start_ms, "what is told of late comes not in the place of the newest"
        # What changed while nobody was there comes when somebody goes on, wherever.
        await sell(one, "a", 1, start_ms)
        async with followed(one, position) as sent:
            await wait_until(of(sent, start_ms, 2, 5), 60)
            assert of(sent, start_ms, 2, 5)()[0] > revised[0]
            ends = [each["window"]["end_ms"] for each, _ in sent if each["completeness"]["revision"] == 0]
            assert len(ends) == len(set(ends)), "nothing comes twice unchanged"


async def test_who_follows_waits_for_a_job_that_is_read_and_goes_on_with_another_publication(
    tmp_path: pathlib.Path,
) -> None:
    async with running(tmp_path, 2) as (one, other):
        await publish(one, SOLD, WORTH, RATIO)
        await wait_until(lambda: all(parts_at(agent) == 4 for agent in (one, other)))
        async with followed(other) as sent:
            await wait_until(lambda: bool(sent), 60)
            await Service(one).stop("shop", "worth")
            with pytest.raises(UnavailableError, match="shop/ratio reads shop/worth: job shop/worth is stopped"):
                await Service(other).result("shop", "ratio", "latest", None, None)
            # Some of those that had closed before may be on their way.
            waiting = len(sent)
            await Service(one).change("shop", "worth", Wanted(change="resume"))
            await wait_until(lambda: len(sent) > waiting + 2, 60)
            await Service(one).stop("shop", "worth", 0)
            await publish(one, WORTH.replace("trees = 2", "trees = 1"))
            again = len(sent)
            await wait_until(lambda: len(sent) > again, 60)
            start_ms = await sell(one, "a", 1)
            await wait_until(of(sent, start_ms, 1, None), 60)
            await sell(one, "b", 3, start_ms)
            await wait_until(of(sent, start_ms, 1, 3), 60)
