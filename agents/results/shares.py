"""What one part of a job answers, and how the answers of all parts become one result.

The parts of a job have no key in common (`elf.cbt.partitions`), so each master filters, sorts and cuts its own rows,
and whoever was asked merges sorted rows: of a top ten over a million keys each part sends ten. A part says of itself
what a job with one tree says of itself; together they are as complete as the least complete of them. DESIGN section 6:
a label may be pessimistic, never optimistic.

Differs from OVERLAY 6.3, where part 0 collects the news of the others: here nobody has to. Whoever is asked, asks all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label
from elf.agents.errors import JobError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.jobs.plan import Plan
from elf.agents.language.query import Window
from elf.agents.master.announcement import FOLLOW_WINDOWS_MAX
from elf.agents.master.master import Found, Master
from elf.agents.master.results import Json, Span
from elf.agents.master.spans import resolve
from elf.agents.wire.requests import JobRecord
from elf.agents.wire.shares import Share, Watch
from elf.cbt import partitions_of

#: Errors of Polars at values that do not fit.
_MISFITS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OverflowError)


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """One part's share of a result: its rows by column, in physical values, and what its label is made of."""

    job: JobRecord
    span: Span | None
    through_ms: int | None
    edition: int
    #: The version of the job that the window is counted by.
    version: int
    label: Label
    gaps: int
    #: agent id -> name, of those that are missing.
    names: Mapping[str, str]
    #: Empty, even of columns, where the first part counts the window by another version.
    columns: list[list[Any]]


class Rest(msgspec.Struct, frozen=True):
    """A run of windows that a follower is not sent one by one, and how many there are."""

    span: Span
    count: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is new of one part: windows that closed, changed, or are due while open, and how far it is."""

    job: JobRecord
    edition: int
    through_ms: int | None
    spans: list[Span | None] = []
    #: Older windows that changed or closed too, by the word that results have for them.
    rests: Mapping[str, Rest] = {}


# ---- the master's side


async def share(masters: Masters, request: Share) -> Json:
    """Answer one window of a part mastered here; errors as `Master.find`."""
    master = masters.master(request.app)
    span = Span(*request.span) if request.span is not None else resolve(master, request.window)
    found, columns = await asyncio.to_thread(_find, master, span, request)
    shared = Shared(
        # Now only: it may have been changed since, but it has the version that was found.
        job=masters.job(request.app),
        span=span,
        through_ms=found.through_ms,
        edition=found.edition,
        version=found.by.version.number,
        label=found.label,
        gaps=found.gaps,
        names={agent: masters.name_of(agent) for agent in found.label.missing},
        columns=columns,
    )
    body: Json = msgspec.to_builtins(shared)
    return body


def _find(master: Master, span: Span | None, request: Share) -> tuple[Found, list[list[Any]]]:
    found = master.find(span, request.key)
    if request.version not in (None, found.by.version.number):
        rollup = master.state.rollup
        # Who is expected no more may have brought some of what is left out.
        everybody = tuple(sorted({*found.label.missing, *rollup.roster, *rollup.retired}))
        return found._replace(label=replace(found.label, expected=len(everybody), missing=everybody)), []
    bounds = None if span is None else (span.start_ms, span.end_ms)
    return found, pack_rows(found.by.plan.ranked(found.paos, bounds, request.limit))


async def watch(masters: Masters, request: Watch, wait_ms: int) -> Json:
    """Wait for another edition of a part mastered here; return what it brings a follower.

    Raises:
        UnknownJobError: it is not mastered here.
        JobError: a job that reads it asks for windows, and it has none.
    """
    if request.window is not None and masters.master(request.app).plan.window is None:
        raise JobError(f"{masters.job(request.app).definition.key} has no window now: it was published anew")
    job, master = masters.job(request.app), await masters.changed(request.app, request.edition, wait_ms)
    if master is None:
        known = masters.master(request.app)
        body: Json = msgspec.to_builtins(Told(job=job, edition=request.edition, through_ms=known.through_ms))
        return body
    body = msgspec.to_builtins(await asyncio.to_thread(_told, job, master, request))
    return body


def _told(job: JobRecord, master: Master, request: Watch) -> Told:
    other = None if request.window is None else Window(*request.window)
    while True:
        edition, through_ms = master.edition, master.through_ms
        spans, changed, closed = master.news(request.edition, request.after_ms, FOLLOW_WINDOWS_MAX, other)
        if master.edition != edition:
            continue  # what closed with the commit that came between might be passed over
        named = (("also_revised", changed), ("also_closed", closed))
        rests = {name: Rest(batch.rest, batch.rest_count) for name, batch in named if batch.rest is not None}
        return Told(job=job, edition=edition, through_ms=through_ms, spans=spans, rests=rests)


# ---- rows on their way


def pack_rows(ranked: pl.DataFrame) -> list[list[Any]]:
    """Turn rows as `Plan.ranked` makes them into values that msgpack has, by column."""
    return [column.to_physical().to_list() for column in ranked.get_columns()]


def unpack_rows(columns: Sequence[Sequence[Any]], shape: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the rows that `pack_rows` made these columns of.

    Raises:
        UnavailableError: they are no such columns: the other agent's fault.
    """
    try:
        series = [
            pl.Series(name, values, dtype=pl.Series(dtype=dtype).to_physical().dtype, strict=True).cast(dtype)
            for values, (name, dtype) in zip(columns, shape.items(), strict=True)
        ]
        return pl.DataFrame(series)
    except _MISFITS as error:
        raise UnavailableError(f"another agent sent rows that are none of this job: {error}") from None


def shape_of(plan: Plan) -> Mapping[str, pl.DataType]:
    """Return the columns of a plan's rows, as `Plan.ranked` makes them."""
    empty = plan.grouped.empty().drop("interval")
    return dict(plan.ranked(empty, None if plan.window is None else (0, 1)).schema)


# ---- the asker's side


def part_of_key(plan: Plan, key: str) -> int | None:
    """Return the part that has a key; None where several may: only the text of its first column is known."""
    if len(plan.schema.keys) != 1:
        return None
    name, dtype = plan.schema.keys[0]
    try:
        value = pl.Series(name, [key]).cast(dtype, strict=False)
    except pl.exceptions.PolarsError:
        return None
    if value.cast(pl.String)[0] != key:
        return None
    frame = pl.DataFrame([pl.Series("interval", [0], dtype=pl.Int64), value])
    return int(partitions_of(frame, plan.schema, plan.definition.options.trees)[0])


def least_through(throughs: Sequence[int | None]) -> int | None:
    """Return the event time that all parts have come to, given that of each; None if one has not begun."""
    return None if None in throughs else min(through for through in throughs if through is not None)


def common_span(shares: Sequence[Shared]) -> Span | None:
    """Return the window that stands for all: of the parts that have begun, that of the one that is furthest behind."""
    begun = [each for each in shares if each.through_ms is not None]
    return min(begun or shares, key=lambda each: each.through_ms or 0).span
