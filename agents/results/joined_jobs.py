"""What a job over other jobs needs to know of these, looked up once, when it is published."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from elf.agents.errors import UnavailableError, UnknownJobError
from elf.agents.jobs.definition import Definition, Options
from elf.agents.jobs.parts import first_part
from elf.agents.language.dialect import refused
from elf.agents.language.joins import Joined, Read, Use, clock_query, parse_joins
from elf.agents.results.gatherer import ASK_MS, Ask, all_of
from elf.agents.wire.questions import Describe
from elf.agents.wire.result import Column

#: How much later than those that it reads a job closes its windows: their masters have committed theirs by then.
BEHIND_MS = 500


class _Window(msgspec.Struct, frozen=True):
    size_ms: int
    slide_ms: int


class Looked(msgspec.Struct, frozen=True):
    """What a master tells of a job that another one is to read."""

    source: str
    interval_ms: int
    window: _Window | None
    output: list[Column]
    options: Options = Options()
    joined: object = None
    reads_last_result: bool = False


async def look_up(definition: Definition, ask: Ask) -> Definition:
    """Return a definition as its agents are to run it: of one over other jobs, with what these are.

    Raises:
        JobSpecError: one of them is not there, or its results cannot be joined with those of the others.
        UnavailableError: a master cannot be asked now.
    """
    if definition.joined is None:
        return definition
    reads = parse_joins(definition.joined.query).reads
    return with_uses(definition, reads, await all_of([_look(read, ask) for read in reads]))


def with_uses(definition: Definition, reads: Sequence[Read], found: Sequence[Looked]) -> Definition:
    """Return a definition with the jobs that it reads; its windows are those of the first one.

    Raises:
        JobSpecError: their windows cannot be had of all of them, or one reads other jobs itself.
    """
    assert definition.joined is not None
    uses: list[Use] = []
    for read, looked in zip(reads, found, strict=True):
        if looked.joined is not None:
            raise refused(read.node, f"{read.job} reads other jobs itself", "read those")
        if looked.options.availability != "exact":
            raise refused(read.node, f"{read.job} may answer for one side of a split only", "read exact jobs")
        if looked.window is None:
            raise refused(read.node, f"{read.job} has no window: its result is never of one time", "add window(...)")
        window = looked.window.size_ms, looked.window.slide_ms
        first = uses[0].window if uses else window
        if any(length_ms % looked.interval_ms for length_ms in first):
            message = f"{read.job} has intervals of {looked.interval_ms} ms, which do not make up windows of"
            raise refused(read.node, f"{message} {first[0]} ms every {first[1]} ms, as {uses[0].job} has them")
        if looked.reads_last_result and window != first:
            message = (
                f"{read.job} reads its last result, so it answers windows of {window[0]} ms every {window[1]} ms only"
            )
            raise refused(read.node, message, "name it first")
        uses.append(Use(job=read.job, window=window, columns={each.name: each.type for each in looked.output}))
    source, query = found[0].source, clock_query(found[0].source, uses[0].window)
    lateness_ms = max([definition.options.lateness_ms, *(each.options.lateness_ms + BEHIND_MS for each in found)])
    return replace(
        definition,
        source=source,
        query=query,
        options=replace(definition.options, lateness_ms=lateness_ms),
        joined=Joined(query=definition.joined.query, uses=tuple(uses)),
    )


async def _look(read: Read, ask: Ask) -> Looked:
    part = first_part(read.job)
    try:
        value, _ = await ask(part.key, Describe(part.app), ASK_MS)
    except UnknownJobError as error:
        raise refused(read.node, str(error)) from None
    try:
        return msgspec.convert(value, Looked)
    except msgspec.ValidationError as error:
        raise UnavailableError(f"the master of {read.job} tells what is no job: {error}") from None
