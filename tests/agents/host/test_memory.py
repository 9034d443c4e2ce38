from __future__ import annotations

import asyncio

import pytest

from elf.agents.host import memory
from elf.agents.host.memory import LINES_MAX, give_back_at_rest


async def test_memory_is_given_back_while_few_lines_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([0, LINES_MAX + 1, 2 * LINES_MAX + 1, 5 * LINES_MAX, 5 * LINES_MAX])
    seen: list[int] = []
    given_back: list[int] = []
    over = asyncio.Event()

    def lines_read() -> int:
        try:
            seen.append(next(looks))
        except StopIteration:
            over.set()
            seen.append(seen[-1] + 10 * LINES_MAX)
        return seen[-1]

    monkeypatch.setattr(memory, "give_back", lambda: given_back.append(seen[-1]))
    task = asyncio.create_task(give_back_at_rest(lines_read, look_s=0.001))
    async with asyncio.timeout(30):
        await over.wait()
    task.cancel()
    assert given_back == [2 * LINES_MAX + 1, 5 * LINES_MAX]
