"""An agent's part in results of one side only: it hands its sealed snapshots to a provisional master, too.

Owns what of its own snapshots waits for a verdict of the job's own master, and the sides that it takes part in. The
job's own tree knows nothing of them: a snapshot is let go of there alone, so whatever a provisional master makes of it,
or says of it, cannot cost the job an event. As soon as the job's own master has spoken again, a side is left for good.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field

from elf.agents.completeness.runs import RunsAfter
from elf.agents.results.split.handed import HandedOver
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import contact_at
from elf.agents.wire.split import Partake
from elf.agents.worker import payload as payloads
from elf.agents.worker.state import Snapshot
from elf.cbt import PaoDecodeError
from elf.overlay.contract import NEVER, Verdict
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: A provisional master that has not asked again for so long is gone; it asks every three seconds.
LEASE_S = 15.0
LOOK_S = 1.0
#: Sides of one job at a time: an agent may reach two provisional masters that do not reach each other.
SIDES_MAX = 4
#: Sides that were left for good and are remembered.
LEFT_MAX = 1_024


@dataclass(slots=True)
class _Part:
    tree: bytes
    side: bytes
    root: Contact
    until_s: float
    handed_over: HandedOver = field(default_factory=HandedOver)
    #: Snapshots that are not handed over yet: one is being merged with what is owed.
    inbox: deque[tuple[int, bytes | None]] = field(default_factory=deque)
    merging: bool = False


class Partaking:
    """The sides that this agent takes part in.

    Args:
        agent_id: this agent's name in rosters.
        node: the overlay.
        catalogue: the jobs known here.
        spawn: runs something in the background for as long as the agent runs.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        catalogue: Catalogue,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._agent_id = agent_id
        self._node = node
        self._catalogue = catalogue
        self._spawn = spawn
        #: Of jobs that want partial results, by tree: own snapshots without a verdict, and how far there were verdicts.
        #: The overlay holds the same bytes, and bounds how many there may be before the source rests.
        self._retained: dict[bytes, deque[tuple[int, bytes | None]]] = {}
        self._settled: dict[bytes, int] = {}
        self._parts: dict[bytes, _Part] = {}
        self._left: dict[bytes, None] = {}
        self._watched = False

    # ---- the job's own tree

    def on_sealed(self, tree: bytes, snapshot: Snapshot) -> None:
        """A snapshot was handed to the job's own tree."""
        job = self._catalogue.job_of_tree(tree)
        if job is None or job.definition.options.availability != "partial":
            return
        if snapshot.through <= self._settled.get(tree, NEVER):
            return  # a verdict through here is just being settled; what it lacks rides in a later snapshot
        self._retained.setdefault(tree, deque()).append((snapshot.through, snapshot.payload))
        for part in [part for part in self._parts.values() if part.tree == tree]:
            part.inbox.append((snapshot.through, snapshot.payload))
            self._advance(part)

    def on_settled(self, tree: bytes, through: int) -> None:
        """The job's own master has spoken: let go of what is settled, and of all sides."""
        if tree not in self._retained:
            return
        self._settled[tree] = max(through, self._settled.get(tree, NEVER))
        retained = self._retained[tree]
        while retained and retained[0][0] <= through:
            retained.popleft()
        for part in [part for part in self._parts.values() if part.tree == tree]:
            self._left[part.side] = None
            while len(self._left) > LEFT_MAX:
                del self._left[next(iter(self._left))]
            self.leave(part.side)

    def forget(self, tree: bytes) -> None:
        """This agent works on the job no more."""
        self._retained.pop(tree, None)
        self._settled.pop(tree, None)
        for part in [part for part in self._parts.values() if part.tree == tree]:
            self.leave(part.side)

    # ---- sides

    def root_of(self, app: bytes) -> Contact | None:
        """Return the provisional master of a job that asked last for our snapshots, if any does."""
        job = self._catalogue.job(app)
        parts = [part for part in self._parts.values() if job is not None and part.tree == job.tree]
        return max(parts, key=lambda part: part.until_s).root if parts else None

    def partake(self, question: Partake) -> int | None:
        """Take part in a side, or go on; returns how far verdicts of the job's own master are known, None for no."""
        tree, side = question.tree, question.side
        job, now_s = self._catalogue.job_of_tree(tree), asyncio.get_running_loop().time()
        if job is None or job.stopped or job.definition.options.availability != "partial" or side in self._left:
            return None
        if not self._node.tree(tree).member:
            return None
        part = self._parts.get(side)
        if part is not None:
            part.until_s = now_s + LEASE_S
            return self._node.settled(tree)
        if sum(part.tree == tree for part in self._parts.values()) >= SIDES_MAX:
            return None
        part = self._parts[side] = _Part(tree, side, contact_at(question.root), now_s + LEASE_S)
        self._node.join_tree(
            side, member=True, root=part.root, leap_after_ms=self._catalogue.plan(tree).leap_after_ms, reign=1
        )
        part.inbox.extend(self._retained.setdefault(tree, deque()))
        self._advance(part)
        if not self._watched:
            self._watched = True
            self._spawn(self._watch())
        return self._node.settled(tree)

    def on_verdict(self, side: bytes, verdict: Verdict) -> bool:
        """Heed what a provisional master says of our snapshots; False if the tree is no side's."""
        part = self._parts.get(side)
        if part is not None:
            part.handed_over.settle(verdict)
        return part is not None

    def leave(self, side: bytes) -> None:
        """Take part in a side no more; its provisional master, if that is us, stays its root."""
        if self._parts.pop(side, None) is not None and self._node.tree(side).role != "root":
            self._node.leave_tree(side, retire=False)

    async def _watch(self) -> None:
        """Leave sides whose provisional master is gone, while there are any."""
        try:
            while self._parts:
                await asyncio.sleep(LOOK_S)
                now_s = asyncio.get_running_loop().time()
                for part in [part for part in self._parts.values() if part.until_s <= now_s]:
                    self.leave(part.side)
        finally:
            self._watched = False

    # ---- handing over

    def _advance(self, part: _Part) -> None:
        """Hand over what waits, in order."""
        while part.inbox and not part.merging:
            through, payload = part.inbox.popleft()
            taken = part.handed_over.take(through, payload)
            if taken is None:
                continue
            parts, runs = taken
            if runs or len(parts) > 1:
                part.merging = True
                self._spawn(self._merge(part, through, payload, parts, runs))
            else:
                self._hand_over(part, through, parts[0] if parts else None)

    async def _merge(
        self, part: _Part, through: int, payload: bytes | None, parts: Sequence[bytes], runs: RunsAfter
    ) -> None:
        """Hand a snapshot over with what is owed; where both do not fit in one, what is owed stays missing."""
        merged: bytes | None = payload
        try:
            merged = await asyncio.to_thread(self._merged, part.tree, parts, runs)
        except (KeyError, PaoDecodeError) as error:
            log.error("what a side lacks stays missing: %s", error)
        try:
            self._hand_over(part, through, merged)
        except OverlayError:
            self._hand_over(part, through, payload)
        part.merging = False
        self._advance(part)

    def _merged(self, tree: bytes, parts: Sequence[bytes], runs: RunsAfter) -> bytes:
        plan = self._catalogue.plan(tree)
        note = payloads.pack(payloads.Notes(settles={self._agent_id: runs} if runs else {}), plan.schema.empty())
        return payloads.merge([*parts, *([] if note is None else [note])], plan)

    def _hand_over(self, part: _Part, through: int, payload: bytes | None) -> None:
        if self._parts.get(part.side) is part:
            part.handed_over.handed(through, payload, taken=self._node.seal(part.side, through, payload))
