"""What all offline work asks an agent: a job, as its master describes it. The client is handed in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from elf.agents.errors import JobError
from elf.agents.jobs.definition import Options
from elf.agents.language.joins import Joined
from elf.client.results import Function, Version


class DescribingClient(Protocol):
    """Asks an agent for a job."""

    def job(self, name: str) -> Mapping[str, Any]:
        """Return the job's description with creator, name, source, query and columns."""
        ...


class Slides(msgspec.Struct, frozen=True):
    """A job's window, as the API describes it."""

    size_ms: int
    slide_ms: int


class CountedAgent(msgspec.Struct, frozen=True):
    """An agent, and the event time up to which the job has counted it; None if it never has."""

    agent: str
    name: str
    through_ms: int | None


class Reach(msgspec.Struct, frozen=True):
    """What may be backfilled of one publication: event time, None before its first result, and who was counted."""

    instance: str
    first_ms: int | None
    until_ms: int | None
    agents: list[CountedAgent]
    #: The version of the job that the intervals are of; None from an agent that knows of none.
    version: int | None = None
    #: What is added to the numbers of its intervals (`elf.agents.jobs.intervals.Numbering`).
    shift: int = 0


class Part(msgspec.Struct, frozen=True):
    """One of the parts of a job with several trees, or why its master does not answer."""

    backfill: Reach | None = None
    trouble: str | None = None


class JobText(msgspec.Struct, frozen=True):
    """A job as the API describes it."""

    creator: str
    name: str
    source: str
    query: str
    columns: dict[str, str]
    window: Slides | None = None
    interval_ms: int | None = None
    #: End of the last committed interval, and begin of the first one that is still there.
    through_ms: int | None = None
    oldest_ms: int | None = None
    #: Windows that begin before are no longer answered; None if nothing has expired.
    expired_ms: int | None = None
    #: Names of the agents that are, or were, expected, by their ids.
    agents: dict[str, str] = {}
    #: Names of those that are expected now.
    roster: list[str] = []
    options: Options = Options()
    functions: list[Function] = []
    #: Of a job with several trees, of its first part; then `parts` has all of them.
    backfill: Reach | None = None
    parts: list[Part] = []
    #: The job's history, ascending; `query` and `columns` are the newest version's, which may not have begun.
    versions: list[Version] = []
    #: What a job over other jobs makes of their results.
    joined: Joined | None = None

    @property
    def key(self) -> str:
        """`creator/name`."""
        return f"{self.creator}/{self.name}"


def describe(client: DescribingClient, name: str, *, over_jobs: bool = False, with_functions: bool = False) -> JobText:
    """Ask for a job; `over_jobs`: it may be one over other jobs; `with_functions`: one that brings functions along.

    Raises:
        ElfError: the agent does not know it, its description lacks something, or it is none of these.
    """
    try:
        job = msgspec.convert(msgspec.to_builtins(client.job(name)), JobText)
    except msgspec.ValidationError as error:
        raise JobError(f"the agent's description of job {name!r} is incomplete: {error}") from None
    if job.joined is not None and not over_jobs:
        others = " and ".join(dict.fromkeys(use.job for use in job.joined.uses))
        raise JobError(f"{job.key} reads other jobs and has no events of its own; ask so of {others}")
    if not with_functions:
        functions = [*job.functions, *(each for version in job.versions for each in version.functions)]
        refuse_own({each.name for each in functions}, job.key)
    return job


def refuse_own(names: Collection[str], key: str) -> None:
    """Refuse a job that brings functions along, in one version or another.

    Raises:
        JobError: there are names of such functions.
    """
    if names:
        why = "on Spark only `elf verify` runs such functions"
        raise JobError(f"{key} brings functions of its own along ({', '.join(sorted(names))}): {why}")
