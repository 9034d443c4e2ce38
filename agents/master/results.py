"""Results and their completeness labels, as they leave the master (DESIGN section 6, last line).

Pure. A label may be pessimistic, never optimistic: what is missing, late, left out or lost in any pane of a window is
named or counted in the window's label, and only a window with none of these is `final`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import polars as pl
from msgspec.structs import replace

from elf.agents.errors import IncompleteError
from elf.agents.jobs.plan import Plan
from elf.agents.wire.positions import Json
from elf.agents.wire.result import json_value
from elf.agents.worker.runs import RunsAfter


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A window of event time, half-open, in ms."""

    start_ms: int
    end_ms: int


class Label(msgspec.Struct, frozen=True):
    """What is known about the commit of the intervals (previous, through]; `missing` are agent ids."""

    previous: int
    through: int
    expected: int
    missing: tuple[str, ...] = ()
    late: int = 0
    #: Rows (keys, not events) that agents brought of an interval that was backfilled: they are left out.
    shed: int = 0
    revision: int = 0
    #: Intervals whose data was dropped everywhere, because somebody's was missing.
    void: int = 0
    #: Panes whose rows, or whose own label, a damaged disk has lost.
    damaged: int = 0
    #: The master's edition that last changed the pane after its commit; 0: none has.
    changed: int = 0
    #: Of a window: its intervals that were computed from the agents' archives. Panes have none: the master knows them.
    backfilled: int = 0
    #: Lines that were no events, as of the commit that brought them: nobody knows of which interval they are.
    rejected: int = 0

    def revised(self) -> Label:
        """Count one more change after the commit."""
        return replace(self, revision=self.revision + 1)

    def changed_by(self, edition: int) -> Label:
        """Note which edition of the job changed the pane last."""
        return replace(self, changed=edition)

    def found(self, agent: str) -> Label:
        """Strike an agent off the missing list: its data has come."""
        return replace(self, missing=tuple(m for m in self.missing if m != agent), revision=self.revision + 1)

    @property
    def is_void(self) -> bool:
        """Whether all of its intervals count nothing."""
        return 0 < self.void == self.through - self.previous

    def alike(self, other: Label) -> bool:
        """Whether two commits say the same, apart from when, and as much of each interval as of all of them."""
        same = replace(self, previous=other.previous, through=other.through, void=other.void) == other
        counts = self.late or self.shed or self.damaged or self.rejected
        return same and not counts and (self.void == other.void == 0 or (self.is_void and other.is_void))

    def within(self, first: int, last: int) -> Label:
        """Return what it says of those of its intervals that lie between two, both included, as far as is known."""
        return replace(self, void=min(self.through, last) - max(self.previous, first - 1)) if self.is_void else self

    def extended(self, later: Label) -> Label:
        """Join a later commit of a cumulative job to this one."""
        return replace(
            self,
            through=later.through,
            expected=max(self.expected, later.expected),
            missing=tuple(sorted({*self.missing, *later.missing})),
            late=self.late + later.late,
            shed=self.shed + later.shed,
            void=self.void + later.void,
            damaged=self.damaged + later.damaged,
            rejected=self.rejected + later.rejected,
        )


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


def join(labels: Sequence[Label]) -> Label:
    """Join the labels, at least one, of panes that follow each other."""
    return Label(
        previous=labels[0].previous,
        through=labels[-1].through,
        expected=max(label.expected for label in labels),
        missing=tuple(sorted({agent for label in labels for agent in label.missing})),
        late=sum(label.late for label in labels),
        shed=sum(label.shed for label in labels),
        revision=sum(label.revision for label in labels),
        void=sum(label.void for label in labels),
        damaged=sum(label.damaged for label in labels),
        rejected=sum(label.rejected for label in labels),
    )


def label_of(
    labels: Sequence[Label],
    roster: Collection[str],
    partial: Collection[str],
    lost: Mapping[str, RunsAfter],
    first: int,
    last: int | None,
) -> Label:
    """Join the labels of a window's panes, and name the agents that do not have all of the window's events.

    Args:
        labels: of the panes, ascending.
        roster: the agents expected now, for a window without panes.
        partial: agents that began within it, or after it.
        lost: agent -> runs of intervals, (after, through], whose data it may have lost.
        first: the window's first interval.
        last: its last; None: all there are.
    """
    within = {
        agent
        for agent, runs in lost.items()
        if any(last is None or (after < last and through >= first) for after, through in runs)
    }
    label = join(labels) if labels else Label(first - 1, first, len(roster))
    return replace(label, previous=first - 1, missing=tuple(sorted({*partial, *within, *label.missing})))


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
) -> Json:
    """Render a label, and the number of gaps that touch the window, as the API has them; a lost pane is a gap.

    `awaited`: the job wants results of one side only, and this is one: agents that it lacks may still bring their data.
    """
    gaps += label.damaged
    closed = span is not None and through_ms is not None and span.end_ms <= through_ms
    lacking = bool(label.missing or label.shed or label.void or gaps)
    status = "open" if not closed else "final_incomplete" if lacking else "revised" if label.revision else "final"
    if awaited and (closed or span is None):
        status = "partial"
    completeness: Json = {
        "expected": label.expected,
        # Of agents that come and go more may be missing than were ever expected at a time.
        "reported": 0 if through_ms is None else max(0, label.expected - len(label.missing)),
        "missing": [names(agent) for agent in label.missing],
        "late": label.late,
        "shed": label.shed,
        "rejected": label.rejected,
        "gaps": gaps,
        "void": label.void,
        "revision": label.revision,
        "status": status,
        "semantics": plan.definition.options.semantics,
    }
    if label.backfilled:
        completeness["backfilled"] = label.backfilled
    return completeness


def result_of(plan: Plan, span: Span | None, rows: pl.DataFrame, through_ms: int | None, completeness: Json) -> Result:
    """Render rows and a label that was rendered as the API's Result."""
    return Result(
        window=None if span is None else {"start_ms": span.start_ms, "end_ms": span.end_ms},
        through_ms=through_ms,
        columns=[{"name": name, "type": kind.ddl} for name, kind in plan.output],
        rows=[{name: json_value(value) for name, value in row.items()} for row in rows.to_dicts()],
        completeness=completeness,
        version=plan.definition.version,
    )


def require_complete(job: str, completeness: Json) -> None:
    """Refuse a result that lacks anything it should have, or whose window is still open.

    Raises:
        IncompleteError: its text says what is lacking.
    """
    status = completeness["status"]
    if status in ("final", "revised"):
        return
    reported = f"{completeness['reported']} of {completeness['expected']} agents reported"
    states = {"open": "its window is open", "partial": "it is one side's of a job whose agents are split"}
    facts = [states.get(status, "its window is closed"), reported]
    if completeness["missing"]:
        facts.append(f"missing: {', '.join(completeness['missing'])}")
    facts += [
        f"{what}: {completeness[what]}" for what in ("shed", "rejected", "gaps", "void") if completeness.get(what)
    ]
    raise IncompleteError(f"the result of {job} is not complete ({'; '.join(facts)})")
