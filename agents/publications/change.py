"""What people ask of a running job, made into a question for its master: a new definition typed and checked first."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from elf.agents.errors import JobConflictError, JobError, JobSpecError, UnavailableError
from elf.agents.jobs.definition import Definition, changed_options
from elf.agents.jobs.intervals import interval_ms_of, numbering_of
from elf.agents.jobs.orders import Order
from elf.agents.jobs.parts import Part
from elf.agents.language.durations import duration
from elf.agents.language.joins import reads_jobs
from elf.agents.language.query import columns_read, outline_of
from elf.agents.master.listing import definition_of
from elf.agents.wire.changes import Amend, Kind, Number
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Describe

#: Deciding and making durable takes milliseconds; a root that moves takes a second.
AMEND_MS = 10_000
#: Another master follows a lost one within a second or two.
PATIENCE_S, RETRY_S = 5.0, 0.2
#: A change of a part of a definition begins with what others have made of it meanwhile.
TRIES = 16


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change as people ask for it.

    Attributes:
        change: what kind of change.
        definition: of an update: the text of a job file that takes the place of the definition.
        filename: that file's name.
        query: of an update: only the query is another.
        options: of an update: only these options are others, as `[options]` has them.
        version: of a rollback: the version to go back to; None: the one before the newest.
        expected: the number that the newest version has to have; None: any.
    """

    change: Kind
    definition: str | None = None
    filename: str = "job.toml"
    query: str | None = None
    options: Mapping[str, str | int] = {}
    version: Number | None = None
    expected: Number | None = None


class Typing(Protocol):
    """Reads definitions and gives their columns types, as when they are published (`publisher.Publisher`)."""

    async def load(self, text: str, filename: str, name: str | None, creator: str | None) -> Definition:
        """Read the text of a job's file."""

    async def typed(self, definition: Definition) -> Definition:
        """Return it with a type for each column that it reads."""


class Changing:
    """Changes jobs on behalf of one agent.

    Args:
        ask: asks a job's master.
        typing: knows the sources.
        rng: draws what tells one change from the next.
    """

    def __init__(
        self,
        ask: Callable[[str, Any, int], Awaitable[tuple[Any, list[str]]]],
        typing: Typing,
        rng: random.Random,
    ) -> None:
        self._ask = ask
        self._typing = typing
        self._rng = rng

    async def change(self, creator: str, name: str, wanted: Wanted, order: Order | None = None) -> Json:
        """Have a job's master make another version; returns it as the job's history has it.

        `note` beside it says which option that was not named the new query could not keep, if there is one.

        Raises:
            UnknownJobError: there is no such job.
            JobSpecError: the new definition cannot run as written, or not from where the job is.
            JobConflictError: it has another newest version than expected, or is paused.
            NotCreatorError: the order is none of its creator's.
        """
        app, key = Part(creator, name).app, f"{creator}/{name}"
        for number in range(TRIES):
            token = self._rng.randbytes(8).hex()
            definition, expected, note = None, wanted.expected, ""
            if wanted.change == "update":
                described = await self._answered(key, Describe(app))
                current = definition_of(described)
                definition = await self._updated(current, wanted)
                note = _dropped(current, definition) if wanted.definition is None else ""
                # What is left as it was is of this version.
                expected = current.version if expected is None and wanted.definition is None else expected
            try:
                request = Amend(app, wanted.change, token, definition, wanted.version, expected, order=order)
                answer = await self.amend(key, request)
            except JobConflictError:
                if wanted.expected is not None or expected is None or number == TRIES - 1:
                    raise
            else:
                return {**answer, "note": note} if note else answer
        raise AssertionError("the last try returns or raises")

    async def amend(self, key: str, request: Amend) -> Json:
        """Have a job's master make another version, once; returns it as the job's history has it."""
        made: Json = await self._answered(key, request)
        return made

    async def _answered(self, key: str, request: Describe | Amend) -> Any:
        """Ask a job's master until it answers, or has not for a while: it may be lost, and another one follow."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + PATIENCE_S
        while True:
            try:
                answer, _ = await self._ask(key, request, AMEND_MS)
            except UnavailableError:
                if loop.time() > end_s:
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                return answer

    async def _updated(self, current: Definition, wanted: Wanted) -> Definition:
        """Return the definition that an update asks for, typed."""
        if current.joined is not None:
            raise JobError(f"{current.key} reads other jobs; change those, or stop it and publish it anew")
        if wanted.definition is not None:
            if wanted.query is not None or wanted.options:
                raise JobError("give either a whole definition, or a query and options")
            new = await self._typing.load(wanted.definition, wanted.filename, current.name, current.creator)
            if new.creator != current.creator:
                raise JobError(f"the file is of job {new.key}, not of {current.key}")
        elif wanted.query is None and not wanted.options:
            raise JobError("an update needs a new definition, a query or options")
        else:
            options = changed_options(current.options, wanted.options)
            new = replace(current, query=current.query if wanted.query is None else wanted.query, options=options)
        chooses = "interval" in wanted.options if wanted.definition is None else new.options.interval_ms is not None
        if reads_jobs(new.text):
            raise JobSpecError("a running job cannot become one over other jobs", hint="publish that as another job")
        source = outline_of(new.query).source
        if source != current.source:
            message = f"the job reads {current.source!r}, and the new query {source!r}"
            raise JobSpecError(message, hint="publish that as another job")
        known = {each.lower(): (each, kind) for each, kind in {**current.columns, **new.columns}.items()}
        if not chooses:
            new = _with_intervals(new, numbering_of(current).length_ms)
        # Types stay as they were frozen, whatever logs have shown since.
        kept = dict(known[each.lower()] for each in columns_read(new.query) if each.lower() in known)
        return await self._typing.typed(replace(new, columns=kept))


def _with_intervals(definition: Definition, interval_ms: int) -> Definition:
    """Return a definition that does not choose its intervals with some as long as the job's, where that is possible.

    PAOs may stay as they are then, and windows go on. Else they are as long as its window asks for.
    """
    options, window = definition.options, outline_of(definition.query).window
    natural_ms = interval_ms_of(replace(definition, options=replace(options, interval_ms=None)), window)
    if natural_ms % interval_ms == 0:
        kept = options.interval_ms if natural_ms == interval_ms else interval_ms
        return replace(definition, options=replace(options, interval_ms=kept))
    return definition if window is None else replace(definition, options=replace(options, interval_ms=None))


def _dropped(before: Definition, after: Definition) -> str:
    """Say that an update had to drop the option `interval`, if it had: `elf history` would be the only one to tell."""
    was_ms = before.options.interval_ms
    if was_ms is None or after.options.interval_ms is not None:
        return ""
    now_ms = numbering_of(after).length_ms
    return (
        f"its option interval ({duration(was_ms)}) does not divide the new window and is dropped: intervals are "
        f"{duration(now_ms)} long now; set another one with --set interval=..."
    )
