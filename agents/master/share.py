"""What one part of a job has of a window, and the answer that the shares of all its parts make. Pure.

Of most jobs there is one part, whose share is the answer. The parts of a job have no key in common
(`elf.cbt.partitions`), so each filters, sorts and cuts its own rows, and whoever was asked merges sorted rows: of a top
ten over a million keys each part sends ten. A part says of itself what a job with one tree says of itself; together
they are as complete as the least complete of them. DESIGN section 6: a label may be pessimistic, never optimistic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label, join_trees
from elf.agents.completeness.overflows import NONE, Overflows
from elf.agents.jobs.plan import Plan
from elf.agents.master.results import Result, Span, completeness_of, result_of
from elf.agents.wire.positions import Json


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One part's share of a result.

    Attributes:
        plan: of the version of the job that the window is counted by.
        edition: of the part.
        span: the window; None for a job without.
        rows: as `Plan.ranked` makes them; None where the first part counts the window by another version.
        label: of this part.
        gaps: that touch the window.
        through_ms: how far the part has come; None before its first commit.
        names: agent id -> name, of those that are missing.
        is_unread: of some of these, or of some that it waits for, no line is read, for nobody knows what they are.
        awaited: agents that it lacks may still bring their data, and the job wants such results to say so.
        converged: of a job that reads its last result, whether that is the same.
        overflows: values that are not in the rows, for they do not fit into their types.
    """

    plan: Plan
    edition: int
    span: Span | None
    rows: pl.DataFrame | None
    label: Label
    gaps: int
    through_ms: int | None
    names: Mapping[str, str]
    is_unread: bool = False
    awaited: bool = False
    converged: bool | None = None
    overflows: Overflows = NONE


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered of one window.

    Attributes:
        plan: of the version of the job that the window is counted by.
        span: the window; None for a job without.
        rows: sorted and limited as the query says, under the names of its columns.
        through_ms: how far all parts have come; None where one has not begun.
        completeness: the label as the API has it.
        converged: of a job that reads its last result, whether that is the same.
    """

    plan: Plan
    span: Span | None
    rows: pl.DataFrame
    through_ms: int | None
    completeness: Json
    converged: bool | None = None

    @classmethod
    def of(cls, shares: Sequence[Share], limit: int | None = None) -> Answer:
        """Put the shares of one window together; the first one has rows, and says by which version they are counted."""
        first = shares[0]
        label = first.label if len(shares) == 1 else join_trees([each.label for each in shares])
        names = {agent: name for each in shares for agent, name in each.names.items()}
        through_ms = least_through([each.through_ms for each in shares])
        gaps = max(each.gaps for each in shares)
        return cls(
            plan=first.plan,
            span=first.span,
            rows=first.plan.join([each.rows for each in shares if each.rows is not None], limit),
            through_ms=through_ms,
            completeness=completeness_of(
                first.plan,
                first.span,
                label,
                gaps,
                through_ms,
                lambda agent: names.get(agent, agent),
                first.awaited,
                Overflows.joined([each.overflows for each in shares]),
                is_unread=any(each.is_unread for each in shares),
            ),
            converged=first.converged,
        )

    def result(self) -> Result:
        """Return it as the API has it."""
        result = result_of(self.plan, self.span, self.rows, self.through_ms, self.completeness)
        return result if self.converged is None else replace(result, converged=self.converged)


def least_through(throughs: Sequence[int | None]) -> int | None:
    """Return the event time that all parts have come to, given that of each; None if one has not begun."""
    return None if None in throughs else min(through for through in throughs if through is not None)
