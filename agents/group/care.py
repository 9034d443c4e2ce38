"""Finding the members of root groups that this agent leads.

How a group is kept complete is said by `elf.overlay.group.care`.
"""

from __future__ import annotations

import asyncio

from elf.agents.errors import UnavailableError
from elf.agents.host.introduction import who_is_at
from elf.overlay.group.care import CareTimes, GroupCare
from elf.overlay.group.messages import Seat
from elf.overlay.group.seating import SIZE
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

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
        return Seat((await who_is_at(node, contact.address, INTRODUCE_MS)).agent_id, contact.address, False)
    except UnavailableError:
        return None
