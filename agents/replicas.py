"""Sealed snapshots in the hands of neighbours, which answer for an agent that is slow, cut off or gone.

Paper: section 2.3, hot replication and the "mirroring straggler". A snapshot is copied once it is durable and handed to
the tree; whoever holds a copy that has no verdict after a moment hands it to the tree, too, under its owner's name.
Snapshots are immutable and the root counts an agent once an interval (`overlay.rollup.claims`), so a copy can do no
harm, whoever else comes. Copies are in memory, from seal to verdict: they outlive their owner and its disk, not their
holder. What an agent had not sealed is not in them. Best effort: what could not be copied is as it would be without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from agents.catalogue import Catalogue
from agents.errors import ElfError
from agents.requests import Introduce, JobRecord, Keep, contact_at, encode, value_of
from agents.store.checkpoints import FOREVER, Snapshot
from overlay.contract import NEVER
from overlay.errors import OverlayError
from overlay.ids import Contact, distance
from overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: A copy without a verdict for this long is handed to the tree if its owner does not answer either: a root waits 0.5 s
#: for agents that the tree has lost. If the owner does answer, after the second time: agents seal an interval up to
#: half a second apart, and a copy in the tree is one message more.
ANSWER_AFTER_S, ANSWER_LATEST_S = 0.3, 2.0
OWNER_MS = 400
LOOK_S = 0.1
#: Copies held for others, and on their way to others: more are refused, and not made.
HELD_BYTES_MAX, HELD_MAX = 32 << 20, 4_096
SENDING_BYTES_MAX, SENDING_MAX = 32 << 20, 64
KEEP_MS = 1_000
#: A neighbour that did not answer is passed over for so long.
SILENT_S = 30.0


@dataclass(slots=True)
class _Held:
    copy: Keep
    since_s: float
    answered: bool = False


class Replicas:
    """Copies of this agent's snapshots at others, and of others' here.

    Args:
        agent_id: this agent's name in rosters.
        node: the overlay.
        catalogue: the jobs and members known here.
        spawn: runs something in the background for as long as the agent runs.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        catalogue: Catalogue,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._agent_id, self._node, self._catalogue, self._spawn = agent_id, node, catalogue, spawn
        #: Tree -> the last interval handed over.
        self._sealed: dict[bytes, int] = {}
        self._sending = self._sending_bytes = 0
        self._silent_s: dict[str, float] = {}
        self._held: dict[bytes, list[_Held]] = {}
        #: Copies that are here now.
        self.held = self._held_bytes = 0
        self._watched = False
        self._asking: set[str] = set()
        #: Since this start: copies handed to the tree for others, copies taken, and those not made or refused.
        self.answered = self.taken = self.skipped = 0

    # ---- our own

    def offer(self, tree: bytes, snapshot: Snapshot) -> None:
        """Copy a durable snapshot that was just handed to its tree to as many neighbours as the job wants."""
        since = self._sealed.get(tree, NEVER)
        self._sealed[tree] = snapshot.through
        job = self._catalogue.job_of_tree(tree)
        if job is None or not job.definition.options.holders:
            return
        if snapshot.payload is None and job.definition.options.straggler != "mirror":
            return  # nothing to lose, and idle agents should cost nothing
        size = len(snapshot.payload or b"")
        if self._sending >= SENDING_MAX or self._sending_bytes + size > SENDING_BYTES_MAX:
            self.skipped += 1
            return
        self._sending += 1
        self._sending_bytes += size
        self._spawn(self._send(job, Keep(tree, self._agent_id, since, snapshot.through, snapshot.payload)))

    def forget(self, tree: bytes) -> None:
        """The tree is no more."""
        self._sealed.pop(tree, None)
        self._drop(tree, FOREVER)

    async def _send(self, job: JobRecord, copy: Keep) -> None:
        """Copy to the nearest neighbours that take it."""
        wanted, body = job.definition.options.holders, encode(copy)
        try:
            for contact in self._neighbours(job):
                if await self._ask(contact, body):
                    wanted -= 1
                if not wanted:
                    return
            self.skipped += 1
        finally:
            self._sending -= 1
            self._sending_bytes -= len(copy.payload or b"")

    def _neighbours(self, job: JobRecord) -> list[Contact]:
        """Return the agents with the source that are not silent, those whose ids are nearest to ours first.

        The master comes last: it may be what a copy has to get over.
        """
        me, now_s = self._node.contact, asyncio.get_running_loop().time()
        contacts = [contact_at(member.address) for member in self._catalogue.members(job.definition.source)]
        others = [contact for contact in contacts if contact != me]
        others = [contact for contact in others if self._silent_s.get(contact.address, now_s) <= now_s]
        return sorted(others, key=lambda contact: (contact == job.master, distance(contact.id, me.id)))

    async def _ask(self, contact: Contact, body: bytes) -> bool:
        try:
            return bool(value_of(await self._node.ask(contact, body, KEEP_MS)))
        except (OverlayError, ElfError) as error:
            log.debug("%s takes no copy: %s", contact, error)
            self._silent_s[contact.address] = asyncio.get_running_loop().time() + SILENT_S
            return False

    # ---- those of others

    def keep(self, copy: Keep) -> bool:
        """Hold a copy for another agent until its verdict is known here; False if we cannot answer for it."""
        size = len(copy.payload or b"")
        full = self.held >= HELD_MAX or self._held_bytes + size > HELD_BYTES_MAX
        if full or copy.agent == self._agent_id or not self._node.tree(copy.tree).member:
            self.skipped += full
            return False
        self.taken, self.held = self.taken + 1, self.held + 1
        self._held_bytes += size
        self._held.setdefault(copy.tree, []).append(_Held(copy, asyncio.get_running_loop().time()))
        if not self._watched:
            self._watched = True
            self._spawn(self._watch())
        return True

    async def _watch(self) -> None:
        """Drop what has a verdict, and answer with what waits for one too long, while there is anything."""
        try:
            while self._held:
                await asyncio.sleep(LOOK_S)
                now_s = asyncio.get_running_loop().time()
                for tree in list(self._held):
                    self._look(tree, now_s)
        finally:
            self._watched = False

    def _look(self, tree: bytes, now_s: float) -> None:
        settled = self._node.settled(tree)
        self._drop(tree, settled)
        for held in self._held.get(tree, ()):
            age_s = now_s - held.since_s
            if held.answered or age_s < ANSWER_AFTER_S:
                continue
            if age_s >= ANSWER_LATEST_S:
                self._answer(held)
            elif held.copy.agent not in self._asking:
                self._asking.add(held.copy.agent)
                self._spawn(self._ask_owner(held.copy.agent))

    async def _ask_owner(self, agent: str) -> None:
        """Answer with an agent's copies that wait if it is silent."""
        try:
            if await self._runs(agent):
                await asyncio.sleep(ANSWER_AFTER_S)
                return
            late_s = asyncio.get_running_loop().time() - ANSWER_AFTER_S
            for copies in list(self._held.values()):
                for held in copies:
                    if held.copy.agent == agent and held.since_s <= late_s and not held.answered:
                        self._answer(held)
        finally:
            self._asking.discard(agent)

    async def _runs(self, agent: str) -> bool:
        member = self._catalogue.member(agent)
        try:
            return member is not None and bool(
                await self._node.ask(contact_at(member.address), encode(Introduce()), OWNER_MS)
            )
        except (OverlayError, ValueError):
            return False

    def _answer(self, held: _Held) -> None:
        copy, held.answered = held.copy, True
        self._node.answer_for(copy.tree, copy.agent, copy.since, copy.through, copy.payload)
        self.answered += 1

    def _drop(self, tree: bytes, settled: int) -> None:
        """Let go of the copies of these intervals."""
        copies = self._held.pop(tree, [])
        waiting = [held for held in copies if held.copy.through > settled]
        self.held -= len(copies) - len(waiting)
        self._held_bytes -= sum(len(held.copy.payload or b"") for held in copies if held.copy.through <= settled)
        if waiting:
            self._held[tree] = waiting
