"""Waiting for a master's news, and what it answers while it begins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from elf.agents.group.masters import Masters
from elf.agents.master.results import Result, Span

APP = b"a" * 20


class Waited(Masters):
    """Masters with one job, whose edition is 1."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._rooted = {APP: self.news}  # type: ignore[assignment, dict-item]
        self.edition = 1

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


class Beginning(Waited):
    """Masters with one job, whose first commit comes while the first question is answered."""

    through_ms: int | None = None

    def latest(self) -> Span:
        return Span(-1_000, 0) if self.through_ms is None else Span(self.through_ms - 1_000, self.through_ms)

    def result(self, span: Span, *_: object) -> Result:
        self.through_ms = 60_000
        return Result({"start_ms": span.start_ms}, self.through_ms, [], [], {"status": "final"}, 1)

    def _names(self, agent: str) -> str:
        return agent

    def _render(self, app: bytes, result: Any) -> Any:
        return result.window


async def test_the_latest_window_is_none_of_before_the_job_when_its_first_commit_comes_just_then() -> None:
    assert await Beginning().query(APP, "latest", None, None) == {"start_ms": 59_000}
