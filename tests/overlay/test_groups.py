"""The root groups of a node: what peers say in them comes to nothing that other members could not read."""

from __future__ import annotations

import random

from overlay import messages
from overlay.fields import SERIAL_MAX
from overlay.group.effects import Save
from overlay.group.messages import GroupAppend, GroupAppended, GroupMessage, GroupVote, GroupVoted, Kind, Place, Seat
from overlay.group.runner import TERMS_AHEAD_MAX
from overlay.group.state import GroupState
from overlay.groups import Groups
from overlay.ids import Contact
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
