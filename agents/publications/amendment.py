"""Changing a job that is mastered here: checked, then decided by its root group, then told to all whom it concerns."""

from __future__ import annotations

import asyncio

from elf.agents.errors import JobConflictError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.jobs.orders import digest_of
from elf.agents.jobs.versions import Version
from elf.agents.master.commands import Turn
from elf.agents.master.version_decision import describe_history, next_version
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.ownership import require_order
from elf.agents.wire.positions import Json

#: Others may change the job at the same time: whoever comes second begins with what the first has made of it.
TRIES = 8


def leap(masters: Masters, request: Leap) -> Json:
    """Leap over the stragglers of a job: no longer wait for them; returns up to when, and whom.

    Raises:
        JobConflictError: nobody is waited for.
    """
    app = request.app
    job, master = masters.job(app), masters.master(app)
    require_order(job, request.order, "leap")
    most = None if request.until_ms is None else master.versions.number(request.until_ms - 1)
    through, names = masters.leap(app, most)
    if not names:
        raise JobConflictError(f"nobody keeps job {job.definition.key} waiting: there is nothing to leap over")
    return {"through_ms": master.versions.end_ms(through), "agents": sorted(map(masters.name_of, names))}


async def amend(masters: Masters, request: Amend, now_ms: int) -> Json:
    """Have another version decided; returns it as the history has it.

    Raises:
        JobError: it is not possible; see `next_version`.
        UnavailableError: this agent leads the job no more: ask again.
    """
    app = request.app
    for _ in range(TRIES):
        job, master = masters.job(app), masters.master(app)
        made = next((version.number for version in job.history if _is_made_for(version, request)), None)
        if made is not None:
            # Whoever leads the job by then: it is decided.
            if not job.definition.is_alone:
                await masters.told(app)
            history = describe_history(job, master.versions, master.state.begins)
            return next(row for row in history if row["version"] == made)
        if not (request.kind == "stop" and request.why and job.definition.functions):
            # Agents stop a job themselves whose functions run no more.
            require_order(job, request.order, request.kind)
        version = await asyncio.to_thread(next_version, job, master.versions, request, now_ms, masters.admits)
        if job.owner and request.order is not None and request.order.about != digest_of(version.definition):
            raise JobConflictError(f"job {job.definition.key} was changed by others at this moment; try again")
        await masters.decide(app, Turn(version))
    raise UnavailableError("the job is being changed by others at this moment; try again")


def _is_made_for(version: Version, request: Amend) -> bool:
    """Tell whether a version is what was asked for, which may be asked again where the answer was lost."""
    return version.token == request.token or (request.order is not None and version.order == request.order)
