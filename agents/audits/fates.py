"""Verdicts that an agent asks its job's master about before it heeds them.

Verdicts come down the tree, and any member on the way may make them up. One that says that nothing was counted of what
was handed up has the agent bring it again: were it not true, events would be counted twice, and no label could say so.
One that counts more than the agent's disk has ever sealed has it leave out what it reads. Both are rare, and the
master is asked straight; nothing is heeded before it has answered. What it knows nothing of is not heeded, and the
parent that it came from is left.
"""

from __future__ import annotations

import asyncio
import logging

from elf.agents.errors import ElfError
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.questions import Fate
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.worker.state import Progress
from elf.agents.worker.verdicts import is_set_back
from elf.overlay.contract import NEVER, Verdict
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode
from elf.overlay.rollup.succession import BOTH, COUNTED, MISSING, OPEN

log = logging.getLogger(__name__)

#: The master has so long to answer; it is asked again until it does.
FATE_MS = 2_000
#: What the master has not committed yet, as far as it says so many times, was made up.
OPEN_MAX = 5
#: First and longest pause before it is asked again.
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 2.0
#: What a master of a release says that cannot be asked.
UNKNOWN = "unknown"


class Fates:
    """What the masters of jobs say became of one agent's snapshots.

    Args:
        agent_id: the agent's id.
        node: the overlay.
        catalogue: knows who the masters are.
    """

    def __init__(self, agent_id: str, node: OverlayNode, catalogue: Catalogue) -> None:
        self._agent_id = agent_id
        self._catalogue = catalogue
        self._node = node
        #: Verdicts that were made up, since the start.
        self.refused = 0

    async def is_true(self, job: JobRecord, verdict: Verdict, progress: Progress) -> bool:
        """Tell whether a verdict may be heeded.

        Args:
            job: whose.
            verdict: it.
            progress: how far the agent is.

        It takes as long as the master does, or until the tree is left.
        """
        if not verdict.missing and not is_set_back(progress, verdict):
            return True
        sealed = NEVER if verdict.missing or progress.sealed is None else progress.sealed
        previous = max(verdict.previous, sealed)
        question = Fate(job.definition.app_id, job.tree, self._agent_id, previous, verdict.through)
        said = await self._asked(job, question)
        if said == UNKNOWN:
            return True
        # What the master has on disk may still have an absence that was acknowledged since: such a run is both.
        if said in ((MISSING,) if verdict.missing else (COUNTED, BOTH)):
            return True
        self.refused += 1
        what = "left out" if verdict.missing else "counted"
        log.error(
            "job %s: this agent was told that it is %s up to interval %d, and the job's master says that it is not: "
            "a member above it makes verdicts up", job.definition.key, what, verdict.through,
        )  # fmt: skip
        return False

    async def _asked(self, job: JobRecord, question: Fate) -> str:
        """Ask a job's master until it answers, and has come as far; `OPEN` where it has not, or the tree is left."""
        pause_s, times = PAUSE_S_MIN, 0
        while self._node.tree(job.tree).member:
            newest = self._catalogue.job_of_tree(job.tree) or job
            try:
                said = value_of(await self._node.ask(newest.master, encode(question), FATE_MS))
                times += said == OPEN
                if said != OPEN or times > OPEN_MAX:
                    return str(said)
            except (OverlayError, ElfError) as error:
                if str(error).startswith("not a request"):
                    return UNKNOWN
                log.debug("job %s: its master does not say what it has counted: %s", job.definition.key, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return OPEN
