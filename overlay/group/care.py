"""Keeping a root group complete while this agent leads it: who is near, who is silent, who should lead (OVERLAY 6.5).

What the next step is `elf.overlay.group.seating` says; whoever calls knows how agents are found and asked who they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from elf.overlay.errors import OverlayError
from elf.overlay.group.messages import Seat
from elf.overlay.group.seating import SIZE, next_seats
from elf.overlay.group.state import GroupView
from elf.overlay.groups import Groups
from elf.overlay.ids import distance


@dataclass(frozen=True, slots=True, kw_only=True)
class CareTimes:
    """How patient a leader is with its group."""

    #: Pause after a change of a group; it doubles with each look that finds nothing to do, up to the longest.
    step_s: float = 0.05
    rest_s: float = 5.0
    #: Agents near a key are looked for again after this long while a group is short of members.
    look_ms: int = 30_000
    #: A member not heard of for the first time is replaced, if there is another agent; for the second it is given up.
    silent_ms: int = 30_000
    gone_ms: int = 600_000
    #: A nearer member takes over the lead when the group has been quiet for this long.
    stable_ms: int = 30_000


class GroupCare:
    """Cares for one group while this agent leads it.

    Args:
        agent: our agent id.
        tree: the group's key.
        look: returns the agents nearest to the key, ourselves included, nearest first.
    """

    def __init__(
        self,
        agent: str,
        groups: Groups,
        tree: bytes,
        look: Callable[[], Awaitable[Sequence[Seat]]],
        times: CareTimes,
    ) -> None:
        self._agent = agent
        self._groups = groups
        self._tree = tree
        self._find = look
        self._times = times
        self._looked_ms: int | None = None
        self._near: Sequence[Seat] = ()
        self._quiet_since_ms: int | None = None

    async def run(self) -> None:
        """Care until cancelled."""
        loop, times = asyncio.get_running_loop(), self._times
        pause_s = times.step_s
        while True:
            changed = False
            with contextlib.suppress(OverlayError):
                changed = await self._step(round(loop.time() * 1000))
            pause_s = times.step_s if changed else min(2 * pause_s, times.rest_s)
            await asyncio.sleep(pause_s)

    async def _step(self, now_ms: int) -> bool:
        """Do one thing if there is one; tell whether the group's members change by it."""
        groups, tree, times = self._groups, self._tree, self._times
        view = groups.view(tree)
        if view is None or view.leader != self._agent:
            return False
        silent, gone = groups.silent(tree, times.silent_ms), groups.silent(tree, times.gone_ms)
        short = len(view.seats) - len(silent) < SIZE
        if short and (self._looked_ms is None or now_ms - self._looked_ms >= times.look_ms):
            self._looked_ms = now_ms
            self._near = await self._find()
        near = self._near if short else ()
        seats = next_seats(self._agent, tree, view.seats, near, groups.caught_up(tree), silent, gone)
        if seats is not None:
            self._quiet_since_ms = None
            await groups.change(tree, seats)
            return True
        self._let_the_nearest_lead(view, silent, now_ms)
        return False

    def _let_the_nearest_lead(self, view: GroupView, silent: set[str], now_ms: int) -> None:
        """Hand over to the voter nearest to the key, where questions for the job arrive, once all has been quiet."""
        if silent:
            self._quiet_since_ms = None
            return
        if self._quiet_since_ms is None:
            self._quiet_since_ms = now_ms
        voters = [seat for seat in view.seats if seat.votes]
        nearest = min(voters, key=lambda seat: distance(seat.contact.id, self._tree))
        if nearest.agent != self._agent and now_ms - self._quiet_since_ms >= self._times.stable_ms:
            self._quiet_since_ms = None
            self._groups.hand_over(self._tree, nearest.agent)
