"""Which version a running job gets next, and how its record changes with it. Pure.

Every copy of the job's master makes the same of a version that was decided, whoever proposed it, so all agents know one
order of versions. Of a job with several trees the first part's root group decides, and the others adopt its versions
(`elf.agents.publications.adoption`). OVERLAY 6.3: effective at an interval boundary two or more ahead.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from elf.agents.errors import JobConflictError, JobError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.intervals import Numbering, numbering_of
from elf.agents.jobs.plan import compile_job
from elf.agents.jobs.versions import ENDS_MS_MAX, VERSIONS_MAX, Version, Versions, check_change, has_same_states
from elf.agents.language.own_functions import Admits
from elf.agents.wire.changes import Amend
from elf.agents.wire.positions import Json
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import NEVER
from elf.overlay.messages import RECORD_BYTES_MAX

#: A version counts from this boundary ahead on: agents have the rest of an interval and a whole one to hear of it; of
#: several trees, one more, since the other parts' root groups decide it after the first one's.
AHEAD, AHEAD_PARTED = 2, 3
#: A job's record with all versions that it remembers; more than enough for one.
VERSIONS_BYTES_MAX = RECORD_BYTES_MAX * 3 // 4


def next_version(
    job: JobRecord, versions: Versions, request: Amend, now_ms: int, admits: Admits | None = None
) -> Version:
    """Return the version that a request asks for, as it is to be decided; `admits` as of `compile_job`.

    Raises:
        JobSpecError: the definition cannot run, or the agents could not follow the change.
        JobConflictError: the job has another newest version than expected, is paused, stopped or ending.
        JobError: there is no such version, the job answers for one side of a split, or this is not its first part.
    """
    newest = job.history[-1]
    if request.expected not in (None, newest.number):
        raise JobConflictError(f"job {job.definition.key} has version {newest.number} now, not {request.expected}")
    _check_kind(job, newest, request)
    if versions.newest.plan.iterating is not None and request.kind in ("update", "rollback"):
        what = "reads its last result, which has to go on as it is"
        raise JobError(f"job {job.definition.key} {what}: stop it and publish it anew")
    number, old = newest.number + 1, versions.newest.plan
    definition = replace(_definition(job, request), version=number)
    new = compile_job(definition, definition.types, admits)
    check_change(old, new)
    same = request.kind != "reset" and has_same_states(old, new)
    ahead = AHEAD if new.definition.is_alone else AHEAD_PARTED
    since = max(old.numbering.number(now_ms) + ahead, newest.since)
    since, shift = old.numbering.followed_by(new.interval_ms, since)
    return Version(
        number=number,
        definition=replace(definition, shift=shift),
        what=request.kind,
        since=since,
        begins=newest.begins if same else since,
        pao_kind=newest.pao_kind if same else number,
        made_ms=now_ms,
        token=request.token,
        ends_ms=min(now_ms + request.keep_ms, ENDS_MS_MAX) if request.kind == "stop" else None,
        why=request.why if request.kind == "stop" else "",
        order=request.order if job.owner else None,
    )


def _check_kind(job: JobRecord, newest: Version, request: Amend) -> None:
    options, key = job.definition.options, job.definition.key
    if job.stopped:
        raise JobConflictError(f"job {key} is ending for good at this moment")
    rests = request.kind in ("stop", "resume")
    if job.definition.joined is not None and not rests:
        raise JobError(f"job {key} reads other jobs, and has nothing of its own to {request.kind}: change those")
    if not job.definition.is_first:
        raise JobError(f"{key} is a part of a job, and goes on as the first one does")
    if options.availability != "exact":
        cannot = "it can only be stopped for good" if request.kind == "stop" else "it cannot be changed while it runs"
        raise JobError(f'job {key} has availability = "{options.availability}", so {cannot}')
    if newest.is_paused and not rests:
        raise JobConflictError(f"job {key} is {'stopped' if newest.is_stopped else 'paused'}; resume it first")
    if not newest.is_paused and request.kind == "resume":
        raise JobConflictError(f"job {key} is not paused, nor stopped")


def _definition(job: JobRecord, request: Amend) -> Definition:
    match request.kind:
        case "update":
            if request.definition is None or request.definition.app_id != job.definition.app_id:
                raise JobError("an update needs a definition of the same job")
            return request.definition
        case "rollback":
            earlier = job.history[:-1]
            if not earlier:
                raise JobError(f"job {job.definition.key} was never changed: there is nothing to go back to")
            wanted = earlier[-1].number if request.number is None else request.number
            found = next((version for version in earlier if version.number == wanted), None)
            if found is None:
                known = ", ".join(str(version.number) for version in earlier)
                raise JobError(f"job {job.definition.key} remembers no version {wanted}; there are {known}")
            return found.definition
    return job.definition


def with_version(job: JobRecord, version: Version, committed: int) -> JobRecord | None:
    """Return a job's record with another version; None if a later one has overtaken it, or the job is stopped.

    Where it makes intervals longer or shorter, it waits for a time at which one of either length begins.

    Args:
        job: as it is.
        version: the next one, as it was proposed; of a part, the next one that the first part remembers.
        committed: the last interval committed, which it is too late to change.

    Raises:
        JobSpecError: it is none that could have been proposed.
        ValueError: it is none of this job's.
    """
    newest = job.history[-1]
    is_next = version.number == newest.number + 1 if job.definition.is_first else version.number > newest.number
    if not is_next or job.stopped:
        return None
    now, then = numbering_of(newest.definition), numbering_of(version.definition)
    # By the time that it was to begin at: another part may number its intervals otherwise by now.
    wanted = now.number(then.start_ms(version.since) - 1) + 1
    since = max(wanted, newest.since, committed + 1 if committed != NEVER else NEVER)
    since, shift = now.followed_by(then.length_ms, since)
    definition = replace(version.definition, shift=shift)
    begins = since if version.pao_kind == version.number else newest.begins
    history = (*job.history, replace(version, definition=definition, since=since, begins=begins))
    stamp_ms = max(version.made_ms, job.stamp_ms + 1)
    job = replace(job, definition=definition, versions=history[-VERSIONS_MAX:], stamp_ms=stamp_ms)
    while len(job.encode()) > VERSIONS_BYTES_MAX and len(job.versions) > 1:
        job = replace(job, versions=job.versions[1:])
    return job


def described(version: Version, until: int | None, numbering: Numbering) -> Json:
    """Describe a version for people, `until` the first interval of the next one; times in ms."""
    definition, start_ms = version.definition, numbering.start_ms
    return {
        "version": version.number,
        "what": version.what,
        "interval_ms": numbering.length_ms,
        "since_ms": None if version.since == NEVER else start_ms(version.since),
        "until_ms": None if until is None else start_ms(until),
        "begins_ms": None if version.begins == NEVER else start_ms(version.begins),
        "made_ms": version.made_ms,
        "ends_ms": version.ends_ms,
        "why": version.why,
        "query": definition.text,
        "columns": definition.columns,
        "options": msgspec.to_builtins(definition.options),
        # With their sources: who verifies a version runs its own. A record holds all of them, so they are few.
        "functions": msgspec.to_builtins(definition.functions),
    }


def describe_history(job: JobRecord, versions: Versions, begins: int = NEVER) -> list[Json]:
    """Describe all versions that a job remembers, ascending; it counts nothing of before interval `begins`.

    `versions`: those that are compiled, which may lack the newest still.
    """
    history = [
        replace(version, since=max(version.since, begins), begins=max(version.begins, begins))
        for version in job.history
    ]
    untils = [*(version.since for version in history[1:]), None]
    known = {version.number: plan.numbering for version, plan in versions.all}
    return [
        described(version, until, known.get(version.number) or numbering_of(version.definition))
        for version, until in zip(history, untils, strict=True)
    ]
