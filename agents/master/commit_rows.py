"""Filling panes with what a commit brings: each interval's rows into the pane whose run holds it, labels beside them.

Pure but for panes that are read. A commit's run of intervals is one pane, or several where versions of the job change
within it; late rows find the pane of their own interval and raise its revision.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator

import numpy as np
import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import RUNS_MAX, Label
from elf.agents.completeness.tallies import Counts, summed
from elf.agents.jobs.versions import Versions
from elf.agents.master.panes.history import History
from elf.agents.master.panes.past import Change, Late
from elf.agents.master.state import MasterState
from elf.agents.master.version_uptake import paused
from elf.agents.worker.paos import Paos, ascending, by_interval, extent, held
from elf.agents.worker.payload import Notes
from elf.cbt import INTERVAL, PaoSchema
from elf.overlay.contract import NEVER, Commit

#: The key of a cumulative job's only pane.
TOTAL = 0


class Filling:
    """What one commit changes of a job's panes.

    Args:
        history: the job's past.
        versions: of the job.
        commit: the commit.
        notes: what its payload says besides rows.
    """

    def __init__(self, history: History, versions: Versions, commit: Commit, notes: Notes) -> None:
        self._history = history
        self._versions = versions
        self._commit = commit
        self._notes = notes
        self.change = Change()
        #: Key -> end of the run before, of the panes that begin, or go on, with this commit.
        self._opened: dict[int, int] = {}

    def open(self) -> None:
        """Begin the commit's pane, or several where versions change."""
        commit, change = self._commit, self.change
        ends = [*(first - 1 for first in self._versions.boundaries(commit.previous, commit.through)), commit.through]
        for previous, through in zip([commit.previous, *ends], ends, strict=False):
            key = self._open_pane(previous, through)
            self._opened[key] = change.labels[key].previous
        now, before = self._versions.at(commit.through), self._history.current
        if (now.version.begins, now.version.pao_kind) != (before.begins, before.pao_kind):
            change.turn = now

    def _open_pane(self, previous: int, through: int) -> int:
        """Begin the pane of a run, (previous, through], of the commit's; returns its key.

        A cumulative job has a single pane, which every commit extends. An empty commit after an empty commit extends
        that one's run, so that an idle job does not pile up panes. A version that begins anew extends nothing. The
        first pane is not extended: its run has no beginning, and what changed in it would be said of its end only.
        """
        commit, change = self._commit, self.change
        version, plan = self._versions.at(through)
        label = Label(
            previous=previous,
            through=through,
            expected=len(commit.reported) + len(commit.missing),
            missing=commit.missing,
            late=self._notes.late,
            rejected=self._notes.rejected,
            lines=self._notes.lines,
            misread=int(self._notes.misread),
            void=self._voided(previous, through),
        )
        rows, history = plan.schema.empty(), self._history
        newest = max(change.labels, default=None) if change.frames else None
        if newest is None and history.labels:
            newest = history.labels.newest()
        if newest is not None:
            last = change.labels.get(newest) or history.labels[newest]
            if last.through < version.begins:
                pass
            elif plan.window is None:
                label, rows = last.extended(label), history.pane(newest, change)
            elif last.previous == NEVER:
                pass
            elif newest not in change.labels and history.is_empty(newest) and not commit.payload and last.alike(label):
                label = last.extended(label)
                change.extended.append(newest)
        key = TOTAL if plan.window is None else through
        change.labels[key], change.frames[key] = label, rows
        return key

    def _voided(self, previous: int, through: int) -> int:
        """Return how many intervals of a run count nothing; before the first commit there is only one that counts."""
        options = self._versions.at(through).plan.definition.options
        if options.straggler != "void" or not self._commit.missing:
            return paused(self._versions, previous, through)
        return 1 if previous == NEVER else through - previous

    def add(self, paos: Paos, state: MasterState) -> MasterState:
        """Add the commit's rows; returns the master's state with those that nothing can be done with.

        Raises:
            ArithmeticError, ValueError: the rows do not merge.
        """
        for kind, rows in paos.parts:
            plan = self._versions.plan_of(kind)
            assert plan is not None
            if plan.window is not None:
                state = self._add_to_panes(rows, plan.schema, state)
            elif kind == self._versions.at(self._commit.through).version.pao_kind:
                schema, frames = plan.schema, self.change.frames
                frames[TOTAL] = schema.merge([frames[TOTAL], schema.at_zero(rows)])
            else:
                state = replace(state, too_late=state.too_late + _keys_in(rows, plan.schema))
        return state

    def count_mistyped(self) -> None:
        """Count the values that did not fit in the labels of the panes that hold their events.

        Those of a pane that is not retained any more are forgotten with it. A run that lies in several panes counts in
        each of them.
        """
        found: dict[int, list[Counts]] = {}
        for column, runs in self._notes.mistyped.items():
            for first, last, count in runs:
                for key in self._panes_of(first, last):
                    found.setdefault(key, []).append(((column, count),))
        for key, counts in found.items():
            known = self._history.labels.get(key)
            label = self.change.labels.get(key) or self._history.labels[key]
            if label.void and key not in self._opened:
                continue
            is_news = known is not None and key not in self._opened and label.revision == known.revision
            label = label.revised() if is_news else label
            self.change.labels[key] = label.with_mistyped(summed(counts))

    def _panes_of(self, first: int, last: int) -> list[int]:
        """Return the keys of the panes that hold intervals of a run; what is after the commit is taken for its last."""
        first, last = min(first, self._commit.through), min(last, self._commit.through)
        if TOTAL in self._opened and self._versions.at(self._commit.through).plan.window is None:
            return [TOTAL]
        now = [key for key, previous in self._opened.items() if previous < last and first <= key]
        gone = {*now, *self.change.extended}
        return [*now, *(key for key in self._history.labels.holding(first, last) if key not in gone)]

    def _add_to_panes(self, rows: pl.DataFrame, schema: PaoSchema, state: MasterState) -> MasterState:
        change = self.change
        for key, part in self._by_pane(rows):
            if key is None:
                state = replace(state, too_late=state.too_late + _keys_in(part, schema))
                continue
            label = change.labels.get(key) or self._history.labels[key]
            if label.void:
                continue  # also what comes late
            archived = held(part, state.archived)
            if archived.any():
                # The archive had it already, or has it now: whether it is in the pane nobody knows.
                shed = label.shed + _keys_in(part.filter(archived), schema)
                change.labels[key] = label = replace(label, shed=shed).revised()
                part = part.filter(~archived)
            if not part.height:
                continue
            if key not in self._opened:
                for late in _late(part):
                    change.labels[key] = label = label.revised()
                    change.late.append(late)
            frames, (first, _) = [self._history.pane(key, change), part], extent(part) or (key, key)
            whole = label.previous + 1 == label.through
            change.frames[key] = schema.merge_interval(frames, first) if whole else schema.merge(frames)
        return state

    def _by_pane(self, rows: pl.DataFrame) -> Iterator[tuple[int | None, pl.DataFrame]]:
        """Yield the rows of each pane with its key; with None those of runs of which none is retained any more.

        O(rows log rows), whatever intervals they are of: agents bring those of very many in one commit.
        """
        rows = ascending(rows)
        at, begin = rows[INTERVAL].to_numpy(), 0
        while begin < len(at):
            key, last = self._pane_of(int(at[begin]))
            end = int(np.searchsorted(at, last, "right"))
            yield key, rows[begin:end]
            begin = end

    def _pane_of(self, interval: int) -> tuple[int | None, int]:
        """Return the key of the pane whose run holds an interval, or None, and up to which interval that is so."""
        labels = self._history.labels
        for opened, previous in self._opened.items():
            if previous < interval <= opened:
                return opened, opened
        key = next(labels.holding(interval, interval), None)
        if key is not None:
            return key, min([key, *(each for each in self._opened.values() if each >= interval)])
        following = next(labels.ends(interval, -NEVER), None)
        befores = [*self._opened.values(), *(() if following is None else (labels[following].previous,))]
        return None, min((each for each in befores if each >= interval), default=-NEVER)


def _late(rows: pl.DataFrame) -> list[Late]:
    """Divide late rows of a pane by interval; those of more than a label remembers are one run."""
    first, last = extent(rows) or (0, 0)
    if first == last or rows[INTERVAL].n_unique() > RUNS_MAX:
        return [Late(first, last, rows)]
    return [Late(interval, interval, part) for interval, part in by_interval(rows)]


def _keys_in(rows: pl.DataFrame, schema: PaoSchema) -> int:
    """Count rows apart from those of slots, which are more of the same key."""
    slots = [rows[slot].is_null() for slot in schema.slots]
    return int(functools.reduce(operator.and_, slots).sum()) if slots else rows.height
