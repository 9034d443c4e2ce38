"""Deadlines of many applications on one timer, in virtual time."""

from __future__ import annotations

import asyncio

from elf.overlay.alarm import GRAIN_MS, STALE_MAX, Alarm
from elf.overlay.sim.loop import SimLoop

A, B, C = b"a" * 20, b"b" * 20, b"c" * 20


def rung(loop: SimLoop, plan: list[tuple[int, bytes, int]], until_ms: int) -> list[tuple[int, list[bytes]]]:
    """Say at each time when an application is due; return who was woken when."""
    heard: list[tuple[int, list[bytes]]] = []

    async def main() -> None:
        alarm = Alarm(lambda: loop.now_ms, lambda apps: heard.append((loop.now_ms, apps)))
        for at_ms, app, due_ms in plan:
            await asyncio.sleep((at_ms - loop.now_ms) / 1000)
            alarm.set(app, due_ms)
        await asyncio.sleep((until_ms - loop.now_ms) / 1000)
        alarm.set(A, until_ms + 1)
        alarm.stop()
        alarm.set(B, until_ms + 1)
        await asyncio.sleep(10)

    loop.run(main())
    return heard


def test_each_is_woken_when_due_and_then_asked_no_more() -> None:
    assert rung(SimLoop(), [(0, A, 300), (0, B, 200), (1, C, 900)], 5_000) == [(200, [B]), (300, [A]), (900, [C])]


def test_deadlines_close_together_are_one_wake_up() -> None:
    heard = rung(SimLoop(), [(0, A, 100), (0, B, 101), (0, C, 100 + GRAIN_MS)], 5_000)
    assert heard == [(100, [A]), (100 + GRAIN_MS, [B, C])]


def test_the_last_word_on_a_deadline_counts() -> None:
    assert rung(SimLoop(), [(0, A, 500), (10, A, 2_000), (20, B, 700), (30, B, 400)], 5_000) == [
        (400, [B]),
        (2_000, [A]),
    ]


def test_deadlines_that_change_all_the_time_take_no_memory() -> None:
    loop, heard = SimLoop(), []

    async def main() -> None:
        alarm = Alarm(lambda: loop.now_ms, lambda apps: heard.append((loop.now_ms, apps)))
        for number in range(10_000):
            alarm.set(A, 5_000 + number)
            alarm.set(B, 4_000)
        assert len(alarm._heap) <= 2 * 2 + STALE_MAX
        await asyncio.sleep(60)

    loop.run(main())
    assert heard == [(4_000, [B]), (14_999, [A])]


def test_what_is_forgotten_wakes_nobody() -> None:
    loop, heard = SimLoop(), []

    async def main() -> None:
        alarm = Alarm(lambda: loop.now_ms, heard.append)
        alarm.set(A, 100)
        alarm.set(B, 100)
        alarm.forget(A)
        await asyncio.sleep(1)

    loop.run(main())
    assert heard == [[B]]
