"""Finding the members of root groups that this agent leads; how a group is kept complete `overlay.group.care` says."""

from __future__ import annotations

import asyncio

import msgspec

from agents.errors import ElfError
from agents.replies import value_of
from agents.requests import Introduce, Member, encode
from overlay.errors import OverlayError
from overlay.group.care import CareTimes, GroupCare
from overlay.group.messages import Seat
from overlay.group.seating import SIZE
from overlay.ids import Contact
from overlay.node import OverlayNode

TIMES = CareTimes()
INTRODUCE_MS = 1_000


async def care(agent_id: str, node: OverlayNode, tree: bytes) -> None:
    """Care for a job's group while this agent leads it, until cancelled."""
    await GroupCare(agent_id, node.groups, tree, lambda: _nearest(agent_id, node, tree), TIMES).run()


async def _nearest(agent_id: str, node: OverlayNode, tree: bytes) -> list[Seat]:
    """Return the agents nearest to a tree's key, ourselves included, nearest first."""
    contacts = await node.closest(tree, SIZE)
    found = await asyncio.gather(*(_introduced(agent_id, node, contact) for contact in contacts))
    return [seat for seat in found if seat is not None]


async def _introduced(agent_id: str, node: OverlayNode, contact: Contact) -> Seat | None:
    if contact == node.contact:
        return Seat(agent_id, contact.address, False)
    try:
        answer = value_of(await node.ask(contact, encode(Introduce()), INTRODUCE_MS))
        return Seat(msgspec.convert(answer, Member).agent_id, contact.address, False)
    except (OverlayError, ElfError, msgspec.ValidationError, ValueError):
        return None
