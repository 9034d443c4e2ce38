"""What this agent holds for its neighbours: their sealed snapshots, for which it answers, and their last checkpoints.

Paper: section 2.3, hot replication and the "mirroring straggler". A snapshot that has no verdict after a moment is
handed to the tree under its owner's name. Snapshots are immutable and the root counts an agent once an interval
(`elf.overlay.rollup.claims`), so a replica can do no harm, whoever else comes. A checkpoint is another matter: what is
in it is not sealed, its owner goes on from there itself. It is only given back, to whoever begins at its owner's
address (`elf.agents.replication.succession`), never handed to a tree.

Everything is on this agent's disk before its owner is told that it is held, so replicas outlive a restart of their
holder; many that come together share one transaction. Snapshots are in memory besides, from seal to verdict.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from elf.agents.completeness.runs import FOREVER
from elf.agents.store.held import HeldCheckpoint, HeldReplicas
from elf.agents.wire.agents import Introduce
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import contact_at
from elf.agents.wire.replicas import Keep, KeepCheckpoint
from elf.agents.wire.request import encode
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: A replica without a verdict for this long is handed to the tree if its owner does not answer either: a root waits
#: 0.5 s for agents that the tree has lost. If the owner does answer, after the second time: agents seal an interval up
#: to half a second apart, and a replica in the tree is one message more.
ANSWER_AFTER_S, ANSWER_LATEST_S = 0.3, 2.0
OWNER_MS = 400
LOOK_S = 0.1
#: Snapshots held for others; more are refused.
HELD_BYTES_MAX, HELD_MAX = 32 << 20, 4_096
#: What has a verdict leaves the disk with the next replica that is written, or after this time.
CLEAR_S = 5.0
#: Replicas of a tree in which this agent does not stand, after a restart, are given up after this time.
UNKNOWN_S = 3_600.0
#: Checkpoints held for others, on disk only; more are refused. One that was not renewed for a day goes.
CHECKPOINTS_BYTES_MAX, CHECKPOINTS_MAX = 64 << 20, 256
CHECKPOINT_MS_MAX = 86_400_000


@dataclass(slots=True)
class _Held:
    replica: Keep
    since_s: float
    answered: bool = False


class Holder:
    """Replicas of other agents here.

    Args:
        agent_id: this agent's name in rosters.
        node: the overlay.
        catalogue: the jobs and members known here.
        store: the replicas on disk.
        spawn: runs something in the background for as long as the agent runs.
        now_ms: wall clock.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        catalogue: Catalogue,
        store: HeldReplicas,
        spawn: Callable[[Coroutine[None, None, None]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._agent_id = agent_id
        self._node = node
        self._catalogue = catalogue
        self._store = store
        self._spawn = spawn
        self._now_ms = now_ms
        self._held: dict[bytes, list[_Held]] = {}
        #: Snapshots that are here now.
        self.held = self._held_bytes = 0
        self._checkpoints: dict[tuple[str, str], HeldCheckpoint] = {}
        #: What is to be written, and who waits for it; trees of which snapshots are needed no more.
        self._queue: list[tuple[Keep | KeepCheckpoint, asyncio.Future[bool]]] = []
        self._settled: dict[bytes, int] = {}
        self._settled_s = 0.0
        self._writing = self._watched = False
        #: Whether the last write went well.
        self._able = True
        self._asking: set[str] = set()
        #: Since this start: replicas handed to the tree for others, replicas taken, and those refused.
        self.answered = self.taken = self.skipped = 0

    @property
    def checkpoints(self) -> int:
        """How many checkpoints are held now."""
        return len(self._checkpoints)

    def restore(self) -> None:
        """Take up the replicas of the last run."""
        now_s = asyncio.get_running_loop().time()
        for replica in self._store.snapshots():
            self._file(replica, now_s)
        self._checkpoints = self._store.checkpoints()

    async def keep(self, replica: Keep) -> bool:
        """Hold a snapshot for another agent until its verdict is known here; False if we cannot answer for it."""
        size = len(replica.payload or b"")
        full = self.held >= HELD_MAX or self._held_bytes + size > HELD_BYTES_MAX
        if full or replica.agent == self._agent_id or not self._node.tree(replica.tree).member:
            self.skipped += full
            return False
        # At once: its owner may be gone before our disk is done.
        self._file(replica, asyncio.get_running_loop().time())
        kept = await self._write(replica)
        self.taken += kept
        return kept

    async def keep_checkpoint(self, replica: KeepCheckpoint) -> bool:
        """Hold a checkpoint in the place of the one before; False if there is no room, or it is an older one."""
        place, oldest_ms = (replica.source, replica.address), self._now_ms() - CHECKPOINT_MS_MAX
        self._checkpoints = {at: held for at, held in self._checkpoints.items() if held.kept_ms >= oldest_ms}
        others = [held.size_bytes for at, held in self._checkpoints.items() if at != place]
        full = len(others) >= CHECKPOINTS_MAX or sum(others) + len(replica.body) > CHECKPOINTS_BYTES_MAX
        if full or replica.agent == self._agent_id:
            self.skipped += full
            return False
        known = self._checkpoints.get(place)
        if known is not None and known.agent == replica.agent and known.number > replica.number:
            return False
        if replica.body:
            self._checkpoints[place] = HeldCheckpoint(replica.agent, replica.number, self._now_ms(), len(replica.body))
        else:
            self._checkpoints.pop(place, None)
        return await self._write(replica)

    async def recall(self, source: str, address: str) -> KeepCheckpoint | None:
        """Return the newest checkpoint of the agent that was at an address."""
        return await asyncio.to_thread(self._store.checkpoint, source, address)

    def forget(self, tree: bytes) -> None:
        """The tree is no more."""
        self._drop(tree, FOREVER)

    async def forget_agent(self, agent: str) -> None:
        """Keep nothing of an agent any more."""
        for tree, replicas in list(self._held.items()):
            self._keep(tree, replicas, [held for held in replicas if held.replica.agent != agent])
        self._checkpoints = {at: held for at, held in self._checkpoints.items() if held.agent != agent}
        await asyncio.to_thread(self._store.forget, agent)

    # ---- on disk

    async def _write(self, replica: Keep | KeepCheckpoint) -> bool:
        """Have a replica written; returns whether it is on disk."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append((replica, done))
        self._begin_writing()
        return await done

    def _begin_writing(self) -> None:
        if not self._writing:
            self._writing = True
            self._spawn(self._write_all())

    async def _write_all(self) -> None:
        """Write what waits, all that came meanwhile in one transaction."""
        try:
            while self._queue or self._settled:
                queue = self._queue
                self._queue = []
                settled = self._settled
                self._settled = {}
                replicas, now_ms = [replica for replica, _ in queue], self._now_ms()
                oldest_ms, written, trouble = now_ms - CHECKPOINT_MS_MAX, False, "the disk is almost full"
                try:
                    written = await asyncio.to_thread(self._store.write, replicas, settled, now_ms, oldest_ms)
                except (OSError, sqlite3.Error) as error:
                    # What should have gone goes with the next start at the latest.
                    trouble = str(error)
                if self._able and not written:
                    log.warning("no copies of other agents are kept now (%s): they ask others", trouble)
                self._able = written
                self.skipped += 0 if written else len(queue)
                for _, done in queue:
                    if not done.done():
                        done.set_result(written)
        finally:
            self._writing = False
            for _, done in self._queue:
                done.cancel()

    # ---- answering

    def _file(self, replica: Keep, now_s: float) -> None:
        self.held += 1
        self._held_bytes += len(replica.payload or b"")
        self._held.setdefault(replica.tree, []).append(_Held(replica, now_s))
        if not self._watched:
            self._watched = True
            self._spawn(self._watch())

    async def _watch(self) -> None:
        """Drop what has a verdict, and answer with what waits for one too long, while there is anything."""
        try:
            while self._held or self._settled:
                await asyncio.sleep(LOOK_S)
                now_s = asyncio.get_running_loop().time()
                for tree in list(self._held):
                    self._look(tree, now_s)
                if self._settled and now_s - self._settled_s >= CLEAR_S:
                    self._begin_writing()
        finally:
            self._watched = False

    def _look(self, tree: bytes, now_s: float) -> None:
        if not self._node.tree(tree).member:
            # After a restart, until the job is taken up again.
            if self._catalogue.is_over(tree) or now_s - self._held[tree][0].since_s >= UNKNOWN_S:
                self._drop(tree, FOREVER)
            return
        self._drop(tree, self._node.settled(tree))
        for held in self._held.get(tree, ()):
            age_s = now_s - held.since_s
            if held.answered or age_s < ANSWER_AFTER_S:
                continue
            if age_s >= ANSWER_LATEST_S:
                self._answer(held)
            elif held.replica.agent not in self._asking:
                self._asking.add(held.replica.agent)
                self._spawn(self._ask_owner(held.replica.agent))

    async def _ask_owner(self, agent: str) -> None:
        """Answer with an agent's replicas that wait if it is silent."""
        try:
            if await self._runs(agent):
                await asyncio.sleep(ANSWER_AFTER_S)
                return
            late_s = asyncio.get_running_loop().time() - ANSWER_AFTER_S
            for tree, replicas in list(self._held.items()):
                for held in replicas if self._node.tree(tree).member else ():
                    if held.replica.agent == agent and held.since_s <= late_s and not held.answered:
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
        replica = held.replica
        held.answered = True
        self._node.answer_for(
            replica.tree, replica.agent, replica.since, replica.through, replica.payload, replica.word
        )
        self.answered += 1

    def _drop(self, tree: bytes, settled: int) -> None:
        """Let go of the replicas of these intervals."""
        replicas = self._held.pop(tree, [])
        waiting = [held for held in replicas if held.replica.through > settled]
        self._keep(tree, replicas, waiting)
        if len(waiting) < len(replicas):
            if not self._settled:
                self._settled_s = asyncio.get_running_loop().time()
            self._settled[tree] = settled

    def _keep(self, tree: bytes, replicas: Sequence[_Held], left: list[_Held]) -> None:
        """Go on with what is left of a tree's replicas."""
        self.held -= len(replicas) - len(left)
        self._held_bytes -= _size(replicas) - _size(left)
        if left:
            self._held[tree] = left
        else:
            self._held.pop(tree, None)


def _size(replicas: Sequence[_Held]) -> int:
    return sum(len(held.replica.payload or b"") for held in replicas)
