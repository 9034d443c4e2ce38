"""An application's thread and queue: order, bounds, slow callbacks, and ends that hold nobody up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import elf
from elf.agents.applications import runner as running
from elf.agents.applications.instance import Instance
from elf.agents.applications.runner import QUEUE_MAX, Runner
from elf.agents.errors import UnavailableError
from elf.agents.extensions.application_contract import ApplicationError, Asked, Effect, Received, Reply
from elf.agents.wire.application_messages import packed
from tests.overlay.cluster import wait_until


class Waiting(elf.Application):
    """Waits in `on_recv` until the test lets it go on, and notes everything."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.go = threading.Event()
        self.began = threading.Event()

    def on_recv(self, sender: str, message: Any) -> None:
        self.began.set()
        if message == "wait":
            assert self.go.wait(60)
        self.calls.append(message)
        self.elf.multicast(message)

    def on_multicast(self, message: Any) -> None:
        self.calls.append(message)

    def on_missed(self) -> None:
        self.calls.append("missed")

    def on_timer(self) -> None:
        self.calls.append("timer")

    def on_route(self, asker: str, query: Any) -> Any:
        return [query]

    def on_start(self) -> None:
        self.elf.set_timer(10)


class Done:
    """What was asked for, in order; timers are set."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    async def perform(self, runner: Runner, effects: Sequence[Effect]) -> None:
        self.effects += effects


@contextlib.asynccontextmanager
async def running_one(done: Done | None = None) -> AsyncIterator[tuple[Runner, Waiting]]:
    instance = Instance(Waiting, "master", "shop/sold", "web1", random.Random(1))
    runner = Runner(instance, "application waiting", (done or Done()).perform, lambda: 7)
    try:
        await wait_until(lambda: runner.handled == 1)
        assert isinstance(instance.application, Waiting)
        yield runner, instance.application
    finally:
        if isinstance(instance.application, Waiting):
            instance.application.go.set()
        await runner.stop()


async def test_inputs_are_heeded_in_order_and_what_they_ask_for_is_done_before_the_next() -> None:
    done = Done()
    async with running_one(done) as (runner, waiting):
        for number in range(200):
            assert await runner.put(Received("web2", packed(number)))
        await wait_until(lambda: runner.handled == 201)
        assert waiting.calls == list(range(200))
        assert [effect.body for effect in done.effects[1:]] == [b"%d" % each for each in range(200)]  # type: ignore[union-attr]
        runner.set_timer(10)
        await wait_until(lambda: waiting.calls[-1] == "timer")
        assert await runner.ask(Asked("", packed(1))) == Reply(b"[1]")


async def test_what_finds_no_room_is_counted_and_multicasts_say_that_some_were_missed() -> None:
    async with running_one() as (runner, waiting):
        assert await runner.put(Received("web2", packed("wait")))
        await wait_until(waiting.began.is_set)
        for number in range(QUEUE_MAX + 5):
            runner.hear(packed(number))
        assert runner.lost == 5
        assert not await runner.put(Received("web2", packed("late")), 0.01)
        with pytest.raises(UnavailableError, match="application waiting has 64 things to do first"):
            await runner.ask(Asked("", packed(1)))
        waiting.go.set()
        await wait_until(lambda: runner.handled == QUEUE_MAX + 2)
        runner.hear(packed("next"))
        await wait_until(lambda: waiting.calls[-1] == "next")
        assert waiting.calls == ["wait", *range(QUEUE_MAX), "missed", "next"] and runner.lost == 6


async def test_a_slow_callback_is_said_and_one_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "SLOW_S", 0.05)
    monkeypatch.setattr(running, "STUCK_S", 0.2)
    async with running_one() as (runner, waiting):
        with caplog.at_level(logging.WARNING):
            await runner.put(Received("web2", packed("wait")))
            asking = asyncio.create_task(runner.ask(Asked("", packed(1))))
            with pytest.raises(ApplicationError, match="on_recv has not returned for"):
                await asking
        assert runner.slow == 1 and runner.why is not None
        assert "application waiting: on_recv has not returned for" in caplog.records[0].getMessage()
        assert not await runner.put(Received("web2", packed(2)))
        runner.hear(packed(3))
        with pytest.raises(ApplicationError):
            await runner.ask(Asked("", packed(1)))
        assert waiting.calls == []


async def test_stopping_waits_neither_for_a_callback_nor_for_who_asks() -> None:
    async with running_one() as (runner, waiting):
        await runner.put(Received("web2", packed("wait")))
        await wait_until(waiting.began.is_set)
        asking = asyncio.create_task(runner.ask(Asked("", packed(1))))
        puts = [asyncio.create_task(runner.put(Received("web2", packed(at)), 60)) for at in range(QUEUE_MAX + 1)]
        await asyncio.sleep(0)
        await asyncio.wait_for(runner.stop(), 10)
        with pytest.raises(ApplicationError, match="it was stopped"):
            await asking
        assert (await asyncio.wait_for(asyncio.gather(*puts), 10))[-1] is False


async def test_a_failure_of_what_performs_ends_the_application_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Done):
        async def perform(self, runner: Runner, effects: Sequence[Effect]) -> None:
            if effects and runner.handled > 1:
                raise OSError("no disk")

    async with running_one(Failing()) as (runner, _):
        await runner.put(Received("web2", packed(1)))
        await wait_until(lambda: runner.why is not None)
        assert runner.why == "a failure of the agent's own; see its log"
        assert "what it asked for failed" in caplog.text
