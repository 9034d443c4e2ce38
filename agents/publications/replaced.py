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
from typing import Annotated, Any

import msgspec

from elf.agents.errors import ElfError
from elf.agents.group.masters import Masters
from elf.agents.jobs.definition import TREES_MAX
from elf.agents.jobs.orders import Order
from elf.agents.jobs.parts import parts_of
from elf.agents.results.gatherer import Ask
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.questions import Describe
from elf.agents.wire.records import JobRecord
from elf.overlay.errors import OverlayError

log = logging.getLogger(__name__)
ASK_MS = 5_000
#: How often parts are looked at; how soon the first part's master is asked again if it did not answer, and if
#: it did, and nothing was heard since.
LOOK_S, RETRY_S, ASK_S = 1.0, 2.0, 30.0


class Publication(msgspec.Struct, frozen=True):
    """Which publication a job, or a part of it, is of."""

    instance: str


class First(msgspec.Struct, frozen=True):
    """What the master of a job's first part tells of it."""

    trees: Annotated[int, msgspec.Meta(ge=1, le=TREES_MAX)]
    published_ms: int
    backfill: Publication
    published: Order | None = None


def first_of(described: Any) -> First | None:
    """Read what is said to be the description of a job's first part; None if it is none."""
    try:
        return msgspec.convert(described, First)
    except msgspec.ValidationError:
        return None


def is_replaced(job: JobRecord, first: First) -> bool:
    """Tell whether a part is none of the job that its name stands for now.

    A part that this job has itself is left to whoever publishes that.
    """
    definition = job.definition
    later = first.backfill.instance != job.publication and first.published_ms >= job.published_ms
    return later and definition.place not in parts_of(definition.creator, definition.name, first.trees)


class Replaced:
    """Looks after the parts mastered here, on behalf of one agent.

    Args:
        masters: the jobs mastered here.
        catalogue: the jobs known here.
        ask: asks a master.
        now_ms: wall clock.
    """

    def __init__(self, masters: Masters, catalogue: Catalogue, ask: Ask, now_ms: Callable[[], int]) -> None:
        self._masters = masters
        self._catalogue = catalogue
        self._ask = ask
        self._now_ms = now_ms
        #: Tree of a part -> when its first part's master is asked next, and of which publication was heard last.
        self._asked: dict[bytes, tuple[float, str]] = {}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            # Those of which the end is decided are the root group's to see to.
            parts = {job.tree: job for job in self._masters.jobs if not job.definition.is_first and not job.stopped}
            self._asked = {tree: asked for tree, asked in self._asked.items() if tree in parts}
            for job in parts.values():
                try:
                    if (first := await self._replacing(job)) is not None:
                        await self._end(job, first.published)
                except (ElfError, OverlayError) as error:
                    log.debug("what is left of job %s cannot be looked after now: %s", job.definition.key, error)
            await asyncio.sleep(LOOK_S)

    async def _replacing(self, job: JobRecord) -> First | None:
        """Ask the first part's master, if it is time to, or something was heard; return what goes for the part."""
        part, now_s = job.definition.first, asyncio.get_running_loop().time()
        known = self._catalogue.job(part.app)
        heard = "" if known is None or known.stopped else known.publication
        next_s, before = self._asked.get(job.tree, (now_s, heard))
        if now_s < next_s and heard == before:
            return None
        self._asked[job.tree] = now_s + RETRY_S, heard
        described, _ = await self._ask(part.key, Describe(part.app), ASK_MS)
        first = first_of(described)
        if first is None:
            return None
        if not heard or heard == first.backfill.instance:
            # A master that goes may still answer when the record of the next one has come.
            self._asked[job.tree] = now_s + ASK_S, heard
        return first if is_replaced(job, first) else None

    async def _end(self, job: JobRecord, order: Order | None) -> None:
        app = job.definition.app_id
        if app in self._masters and self._masters.job(app).tree == job.tree:
            self._asked.pop(job.tree, None)  # to be decided again, if it cannot be now
            await self._masters.begin_stop(app, self._now_ms(), order)
            log.info("job %s ends: another one was published under its name", job.definition.key)
