"""An agent that is taken out of service as it runs: it hands on what it has, so that nobody waits for it, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol

from elf.agents.master_side import MasterSide
from elf.agents.settings.config import AgentConfig
from elf.agents.worker_side import WorkerSide
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: How long it takes at most, unless somebody says; and pauses between two looks.
WITHIN_S, LOOK_S = 120.0, 0.2
#: So long the other members of root groups have to go on before it ends.
HANDED_S = 1.0


class Settings(Protocol):
    """What says which sources an agent has: `elf.agents.reconfiguration.Reconfiguration`."""

    left: AgentConfig | None

    async def leave(self) -> None:
        """Leave all sources."""

    async def stay(self) -> None:
        """Take them up again."""


class Departure:
    """That of one agent.

    Args:
        agent_id: the agent's.
        node: the overlay.
        jobs: what it masters.
        sources: what it reads.
        settings: of which it has sources.
    """

    def __init__(
        self, agent_id: str, node: OverlayNode, jobs: MasterSide, sources: WorkerSide, settings: Settings
    ) -> None:
        self._agent_id = agent_id
        self._node = node
        self._jobs = jobs
        self._sources = sources
        self._settings = settings

    @property
    def is_under_way(self) -> bool:
        """Whether this agent leaves."""
        return self._settings.left is not None

    async def run(self, within_s: float) -> bool:
        """Leave; return whether that is done, and the agent may end: not if it was called back.

        What masters lack after `within_s` stays on disk, and the windows that lack it name this agent.

        Raises:
            UnavailableError, OSError, sqlite3.Error: not now; all is as it was.
        """
        loop = asyncio.get_running_loop()
        self._sources.leave_by_s = loop.time() + within_s
        await self._settings.leave()
        log.info("this agent drains: it reads no more, and ends as soon as masters have what it has read")
        while self._sources.intakes:
            if not self.is_under_way:
                return False
            await asyncio.sleep(LOOK_S)
        self._hand_over()
        await asyncio.sleep(HANDED_S)
        return self.is_under_way

    async def cancel(self) -> None:
        """Stay after all; raises as `run` does."""
        self._sources.leave_by_s = float("inf")
        await self._settings.stay()

    def _hand_over(self) -> None:
        """Let others lead the jobs that are led here; where none has all, one is elected once this agent is gone."""
        for copy in self._jobs.copies.all():
            heirs = [seat.agent for seat in copy.master.state.seats if seat.votes and seat.agent != self._agent_id]
            for heir in heirs if copy.leads else ():
                with contextlib.suppress(OverlayError):
                    self._node.groups.hand_over(copy.job.tree, heir)
                    break
