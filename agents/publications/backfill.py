"""Loading intervals from the agents' archives into a job mastered here: checked, then decided by its root group."""

from __future__ import annotations

import asyncio

from elf.agents.completeness.runs import holds
from elf.agents.errors import BadRequestError, JobError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.master.backfill import check_load
from elf.agents.master.commands import Load
from elf.agents.wire.positions import Json
from elf.agents.wire.shares import LoadIntervals
from elf.cbt import PaoDecodeError, decode


async def load(masters: Masters, request: LoadIntervals) -> Json:
    """Have it decided that intervals are as the archive has them; returns which were loaded, and the edition.

    Raises:
        JobError: they may not be loaded, or were computed for another publication.
        BadRequestError: the block does not hold what it should.
        UnavailableError: this agent leads the job no more, or its disk refused: ask again.
    """
    app, master = request.app, masters.master(request.app)
    if masters.job(app).instance != request.instance:
        raise JobError("the job was published anew meanwhile; begin the backfill again")
    wanted = Load(request.first, request.last, request.block, request.missing, request.mistyped)
    check_load(master.versions, master.state, wanted)
    try:
        await asyncio.to_thread(decode, wanted.block, master.windows.plan.schema)
    except PaoDecodeError as error:
        raise BadRequestError(f"the intervals cannot be read: {error}") from None
    before = master.windows.edition
    await masters.decide(app, wanted)
    known = master.state.archived
    if master.windows.edition == before or not (holds(known, wanted.first) and holds(known, wanted.last)):
        raise UnavailableError("the intervals were not loaded; the log of the job's master says why")
    return {"first": wanted.first, "last": wanted.last, "edition": master.windows.edition}
