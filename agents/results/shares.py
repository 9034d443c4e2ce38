"""What one part of a job answers when another agent puts the shares of all parts together.

Differs from OVERLAY 6.3, where part 0 collects the news of the others: here nobody has to. Whoever is asked, asks all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from elf.agents.completeness.label import Label
from elf.agents.completeness.overflows import NONE, Overflows
from elf.agents.errors import UnavailableError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan
from elf.agents.master.results import Span
from elf.agents.master.share import Share
from elf.agents.wire.records import JobRecord
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
    #: Of some of these, or of some that it waits for, no line is read, for nobody knows what they are.
    is_unread: bool = False
    #: Empty, even of columns, where the first part counts the window by another version.
    columns: list[list[Any]]
    #: Of values that do not fit into their types.
    overflows: Overflows = NONE

    @classmethod
    def of(cls, job: JobRecord, share: Share) -> Shared:
        """Pack a share of a job; `job` may have been changed since, but has the version that the share is of."""
        return cls(
            job=job,
            span=share.span,
            through_ms=share.through_ms,
            edition=share.edition,
            version=share.plan.definition.version,
            label=share.label,
            gaps=share.gaps,
            names=share.names,
            is_unread=share.is_unread,
            columns=[] if share.rows is None else pack_rows(share.rows),
            overflows=share.overflows,
        )

    def share(self, plan: Plan, *, first: bool) -> Share:
        """Unpack it; the `first` part has to have rows. Raises UnavailableError where they are none of the plan."""
        return Share(
            plan=plan,
            edition=self.edition,
            span=self.span,
            rows=unpack_rows(self.columns, shape_of(plan)) if first or self.columns else None,
            label=self.label,
            gaps=self.gaps,
            through_ms=self.through_ms,
            names=self.names,
            is_unread=self.is_unread,
            overflows=self.overflows,
        )

    @property
    def definition(self) -> Definition:
        """That of the version that counts the window; raises UnavailableError where the job has none such."""
        found = (each.definition for each in self.job.history if each.number == self.version)
        definition = next(found, None)
        if definition is None:
            key = self.job.definition.key
            raise UnavailableError(f"another agent sent a share of a version that {key} never had")
        return definition


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


def common_span(shares: Sequence[Shared]) -> Span | None:
    """Return the window that stands for all: of the parts that have begun, that of the one that is furthest behind."""
    begun = [each for each in shares if each.through_ms is not None]
    return min(begun or shares, key=lambda each: each.through_ms or 0).span
