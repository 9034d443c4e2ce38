"""The demo ends when it is told to, also while Spark still computes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from elf.demo.tour import aside


async def test_work_aside_is_waited_for_until_that_is_cancelled() -> None:
    assert await aside(lambda: "done") == "done"
    with pytest.raises(ZeroDivisionError):
        await aside(lambda: str(1 / 0))
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait(60)
        ended.set()
        return "late"

    waiting = asyncio.create_task(aside(work))
    await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not ended.is_set()
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 60)


def test_a_loop_ends_before_the_work() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait(60)
        ended.set()
        return "late"

    async def show() -> None:
        waiting = asyncio.create_task(aside(work))
        await asyncio.to_thread(begun.wait, 60)
        waiting.cancel()

    try:
        asyncio.run(show())
        assert begun.is_set() and not ended.is_set()
    finally:
        go_on.set()
