"""Work of strangers is done beside the loop, one at a time, and not without bound."""

import asyncio
import sys
import threading

import pytest

from elf.agents.errors import UnavailableError
from elf.agents.host import compilation
from elf.agents.host.compilation import TURN_S, Compilation


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


async def test_turns_at_the_interpreter_are_short_meanwhile_whoever_is_done_first() -> None:
    usual, done = sys.getswitchinterval(), threading.Event()

    def work(goes_on: bool) -> float:
        assert not goes_on or done.wait(20)
        return sys.getswitchinterval()

    longer = asyncio.create_task(Compilation().do(lambda: work(True)))
    await asyncio.sleep(0)
    assert await Compilation().do(lambda: work(False)) == pytest.approx(TURN_S)
    done.set()
    assert await longer == pytest.approx(TURN_S)
    assert sys.getswitchinterval() == usual
