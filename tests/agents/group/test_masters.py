"""Waiting for a master's news."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from elf.agents.group.masters import Masters

APP = b"a" * 20


class Waited(Masters):
    """Masters with one job, whose edition is 1."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._rooted = {APP: self.news}  # type: ignore[assignment, dict-item]
        self.windows = SimpleNamespace(edition=1)

    def master(self, app: bytes) -> Any:
        return self

    def job(self, app: bytes) -> Any:
        return None


@pytest.mark.parametrize("steps", range(4))
async def test_a_follower_that_is_cancelled_just_when_there_is_news_ends(steps: int) -> None:
    masters = Waited()
    waiting = asyncio.create_task(masters.changed(APP, 1, 60_000))
    await asyncio.sleep(0)
    masters.news.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = waiting.done()
    waiting.cancel()
    (ended,) = await asyncio.gather(waiting, return_exceptions=True)
    assert ended is masters if was_done else isinstance(ended, asyncio.CancelledError)


async def test_news_are_waited_for_no_longer_than_asked() -> None:
    masters = Waited()
    assert await masters.changed(APP, 1, 1) is None
    assert await masters.changed(APP, 0, 60_000) is masters
    waiting = asyncio.create_task(masters.changed(APP, 1, 60_000))
    await asyncio.sleep(0)
    masters.news.set()
    assert await waiting is masters
