"""One history for all parts of a job: its first part's root group decides a version, and the others adopt it.

Each part has versions of its own, decided by its own root group, with the numbers and from the interval on that those
of the first part have: its master tells the others' until they have them. A part that hears of one too late, as it had
no master, say, counts by it from its next commit on; windows that it has counted by another one until then lack its
rows, and name all agents as missing (`elf.agents.results.shares`). Who tells it is `elf.agents.publications.notices`.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from elf.agents.errors import JobError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.jobs.plan import compile_job
from elf.agents.jobs.versions import Version, check_change, compile_versions
from elf.agents.language.own_functions import Admits
from elf.agents.master.commands import Turn
from elf.agents.master.version_decision import with_version
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import Adopt
from elf.overlay.contract import NEVER


def adopted(job: JobRecord, version: Version) -> Version | None:
    """Return a version of a job's first part as another part is to have it; None if that has it, or a later one."""
    newest = job.history[-1]
    if version.number <= newest.number:
        return None
    definition = replace(version.definition, part=job.definition.part)
    # Of versions that were forgotten meanwhile nobody knows whether they kept PAOs as they were.
    pao_kind = newest.pao_kind if version.pao_kind == newest.pao_kind else version.number
    return replace(version, definition=definition, pao_kind=pao_kind)


async def adopt(masters: Masters, request: Adopt) -> int:
    """Have the versions decided that a part mastered here lacks; returns the number of its newest one.

    Raises:
        UnknownJobError: it is not mastered here.
        JobError: a version cannot run here, or not after the one that the part has.
        UnavailableError: it is of another publication, or ending, or this agent leads it no more.
    """
    app = request.app
    for version in request.versions:
        job = masters.job(app)
        if job.publication != request.publication or job.definition.is_first:
            raise UnavailableError(f"{job.definition.key} is of another publication of the job")
        mine = adopted(job, version)
        if mine is not None:
            await asyncio.to_thread(_check, job, mine, masters.admits)
            await masters.decide(app, Turn(mine))
    newest = masters.job(app).history[-1].number
    if newest < request.versions[-1].number:
        raise UnavailableError(f"{masters.job(app).definition.key} is being stopped at this moment")
    return newest


def _check(job: JobRecord, version: Version, admits: Admits | None) -> None:
    """Refuse a version that a part cannot have after its newest one: decided, it would end all that copies of it do.

    Raises:
        JobError: why.
    """
    before, after = job.definition, version.definition
    try:
        changed = with_version(job, version, NEVER)
    except ValueError as error:
        raise JobError(f"version {version.number} is none of {before.key}: {error}") from None
    if changed is not None:
        check_change(compile_job(before, before.types), compile_job(after, after.types, admits))
        compile_versions(changed.history, admits=admits)
