"""Work of strangers is done beside the loop, one at a time, and not without bound."""

import asyncio
import threading

import pytest

from elf.agents.errors import UnavailableError
from elf.agents.host import compilation
from elf.agents.host.compilation import Compilation


async def test_the_loop_goes_on_and_one_is_done_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "WAITING_MAX", 3)
    turn, done = Compilation(), threading.Event()
    running, most = 0, 0

    def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert done.wait(20)
        running -= 1
        return "done"

    tasks = [asyncio.create_task(turn.do(work)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="3 queries wait here"):
        await turn.do(work)
    done.set()
    assert await asyncio.gather(*tasks) == ["done"] * 3
    assert most == 1


async def test_what_fails_leaves_its_turn() -> None:
    turn = Compilation()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await turn.do(lambda: 1 // 0)
    assert await turn.do(lambda: 1) == 1
