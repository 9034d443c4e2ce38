"""Ending what is left of a stopped job once another one is published under its name.

Publishing ends the parts whose places it takes. Those that the new job does not have, as it has fewer trees, would rest
until their time is over, or go on for ever if they have not heard of the stop: nobody can reach them any more. So the
master of each part looks now and then whether the first part is of another publication, and ends its own then; also one
that was away meanwhile, or has only now become the master. It asks the first part's master, for it need not have the
job's source, and word of mouth may be old.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from agents.catalogue import Catalogue
from agents.errors import ElfError
from agents.masters.ending import Spread, end
from agents.masters.masters import Masters
from agents.parts.gathering import Ask
from agents.requests import Describe, JobRecord
from overlay.errors import OverlayError

log = logging.getLogger(__name__)
ASK_MS = 5_000
#: How often parts are looked at; how soon the first part's master is asked again if it did not answer, and if
#: it did, and nothing was heard since.
LOOK_S, RETRY_S, ASK_S = 1.0, 2.0, 30.0


class Publication(msgspec.Struct, frozen=True):
    """Which publication a job, or a part of it, is of."""

    instance: str


class _First(msgspec.Struct, frozen=True):
    """What the master of a job's first part tells of it."""

    trees: int
    published_ms: int
    backfill: Publication


def is_replaced(job: JobRecord, described: Any) -> bool:
    """Tell whether a part is none of the job that its name stands for now.

    A part that this job has itself is left to whoever publishes that.

    Args:
        job: the part.
        described: what the master of part 0 says of the job; from a peer it may be anything.
    """
    try:
        first = msgspec.convert(described, _First)
    except msgspec.ValidationError:
        return False
    later = first.backfill.instance != job.publication and first.published_ms >= job.published_ms
    return later and first.trees <= job.definition.part


class Replaced:
    """Looks after the parts mastered here, on behalf of one agent.

    Args:
        masters: the jobs mastered here.
        catalogue: the jobs known here.
        ask: asks a master.
        spread: puts a job's record into its source's tree.
        now_ms: wall clock.
    """

    def __init__(
        self, masters: Masters, catalogue: Catalogue, ask: Ask, spread: Spread, now_ms: Callable[[], int]
    ) -> None:
        self._masters, self._catalogue, self._ask = masters, catalogue, ask
        self._spread, self._now_ms = spread, now_ms
        #: Tree of a part -> when its first part's master is asked next, and of which publication was heard last.
        self._asked: dict[bytes, tuple[float, str]] = {}
        #: Trees of those that are being ended.
        self._ending: set[bytes] = set()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            parts = {job.tree: job for job in self._masters.jobs if job.definition.part}
            self._asked = {tree: asked for tree, asked in self._asked.items() if tree in parts}
            self._ending &= parts.keys()
            for job in parts.values():
                try:
                    if job.tree in self._ending or await self._is_replaced(job):
                        await self._end(job)
                except (ElfError, OverlayError) as error:
                    log.debug("what is left of job %s cannot be looked after now: %s", job.definition.key, error)
            await asyncio.sleep(LOOK_S)

    async def _is_replaced(self, job: JobRecord) -> bool:
        """Ask the first part's master, if it is time to, or something was heard."""
        definition, now_s = job.definition, asyncio.get_running_loop().time()
        first = definition.app_of(0)
        known = self._catalogue.job(first)
        heard = "" if known is None or known.stopped else known.publication
        next_s, before = self._asked.get(job.tree, (now_s, heard))
        if now_s < next_s and heard == before:
            return False
        self._asked[job.tree] = now_s + RETRY_S, heard
        described, _ = await self._ask(f"{definition.creator}/{definition.name}", Describe(first), ASK_MS)
        self._asked[job.tree] = now_s + ASK_S, heard
        return is_replaced(job, described)

    async def _end(self, job: JobRecord) -> None:
        """End a part; one that was decided to end, and is not told to all, is so again."""
        app = job.definition.app_id
        if app in self._masters and self._masters.job(app).tree == job.tree:
            if job.tree not in self._ending:
                log.info("job %s ends: another one was published under its name", job.definition.key)
            self._ending.add(job.tree)
            await end(self._masters, app, self._spread, self._now_ms())
