"""The root groups of a node: what peers say in them comes to nothing that other members could not read."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from elf.overlay import messages
from elf.overlay.errors import OverlayError
from elf.overlay.fields import SERIAL_MAX
from elf.overlay.group.effects import Save
from elf.overlay.group.messages import (
    GroupAppend,
    GroupAppended,
    GroupMessage,
    GroupVote,
    GroupVoted,
    Kind,
    Place,
    Seat,
)
from elf.overlay.group.runner import TERMS_AHEAD_MAX
from elf.overlay.group.state import GroupState
from elf.overlay.groups import Groups
from elf.overlay.ids import Contact
from tests.overlay.cluster import wait_until

APP = bytes(range(20))


class Runtime:
    """Has no disk and applies nothing."""

    def __init__(self) -> None:
        self.saved: list[Save] = []

    async def on_group_save(self, app: bytes, save: Save) -> None:
        self.saved.append(save)

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        pass

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        pass

    def on_group_behind(self, app: bytes, leader: Contact, term: int) -> None:
        raise AssertionError(term)

    def on_group_gone(self, app: bytes) -> None:
        raise AssertionError(app)

    def is_group_over(self, app: bytes) -> bool:
        return False


async def test_no_peer_brings_a_group_to_its_last_term() -> None:
    sent: list[GroupMessage] = []
    runtime, clock = Runtime(), [0]
    groups = Groups(runtime, lambda to, message: sent.append(message), lambda: clock[0], random.Random(1))
    groups.agent = "a0"
    seats = tuple(Seat(f"a{at}", f"10.0.0.{at + 1}:1", True) for at in range(3))
    groups.open(APP, GroupState(term=5, applied=Place(5, 9), seats=seats))
    evil, last = Contact.at("10.0.0.2", 1), Place(SERIAL_MAX, SERIAL_MAX)
    try:
        for term in (SERIAL_MAX, 5 + TERMS_AHEAD_MAX + 1):
            groups.on_message(evil, GroupVoted(APP, term, "a1", True, False))
            groups.on_message(evil, GroupAppended(APP, term, "a1", True, SERIAL_MAX))
            groups.on_message(evil, GroupVote(APP, term, "a1", "a0", last, False))
            groups.on_message(evil, GroupAppend(APP, term, "a1", "a0", Place(5, 9), (), SERIAL_MAX))
        groups.on_message(evil, GroupVote(APP, 7, "a1", "a0", Place(5, 9), False))
        await wait_until(lambda: bool(sent))
        view = groups.view(APP)
        assert view is not None
        assert view.term == 7
        assert max(save.term for save in runtime.saved) == 7
        assert [messages.decode(messages.encode(message)) for message in sent] == sent
    finally:
        await groups.stop()


class Slow(Runtime):
    """Has a disk in a thread that takes long."""

    def __init__(self) -> None:
        super().__init__()
        self.leads = False
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()

    def on_group_lead(self, app: bytes, leads: bool) -> None:
        self.leads = leads

    async def on_group_apply(self, app: bytes, place: Place, kind: Kind, body: bytes) -> None:
        if kind is Kind.COMMAND:
            await asyncio.to_thread(self._write)

    def _write(self) -> None:
        self.begun.set()
        self.go_on.wait(60)
        self.ended.set()


async def test_a_group_is_closed_only_once_nothing_of_it_is_being_written() -> None:
    """What was opened in its place found on the disk what the former group wrote afterwards."""
    runtime = Slow()
    groups = Groups(runtime, lambda to, message: None, lambda: 0, random.Random(1))
    groups.agent = "a0"
    groups.open(APP, GroupState(seats=(Seat("a0", "10.0.0.1:1", True),)))
    await wait_until(lambda: runtime.leads)
    try:
        proposing = asyncio.create_task(groups.propose(APP, b"command"))
        assert await asyncio.to_thread(runtime.begun.wait, 60)
        closing = asyncio.create_task(groups.close(APP))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.shield(closing)
        assert not runtime.ended.is_set()
        runtime.go_on.set()
        await closing
        assert runtime.ended.is_set()
        with pytest.raises(OverlayError):
            await proposing
    finally:
        runtime.go_on.set()
        await groups.stop()
