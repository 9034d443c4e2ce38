"""The root groups that this agent is a member of, put together: copies of masters, who leads, and the masters here."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from elf.agents.group.copies import Copies
from elf.agents.group.leadership import Leadership, Others
from elf.agents.group.masters import Masters
from elf.agents.group.transfer import Fetcher, Pages
from elf.agents.host.clock import Clock
from elf.agents.language.own_functions import Admits
from elf.agents.store.stores import Stores
from elf.agents.wire.catalogue import Catalogue
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode


class RootGroups:
    """What one agent does in root groups.

    Args:
        node: the overlay.
        stores: the agent's disk.
        catalogue: the jobs known here.
        others: all others whom a job that is mastered here concerns.
        admits: decides whether functions that jobs bring along may run here.
        spawn: begins work beside.
        now_ms: the agent's clock.
    """

    def __init__(
        self,
        node: OverlayNode,
        stores: Stores,
        catalogue: Catalogue,
        others: Others,
        admits: Admits,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        now_ms: Clock,
    ) -> None:
        agent_id = stores.database.agent_id
        panes, logs, controls = stores.panes, stores.groups, stores.controls
        self._spawn = spawn
        self.copies = Copies(agent_id, node, panes, logs, controls, catalogue.learn, admits)
        self._fetcher = Fetcher(agent_id, node, panes, logs, controls, self.copies)
        self.pages = Pages(panes, controls, self.copies)
        self.leadership = Leadership(node, self.copies, controls, catalogue, others, now_ms)
        self.copies.opened = self.leadership.on_opened
        self.copies.unread = catalogue.unread
        self.masters = Masters(node, self.copies, self.leadership, catalogue.name_of)

    def fetch(self, app: bytes, leader: Contact, term: int) -> None:
        """Begin to fetch a copy of a master from the leader of its root group."""
        self._spawn(self._fetcher.fetch(app, leader, term))

    def drop(self, app: bytes) -> None:
        """Begin to forget a copy of a master whose root group this agent has left."""
        job = self.copies.apps.get(app)
        if job is not None:
            self._spawn(self.copies.drop(job, app))

    async def stop(self) -> None:
        """End what is done for the jobs; nothing is forgotten."""
        await self.leadership.stop()
        self.pages.close()
