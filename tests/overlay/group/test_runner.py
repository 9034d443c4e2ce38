"""Running a group machine: what the runtime was told to do is done before a group ends."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from overlay.errors import NotJoinedError, OvertakenError
from overlay.group.machine import RootGroup
from overlay.group.messages import Kind, Place, Seat
from overlay.group.runner import GroupRunner
from overlay.group.state import GroupState

APP = bytes(20)


class Runtime:
    """Applies at once, unless held, and what it is told to fail at only the second time."""

    def __init__(self) -> None:
        self.applied: list[bytes] = []
        self.held = asyncio.Event()
        self.held.set()
        self.begun = asyncio.Event()
        self.fails = 0
        self.failure: BaseException = OSError("disk full")
        self.leading = asyncio.Event()

    async def on_group_save(self, app: bytes, save: Any) -> None:
        """Save nothing."""

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        self.begun.set()
        await self.held.wait()
        if self.fails:
            self.fails -= 1
            raise self.failure
        if kind is Kind.COMMAND:
            self.applied.append(body)

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        self.leading.set()


@pytest.fixture
async def runtime() -> Runtime:
    return Runtime()


def alone(runtime: Runtime) -> GroupRunner:
    """Run a group whose only vote is ours."""
    state = GroupState(seats=(Seat("w1", "127.0.0.1:1", True),))
    machine = RootGroup(APP, "w1", state, random.Random(1), 0)
    runner = GroupRunner(machine, runtime, lambda to, message: None, lambda: 1_000, lambda due_ms: None)  # type: ignore[arg-type]
    runner.on_due()
    return runner


async def test_a_command_is_applied_before_whoever_proposed_it_goes_on(runtime: Runtime) -> None:
    runner = alone(runtime)
    await runtime.leading.wait()
    await runner.propose(b"one")
    assert runtime.applied == [b"one"]
    await runner.stop()


async def test_a_disk_that_failed_is_tried_again(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    runner = alone(runtime)
    await runtime.leading.wait()
    runtime.fails = 1
    await runner.propose(b"one")
    assert runtime.applied == [b"one"] and "disk full" in caplog.text
    await runner.stop()


async def test_a_panic_of_compiled_code_is_a_failure_like_others(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    class Panic(BaseException):
        pass

    runner = alone(runtime)
    await runtime.leading.wait()
    runtime.fails, runtime.failure = 1, Panic("index out of bounds")
    for command in (b"one", b"two"):
        await runner.propose(command)
    assert runtime.applied == [b"one", b"two"] and "index out of bounds" in caplog.text
    await runner.stop()


async def test_what_is_being_applied_is_done_before_the_group_ends(runtime: Runtime) -> None:
    runner = alone(runtime)
    await runtime.leading.wait()
    runtime.held.clear()
    runtime.begun.clear()
    proposed = asyncio.create_task(runner.propose(b"one"))
    await runtime.begun.wait()
    later = asyncio.create_task(runner.propose(b"two"))
    stopping = asyncio.create_task(runner.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    runtime.held.set()
    await stopping
    assert runtime.applied == [b"one"]
    with pytest.raises(OvertakenError):  # nobody knows any more that it was applied
        await proposed
    with pytest.raises(NotJoinedError):
        await later


async def test_a_group_whose_disk_fails_ends_all_the_same(runtime: Runtime) -> None:
    runner = alone(runtime)
    await runtime.leading.wait()
    runtime.fails = 1_000
    runtime.begun.clear()
    proposed = asyncio.create_task(runner.propose(b"one"))
    await runtime.begun.wait()
    await asyncio.sleep(0)
    await runner.stop()
    with pytest.raises(OvertakenError):
        await proposed
    assert runtime.applied == []
