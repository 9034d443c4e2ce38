"""Work beside: what fails is told, and nothing of it outlives its owner."""

import asyncio

import pytest

from elf.overlay.background import Background


async def test_what_fails_is_told_and_what_goes_on_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("no such luck")

    begun, ended = asyncio.Event(), asyncio.Event()

    async def go_on() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    background = Background()
    background.spawn(fail())
    background.spawn(go_on())
    await begun.wait()
    await background.stop()
    assert ended.is_set()
    background.spawn(fail())
    await asyncio.sleep(0)
    assert len(caplog.records) == 1, "nothing begins any more"
    assert "no such luck" in caplog.text and "CancelledError" not in caplog.text
