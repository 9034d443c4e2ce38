"""Which of a job's panes changed after their commit, and what a follower that knows an edition is to be sent.

Every commit is an edition of the job. The labels of panes say which edition changed them last, so that a master that
starts again, or a copy of it, tells followers the same (`elf.agents.master.emission` has the rules).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from elf.agents.jobs.versions import Versions
from elf.agents.language.query import Window
from elf.agents.master.emission import Batch, closed, is_due, joined, revised, still_open
from elf.agents.master.epochs import Epoch
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change
from elf.agents.master.results import Span
from elf.overlay.contract import NEVER

#: Panes whose label is changed at a time because somebody says that something may be missing; of more, the newest.
TOLD_MAX = 1_000
#: Changes of panes that are gone, or have changed since, beside two for each pane; with more, all are found anew.
FORGOTTEN_MAX = 64


class _Changed(NamedTuple):
    """Intervals of a pane, both ends included, that changed after their commit."""

    edition: int
    key: int
    first: int
    last: int


class News:
    """What is new of one job.

    Args:
        versions: of the job.
        labels: of its panes.
        edition: the job's now.
    """

    __slots__ = ("_changed", "_early", "_kept", "_labels", "versions")

    def __init__(self, versions: Versions, labels: Labels, edition: int) -> None:
        self.versions = versions
        self._labels = labels
        #: What changed after its commit, ascending; some panes are gone or have changed since.
        self._changed = self._known()
        #: How many of these there were when what is gone was last forgotten.
        self._kept = len(self._changed)
        #: The edition in which what is open was last due.
        self._early = edition

    def stamp(self, change: Change, edition: int, told: list[tuple[int, int]]) -> None:
        """Mark the labels of panes whose windows say something else after a change than before.

        Args:
            change: what a commit changes.
            edition: the commit's.
            told: runs of intervals, both ends included, that are known only now to lack something.
        """
        late: dict[int, list[tuple[int, int]]] = {}
        for first, last, _ in change.late:
            for key in self._labels.holding(first, first):
                late.setdefault(key, []).append((first, last))
        # Key -> whether more changes of it than the intervals that late rows are of.
        changed: dict[int, bool] = {}
        for key, label in change.labels.items():
            was = self._labels.get(key)
            if was is not None and label.revision > was.revision:
                changed[key] = label != replace(was, revision=was.revision + len(late.get(key, ())))
        for first, last in told:
            changed |= dict.fromkeys(list(self._labels.holding(first, last))[-TOLD_MAX:], True)
        for key in changed.keys() - set(change.gone):
            label = before = change.labels.get(key) or self._labels[key]
            for first, last in late.get(key, ()):
                label = label.changed_at(first, last, 1)
            if changed[key]:
                label = label.changed_at(*label.run, 0)
            runs = [(first, last) for first, last, _ in set(label.changed_in).difference(before.changed_in)]
            change.changed_in[key] = [label.run] if changed[key] or not runs else sorted(runs)
            change.labels[key] = label.changed_by(edition)

    def committed(
        self, change: Change, edition: int, every_ms: int | None, before_ms: int | None, through_ms: int
    ) -> None:
        """Note a change that has become durable; the job, with its `emit_every`, came from a time to another."""
        self._note(change, edition)
        if is_due(every_ms, before_ms, through_ms):
            self._early = edition

    def loaded(self, change: Change, edition: int) -> None:
        """Note panes that were loaded from the archive."""
        self._note(change, edition)

    def _known(self) -> list[_Changed]:
        known = (label for label in self._labels.all() if label.changed)
        return sorted(
            _Changed(label.changed, label.through, first, last)
            for label in known
            for first, last, _ in label.changed_in or [(*label.run, 0)]
        )

    def _note(self, change: Change, edition: int) -> None:
        """Note what has changed in an edition, mostly the newest yet. O(changes), O(panes) now and then."""
        found = sorted(
            _Changed(edition, key, *run)
            for key, label in change.labels.items()
            if label.changed == edition
            for run in change.changed_in.get(key, [label.run])
        )
        in_place = not (found and self._changed) or self._changed[-1] < found[0]
        if in_place:
            self._changed += found
        else:
            self._changed = sorted({*self._changed, *found})
        if len(self._changed) > FORGOTTEN_MAX + 2 * max(self._kept, len(self._labels)):
            self._changed = self._known()
            self._kept = len(self._changed)

    def of(
        self,
        edition: int | None,
        after_ms: int,
        most: int,
        latest: Span | None,
        known_ms: tuple[int, int],
        epochs: Sequence[Epoch],
        other: Window | None = None,
    ) -> tuple[list[Span | None], Batch, Batch]:
        """Return what a follower is to be sent.

        Args:
            edition: what it knows; None makes this its first question.
            after_ms: it has been sent all windows that closed up to here.
            most: of windows that closed and of windows that changed.
            latest: the newest window that has closed.
            known_ms: the event time from which on windows are retained, and that of the last commit's end.
            epochs: of the job, up to the next interval.
            other: the windows of a job that reads this one, which are told of instead of its own, and not while open.

        Returns:
            Windows, those that changed first; then, of these and of those that closed, what is not sent.
        """
        plan, none = epochs[-1].plan, Batch([])
        every_ms = plan.definition.options.emit_every_ms if other is None else None
        is_early = every_ms is not None and (edition is None or self._early > edition)
        if other is None and plan.window is None:
            return ([None] if every_ms is None or is_early or edition is None else []), none, none
        since_ms, through_ms = known_ms
        oldest = self._labels[self._labels.oldest()] if self._labels else None
        start_ms = after_ms if oldest is None else max(after_ms, self.versions.start_ms(oldest.through))
        runs = [] if edition is None else self._runs_since(edition, through_ms, iterates=plan.iterating is not None)
        changes, ends = [], []
        for epoch in epochs:
            window, (from_ms, until_ms) = other or epoch.plan.window, (epoch.start_ms, min(epoch.until_ms, through_ms))
            assert window is not None
            ends.append(closed(window, max(start_ms, from_ms), until_ms, most))
            first_ms = max(since_ms, from_ms - window.size_ms + 1)
            changes.append(revised(window, runs, first_ms, min(after_ms, until_ms), most))
        changed, ended = joined(changes, most), joined(ends, most)
        spans: list[Span | None] = [*changed.spans, *ended.spans]
        if edition is None:
            spans, changed, ended = [*ended.spans] or [latest], none, none
        if is_early and plan.window is not None and (span := still_open(plan.window, through_ms)) is not None:
            spans.append(span)
        return spans, changed, ended

    def _runs_since(self, edition: int, through_ms: int, *, iterates: bool) -> list[tuple[int, int]]:
        """Return runs of event time, in ms, whose panes changed after this edition.

        Where each result follows from the one before (`iterates`), all later ones have changed, too.
        """
        runs: list[tuple[int, int]] = []
        for each in self._changed[bisect_left(self._changed, (edition + 1, NEVER)) :]:
            label = self._labels.get(each.key)
            # What changed once more is told by that change, but for panes of which it may be another interval.
            if label is not None and (label.changed == each.edition or label.previous + 1 != label.through):
                end_ms = self.versions.end_ms(each.last)
                end_ms = max(end_ms, through_ms) if iterates else end_ms
                runs.append((self.versions.start_ms(each.first), end_ms))
        return runs
