"""A job that is to be backfilled, as soon as its master can tell what its agents lack."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from elf.agents.errors import JobError, UnavailableError
from elf.agents.jobs.definition import Definition, Options, check_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.offline.asking import DescribingClient, JobText, Reach, describe

#: How long an interval takes to be committed after it has ended and been waited for.
COMMIT_MS = 10_000
_LOOK_S = 0.25


def wait_ready(client: DescribingClient, name: str, say: Callable[[str], None]) -> tuple[JobText, Plan]:
    """Wait until the job has committed all that agents lack, or for as long as an interval may take; return it.

    Of a job that was changed it is as of the version whose intervals may be backfilled: the newest may not have begun.

    Raises:
        JobError: the job has no windows.
        UnavailableError: it has not committed anything in that time, or its parts count by different versions.
    """
    begun_s, told = time.monotonic(), False
    while True:
        job = describe(client, name)
        if job.window is None:
            raise JobError(f"{name} has no window: it counts since it began, and has no intervals to backfill")
        reaches = reaches_of(job)
        job = _as_counted(job, reaches)
        plan = _plan_of(job, reaches[0].shift)
        if plan.iterating is not None:
            raise JobError(f"{name} reads its last result, so what is past cannot be loaded into it")
        is_one = len({reach.version for reach in reaches}) == 1
        if is_one and all(_is_settled(reach) for reach in reaches):
            return job, plan
        patience_ms = 2 * plan.interval_ms + job.options.lateness_ms + COMMIT_MS
        if (time.monotonic() - begun_s) * 1000 > patience_ms:
            if any(reach.until_ms is None for reach in reaches):
                raise UnavailableError(f"{name} has not had a result in {patience_ms // 1000} s; try again once it has")
            if not is_one:
                raise UnavailableError(f"not all trees of {name} have heard of its newest version; try again later")
            return job, plan
        if not told:
            say(f"waiting up to {patience_ms // 1000} s for what agents have begun to be in a result")
            told = True
        time.sleep(_LOOK_S)


def reaches_of(job: JobText) -> list[Reach]:
    """Return what may be backfilled of each part of a job.

    Raises:
        JobError: the agent does not say it.
        UnavailableError: a part's master does not answer.
    """
    if trouble := next((part.trouble for part in job.parts if part.trouble is not None), None):
        raise UnavailableError(f"a part of {job.key} cannot be asked: {trouble}")
    said = [part.backfill for part in job.parts] or [job.backfill]
    reaches = [reach for reach in said if reach is not None]
    if len(reaches) < len(said):
        raise JobError(f"the agent does not say what may be backfilled of {job.key}: is it an older version?")
    return reaches


def _as_counted(job: JobText, reaches: Sequence[Reach]) -> JobText:
    """Return a job as of the version whose intervals may be backfilled.

    Raises:
        JobError: the agent does not say how that version counts.
    """
    number = next((reach.version for reach in reaches), None)
    if number is None:
        return job
    version = next((each for each in job.versions if each.version == number), None)
    if version is not None:
        options = msgspec.convert(version.options, Options)
        return replace(job, query=version.query, columns=version.columns, options=options)
    if len(job.versions) > 1:
        raise JobError(f"the agent does not say how version {number} of {job.key} counts, which is to be backfilled")
    return job


def _is_settled(reach: Reach) -> bool:
    """Tell whether every agent has been counted, so that it is known which events each of them lacks."""
    return reach.until_ms is not None and all(each.through_ms is not None for each in reach.agents)


def _plan_of(job: JobText, shift: int) -> Plan:
    definition = Definition(
        name=job.name,
        creator=job.creator,
        source=job.source,
        query=job.query,
        columns=job.columns,
        options=job.options,
        shift=shift,
    )
    check_definition(definition)
    return compile_job(definition, definition.types)
