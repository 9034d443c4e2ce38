"""Results as they leave the master. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec
import polars as pl

from elf.agents.completeness.label import Label
from elf.agents.completeness.overflows import NONE, Overflows
from elf.agents.completeness.statement import stated
from elf.agents.jobs.plan import Plan
from elf.agents.language.json_rows import json_rows
from elf.agents.wire.positions import Json


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A window of event time, half-open, in ms."""

    start_ms: int
    end_ms: int


class Result(msgspec.Struct, frozen=True):
    """One answer: JSON-ready, with rows as dictionaries in output order."""

    window: Json | None
    through_ms: int | None
    columns: list[Json]
    rows: list[Json]
    completeness: Json
    #: The version of the job that the window's last interval is counted by.
    version: int
    #: Of a job that reads its last result: whether this one is the same, and has rows.
    converged: bool | msgspec.UnsetType = msgspec.UNSET


def is_awaited(plan: Plan, labels: Sequence[Label], roster: Collection[str]) -> bool:
    """Tell whether panes lack data that the agents of one side may still bring; None of it is if the job drops it."""
    options = plan.definition.options
    if options.availability != "partial" or options.straggler in ("drop", "void"):
        return False
    return any(agent in roster for label in labels for agent in label.missing)


def completeness_of(
    plan: Plan,
    span: Span | None,
    label: Label,
    gaps: int,
    through_ms: int | None,
    names: Callable[[str], str],
    awaited: bool = False,
    overflows: Overflows = NONE,
    *,
    is_unread: bool = False,
) -> Json:
    """Render a label, and the number of gaps that touch the window, as the API has them; a lost pane is a gap.

    `awaited`: the job wants results of one side only, and this is one: agents that it lacks may still bring their data.
    `overflows`: values that the result lacks. `is_unread`: as for `stated`.
    """
    closed = span is not None and through_ms is not None and span.end_ms <= through_ms
    return stated(
        label,
        gaps,
        names,
        plan.definition.options.semantics,
        begun=through_ms is not None,
        closed=closed,
        awaited=awaited and (closed or span is None),
        overflows=overflows,
        is_unread=is_unread,
    )


def result_of(plan: Plan, span: Span | None, rows: pl.DataFrame, through_ms: int | None, completeness: Json) -> Result:
    """Render rows and a label that was rendered as the API's Result."""
    return Result(
        window=None if span is None else {"start_ms": span.start_ms, "end_ms": span.end_ms},
        through_ms=through_ms,
        columns=[{"name": name, "type": kind.ddl} for name, kind in plan.output],
        rows=json_rows(rows),
        completeness=completeness,
        version=plan.definition.version,
    )
