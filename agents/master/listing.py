"""A job as a row of lists and back again, and what of it tells one publication from another. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from elf.agents.errors import JobSpecError, UnavailableError
from elf.agents.jobs.definition import Definition, Options, check_definition
from elf.agents.language.joins import Joined, clock_query
from elf.agents.language.own_functions import OwnFunction
from elf.agents.wire.positions import Json
from elf.agents.wire.records import JobRecord


def summary(job: JobRecord) -> Json:
    """The row of a job in lists."""
    definition = job.definition
    return {
        "creator": definition.creator,
        "name": definition.name,
        "app_id": definition.app_id.hex(),
        "source": definition.source,
        "query": definition.text,
        "joined": None if definition.joined is None else msgspec.to_builtins(definition.joined),
        "columns": definition.columns,
        "master": job.master.address,
        "state": _state(job),
        "ends_ms": job.ends_ms,
        "version": definition.version,
        "trees": definition.options.trees,
        "part": definition.part,
        "published_ms": job.published_ms,
        "functions": [{"name": each.name, "key": each.key} for each in definition.functions],
        "publication": job.publication,
        "owner": job.owner,
        "ordered_ms": job.ordered_ms,
        **({"trouble": job.why} if job.why else {}),
    }


def _state(job: JobRecord) -> str:
    if job.stopped:
        return "ended"
    return "stopped" if job.rests else "paused" if job.history[-1].is_paused else "running"


def identity_of(job: JobRecord) -> object:
    """Return what makes a publication of a job the same as another."""
    definition = job.definition
    return definition.source, definition.text, definition.columns, definition.options, definition.functions


class _Described(msgspec.Struct, frozen=True):
    creator: str
    name: str
    source: str
    query: str
    columns: dict[str, str]
    options: Options
    version: int
    joined: Joined | None = None
    functions: tuple[OwnFunction, ...] = ()


def definition_of(row: Any) -> Definition:
    """Return the definition that a master's description of its job tells: `summary`, with its options.

    Raises:
        UnavailableError: it is no description of a job; from a peer it may be anything.
    """
    try:
        told = msgspec.convert(row, _Described)
        definition = Definition(
            name=told.name,
            creator=told.creator,
            source=told.source,
            query=told.query,
            columns=told.columns,
            options=told.options,
            version=told.version,
            functions=told.functions,
        )
        if told.joined is not None and told.joined.uses:
            query = clock_query(told.source, told.joined.uses[0].window)
            definition = msgspec.structs.replace(definition, query=query, joined=told.joined)
        check_definition(definition)
    except (msgspec.ValidationError, JobSpecError) as error:
        raise UnavailableError(f"a master describes what is no job: {error}") from None
    return definition
