"""The keeper's turns: they go on after a disk that refused, and end when the agent stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import elf.agents.archive.keeper
from elf.agents.archive.inventory import Held, list_held
from elf.agents.archive.keeper import Keeper
from elf.agents.host.disk_damage import Damages


async def test_turns_go_on_after_a_disk_that_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns, enough, loop = 0, asyncio.Event(), asyncio.get_running_loop()

    def refuse_first(folder: Path, agent: str) -> list[Held]:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise OSError(5, "Input/output error")
        if turns == 5:
            loop.call_soon_threadsafe(enough.set)
        return list_held(folder, agent)

    monkeypatch.setattr(elf.agents.archive.keeper, "list_held", refuse_first)
    monkeypatch.setattr(elf.agents.archive.keeper, "TURN_S", 0.001)
    keeper = Keeper(tmp_path, "web-1", ["clicks"], None, 1 << 30, lambda: 0, Damages())
    task = asyncio.create_task(keeper.run())
    async with asyncio.timeout(30):
        await enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and "cannot be tidied now" in caplog.text
