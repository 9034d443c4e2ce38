"""Labels: what is known of how complete some rows are, and the three ways in which labels are joined. Pure.

A label may be pessimistic, never optimistic: what is missing, late, left out or lost in any part of a result is named
or counted in the result's label. DESIGN section 6, last line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from elf.agents.completeness.lacks import Lacks
from elf.agents.completeness.tallies import Counts, most, summed
from elf.overlay.contract import NEVER

#: A pane's label tells so many runs of changed intervals apart: more than follow each other in an idle time.
RUNS_MAX = 16


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
    #: Lines that the agents which had rejected some have read meanwhile, events or not; 0: nobody said.
    lines: int = 0
    #: Commits that brought some agent's share of rejected lines, and it was more than a few.
    misread: int = 0
    #: Values that do not fit their columns' types, and are null.
    mistyped: Counts = ()
    #: Runs of intervals that changed after the commit, (first, last, times), of a pane that has several intervals; what
    #: else `revision` counts, all of them changed by. Runs may overlap.
    changed_in: tuple[tuple[int, int, int], ...] = ()

    def revised(self) -> Label:
        """Count one more change after the commit."""
        return replace(self, revision=self.revision + 1)

    def changed_by(self, edition: int) -> Label:
        """Note which edition of the job changed the pane last."""
        return replace(self, changed=edition)

    def changed_at(self, first: int, last: int, times: int) -> Label:
        """Note which intervals changed; `times`: how many of the changes that `revision` counts were of no others."""
        if self.previous + 1 == self.through:
            return self
        runs = {(begin, end): count for begin, end, count in self.changed_in}
        runs[first, last] = runs.get((first, last), 0) + times
        known = [(begin, end, count) for (begin, end), count in sorted(runs.items())]
        if len(known) > RUNS_MAX:
            # Those two that say least of others when they are said in one.
            at = min(range(1, len(known)), key=lambda at: max(known[at - 1][1], known[at][1]) - known[at - 1][0])
            (begin, end, count), (_, other_end, other_count) = known[at - 1 : at + 1]
            known[at - 1 : at + 1] = [(begin, max(end, other_end), count + other_count)]
        return replace(self, changed_in=tuple(known))

    @property
    def run(self) -> tuple[int, int]:
        """The first and the last interval; of a run without a beginning, the first that is known to have changed."""
        beginless = self.previous == NEVER
        first = min([self.through, *(first for first, _, _ in self.changed_in)]) if beginless else self.previous + 1
        return first, self.through

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
        counts = self.late or self.shed or self.damaged or self.rejected or self.mistyped
        return same and not counts and (self.void == other.void == 0 or (self.is_void and other.is_void))

    def within(self, first: int, last: int) -> Label:
        """Return what it says of those of its intervals that lie between two, both included, as far as is known."""
        void = min(self.through, last) - max(self.previous, first - 1) if self.is_void else self.void
        elsewhere = sum(times for begin, end, times in self.changed_in if end < first or last < begin)
        if void == self.void and not elsewhere:
            return self
        return replace(self, void=void, revision=self.revision - elsewhere)

    def cut(self, previous: int, through: int) -> Label:
        """Return the label of a part of the pane: of the intervals (previous, through]."""
        runs = tuple(run for run in self.changed_in if previous < run[1] and run[0] <= through)
        return replace(self.within(previous + 1, through), previous=previous, through=through, changed_in=runs)

    def extended(self, later: Label) -> Label:
        """Join a later commit to this one's pane."""
        return replace(join([self, later]), changed=self.changed)

    def with_mistyped(self, counts: Counts) -> Label:
        """Count more values that do not fit their columns' types."""
        return replace(self, mistyped=summed([self.mistyped, counts]))

    def lacking(self, lacks: Lacks) -> Label:
        """Name those who lack something, too."""
        return replace(self, missing=tuple(sorted(lacks.agents.union(self.missing))))


#: What is added up of panes that follow each other.
_SUMS_ALONG = ("late", "shed", "revision", "void", "damaged", "rejected", "lines", "misread")
#: Of trees: rows left out are each tree's own, of its keys. So are revisions: the result has changed whenever one of
#: them has, and who follows it counts on more.
_SUMS_ACROSS = ("shed", "revision", "damaged")
#: Every tree counts late events of all keys, rejected lines and values that do not fit, so the most that one counts are
#: those that there are. So it is with void intervals: all trees pause together, and miss an agent that is lost
#: together. Where each misses another one, the label says fewer than those that are void in any, but is not final and
#: names them all.
_MOST_ACROSS = ("late", "rejected", "lines", "misread", "void", "changed", "backfilled")


def join(labels: Sequence[Label]) -> Label:
    """Join the labels, at least one, of panes that follow each other. O(labels)."""
    return Label(
        previous=labels[0].previous,
        through=labels[-1].through,
        expected=max(label.expected for label in labels),
        missing=_missing(labels),
        mistyped=summed(label.mistyped for label in labels),
        **{name: sum(map(attrgetter(name), labels)) for name in _SUMS_ALONG},
    )


def join_trees(labels: Sequence[Label]) -> Label:
    """Join the labels of all trees of a job, at least one, of one window. O(labels).

    Every tree's master counts late events of all keys, rejected lines and values that do not fit, so the most that one
    counts are those that there are. So it is with void intervals: all trees pause together, and miss an agent that is
    lost together. Where each misses another one, the label says fewer than those that are void in any, but is not final
    and names them all.
    Rows left out are each tree's own, of its keys. So are revisions: the result has changed whenever one of them has.
    """
    missing = _missing(labels)
    return Label(
        previous=labels[0].previous,
        through=min(label.through for label in labels),
        expected=max(len(missing), *(label.expected for label in labels)),
        missing=missing,
        mistyped=most(label.mistyped for label in labels),
        **{name: sum(map(attrgetter(name), labels)) for name in _SUMS_ACROSS},
        **{name: max(map(attrgetter(name), labels)) for name in _MOST_ACROSS},
    )


def _missing(labels: Iterable[Label]) -> tuple[str, ...]:
    return tuple(sorted({agent for label in labels for agent in label.missing}))
