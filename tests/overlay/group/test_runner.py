"""Running a group machine: what the runtime was told to do is done before a group ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from elf.overlay.errors import NotJoinedError, OvertakenError
from elf.overlay.group.machine import RootGroup
from elf.overlay.group.messages import Entry, GroupAppend, GroupAppended, Kind, Place, Seat
from elf.overlay.group.runner import GroupRunner
from elf.overlay.group.state import GroupState

APP = bytes(20)


class Runtime:
    """Applies at once, unless held, and what it is told to fail at only the second time."""

    def __init__(self) -> None:
        self.applied: list[bytes] = []
        self.held, self.disk = asyncio.Event(), asyncio.Event()
        self.held.set()
        self.disk.set()
        self.saving = asyncio.Event()
        self.begun = asyncio.Event()
        self.fails = 0
        self.failure: BaseException = OSError("disk full")
        self.leading = asyncio.Event()

    async def on_group_save(self, app: bytes, save: Any) -> None:
        """Save nothing, once the disk goes."""
        self.saving.set()
        await self.disk.wait()

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


class Member:
    """A member that another one leads."""

    def __init__(self, runtime: Runtime) -> None:
        self._leader, self.said = Seat("w1", "127.0.0.1:1", True), list[Any]()
        others = (Seat("w2", "127.0.0.1:2", True), Seat("w3", "127.0.0.1:3", True))
        machine = RootGroup(APP, "w2", GroupState(seats=(self._leader, *others)), random.Random(1), 0)
        self.runner = GroupRunner(
            machine, runtime, lambda to, message: self.said.append(message), lambda: 1_000, lambda due_ms: None
        )  # type: ignore[arg-type]

    def hear(self, after: int, *bodies: bytes, decided: int) -> None:
        entries = tuple(Entry(Place(1, after + number), Kind.COMMAND, body) for number, body in enumerate(bodies, 1))
        message = GroupAppend(APP, 1, "w1", "w2", Place(1 if after else 0, after), entries, decided)
        self.runner.on_message(self._leader.contact, message)

    def has(self, through: int) -> bool:
        """Tell whether the last that was said is that all is durable up to there."""
        return self.said[-1:] == [GroupAppended(APP, 1, "w2", True, through)]


async def until(done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 5
    while not done():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0)


async def test_the_next_entry_is_saved_while_what_was_decided_is_applied(runtime: Runtime) -> None:
    member = Member(runtime)
    member.hear(0, b"one", decided=0)
    await until(lambda: member.has(1))
    runtime.disk.clear()
    runtime.saving.clear()
    member.hear(1, b"two", decided=1)
    await until(lambda: runtime.saving.is_set() and runtime.applied == [b"one"])
    assert member.has(1), "the second is not durable yet"
    runtime.disk.set()
    runtime.held.clear()
    await until(lambda: member.has(2))
    member.hear(2, b"three", decided=2)
    await until(lambda: member.has(3))
    assert runtime.applied == [b"one"], "who leads need not wait for what takes long here"
    runtime.held.set()
    await until(lambda: runtime.applied == [b"one", b"two"])
    await member.runner.stop()


async def test_what_is_decided_when_it_comes_is_durable_before_it_is_applied(runtime: Runtime) -> None:
    member = Member(runtime)
    runtime.disk.clear()
    member.hear(0, b"one", decided=1)
    await until(runtime.saving.is_set)
    for _ in range(10):
        await asyncio.sleep(0)
    assert runtime.applied == []
    runtime.disk.set()
    await until(lambda: runtime.applied == [b"one"])
    await member.runner.stop()


async def test_a_member_that_ends_while_it_saves_and_applies_does_both(runtime: Runtime) -> None:
    member = Member(runtime)
    member.hear(0, b"one", decided=0)
    await until(lambda: member.has(1))
    runtime.disk.clear()
    runtime.held.clear()
    runtime.saving.clear()
    member.hear(1, b"two", decided=1)
    await until(lambda: runtime.saving.is_set() and runtime.begun.is_set())
    stopping = asyncio.create_task(member.runner.stop())
    runtime.disk.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    runtime.held.set()
    await stopping
    assert runtime.applied == [b"one"] and member.has(1), "nobody may be told what comes of it any more"


async def test_what_wants_nothing_durable_is_answered_at_once(runtime: Runtime) -> None:
    member = Member(runtime)
    member.hear(0, b"one", decided=0)
    await until(lambda: member.has(1))
    member.said.clear()
    member.hear(1, decided=0)
    assert member.has(1)
    await member.runner.stop()


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
