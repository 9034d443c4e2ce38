"""Keeping the root groups complete that this agent leads: who is near, who is silent, who should lead (OVERLAY 6.5).

What the next step is `overlay.group.seating` says; here agents are found and asked who they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec

from agents.copies import Copies, Copy
from agents.errors import ElfError
from agents.requests import Introduce, Member, encode, value_of
from overlay.errors import OverlayError
from overlay.group.messages import Seat
from overlay.group.seating import SIZE, next_seats
from overlay.group.state import GroupView
from overlay.ids import Contact, distance
from overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: Pause after a change of a group; it doubles with each look that finds nothing to do, up to the longest.
STEP_S, REST_S = 0.05, 5.0
#: Agents near a key are looked for again after this long while a group is short of members.
LOOK_MS = 30_000
#: A member not heard of for the first time is replaced, if there is another agent; for the second it is given up.
SILENT_MS, GONE_MS = 30_000, 600_000
#: A nearer member takes over the lead when the group has been quiet for this long.
STABLE_MS = 30_000
INTRODUCE_MS = 1_000


class GroupCare:
    """Cares for one group while this agent leads it."""

    def __init__(self, agent_id: str, node: OverlayNode, copies: Copies, copy: Copy) -> None:
        self._agent_id, self._node, self._copies, self._copy = agent_id, node, copies, copy
        self._tree = copy.job.tree
        self._looked_ms: int | None = None
        self._near: list[Seat] = []
        self._quiet_since_ms: int | None = None

    async def run(self) -> None:
        """Care until cancelled."""
        loop = asyncio.get_running_loop()
        pause_s = STEP_S
        while True:
            changed = False
            with contextlib.suppress(OverlayError):
                changed = await self._step(round(loop.time() * 1000))
            pause_s = STEP_S if changed else min(2 * pause_s, REST_S)
            await asyncio.sleep(pause_s)

    async def _step(self, now_ms: int) -> bool:
        """Do one thing if there is one; tell whether the group's members change by it."""
        groups, tree = self._node.groups, self._tree
        view = groups.view(tree)
        if view is None or view.leader != self._agent_id:
            return False
        silent, gone = groups.silent(tree, SILENT_MS), groups.silent(tree, GONE_MS)
        short = len(view.seats) - len(silent) < SIZE
        if short and (self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS):
            self._looked_ms = now_ms
            self._near = await self._look()
        seats = next_seats(
            self._agent_id, tree, view.seats, self._near if short else [], groups.caught_up(tree), silent, gone
        )
        if seats is not None:
            self._quiet_since_ms = None
            await groups.change(tree, seats)
            return True
        self._let_the_nearest_lead(view, silent, now_ms)
        return False

    async def _look(self) -> list[Seat]:
        """Return the agents nearest to the tree's key, ourselves included, nearest first."""
        contacts = await self._node.closest(self._tree, SIZE)
        found = await asyncio.gather(*(self._introduced(contact) for contact in contacts))
        return [seat for seat in found if seat is not None]

    async def _introduced(self, contact: Contact) -> Seat | None:
        if contact == self._node.contact:
            return Seat(self._agent_id, contact.address, False)
        try:
            answer = value_of(await self._node.ask(contact, encode(Introduce()), INTRODUCE_MS))
            return Seat(msgspec.convert(answer, Member).agent_id, contact.address, False)
        except (OverlayError, ElfError, msgspec.ValidationError, ValueError):
            return None

    def _let_the_nearest_lead(self, view: GroupView, silent: set[str], now_ms: int) -> None:
        """Hand over to the voter nearest to the key, where questions for the job arrive, once all has been quiet."""
        if silent:
            self._quiet_since_ms = None
            return
        if self._quiet_since_ms is None:
            self._quiet_since_ms = now_ms
        voters = [seat for seat in view.seats if seat.votes]
        nearest = min(voters, key=lambda seat: distance(seat.contact.id, self._tree))
        if nearest.agent != self._agent_id and now_ms - self._quiet_since_ms >= STABLE_MS:
            self._quiet_since_ms = None
            self._node.groups.hand_over(self._tree, nearest.agent)
