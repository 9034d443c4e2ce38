"""Ending a job for good at its master, and beginning one in the place of a stopped one of the same name."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from elf.agents.errors import UnavailableError
from elf.agents.extensions.installed_applications import require_application
from elf.agents.group.masters import Masters
from elf.agents.jobs.definition import check_definition
from elf.agents.jobs.orders import Order
from elf.agents.jobs.plan import compile_job
from elf.agents.wire.ownership import check_stamp
from elf.agents.wire.placement import Install
from elf.agents.wire.records import JobRecord

#: Telling the agents takes milliseconds; whoever ends a job is answered within the time that a master is given.
ENDED_S, LOOK_S = 4.0, 0.02


async def end(masters: Masters, app: bytes, now_ms: int, order: Order | None = None) -> JobRecord:
    """End a job that is mastered here, running or stopped; returns the record that says so.

    Decided first, so that no other master takes the job up again; what follows, telling the agents and dropping it, is
    the leader's of its root group (`elf.agents.group.leadership`), and waited for.

    Args:
        masters: the jobs mastered here.
        app: the job.
        now_ms: the time of day.
        order: of the job's creator, if it has one.

    Raises:
        UnknownJobError: it is not mastered here.
        NotCreatorError: the order is none of its creator's.
        UnavailableError: the agents cannot be told now.
    """
    tombstone = await masters.begin_stop(app, now_ms, order)
    loop = asyncio.get_running_loop()
    end_s = loop.time() + ENDED_S
    while app in masters and masters.job(app).tree == tombstone.tree:
        if loop.time() > end_s:
            definition = tombstone.definition
            raise UnavailableError(
                f"the agents with source {definition.source!r} could not be told yet that job {definition.key} ends; "
                "it does once they were"
            )
        await asyncio.sleep(LOOK_S)
    return tombstone


async def install(masters: Masters, request: Install, now_ms: int) -> JobRecord:
    """Become a job's master and return the job; a stopped one of that name, or a left part of it, ends before.

    Raises:
        JobError: it cannot run here, or another definition of the name is running; see `Masters.install`.
        NotAdmittedError: its stamp is more than a day ahead.
        UnavailableError: as `end` and `Masters.install`.
    """
    job = request.job
    app, definition = job.definition.app_id, job.definition
    check_stamp(job.stamp_ms, job, now_ms)
    if _is_left_over(masters, job):
        # What cannot run must not cost the other its windows.
        check_definition(definition)
        require_application(definition)
        await asyncio.to_thread(compile_job, definition, definition.types, masters.admits)
        tombstone = await end(masters, app, now_ms, job.published)
        job = replace(job, stamp_ms=max(job.stamp_ms, tombstone.stamp_ms + 1))
    return await masters.install(job, request.roster, request.ended, request.keys)


def _is_left_over(masters: Masters, job: JobRecord) -> bool:
    """Tell whether what is mastered here under a job's name goes for it: stopped, or a part of another publication."""
    definition = job.definition
    if definition.is_first:
        return masters.rests(definition.app_id)
    # The first part of the new one is there already: it was asked whether the name is free. If it is the old one still,
    # which was resumed, a part that rests has only not heard of that yet.
    if definition.app_id not in masters:
        return False
    known = masters.job(definition.app_id)
    # A question of before may come late.
    return known.publication != job.publication and known.published_ms <= job.published_ms
