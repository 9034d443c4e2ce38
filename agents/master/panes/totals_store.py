"""Running totals on disk: a window of aggregates with an inverse is the difference of two (`totals`)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from itertools import accumulate

import polars as pl

from elf.agents.master.panes.past import Change, Past
from elf.agents.master.panes.totals import ROWS_MAX, Totals
from elf.agents.store.checksums import DamagedError
from elf.agents.store.panes import Kind
from elf.cbt import PaoDecodeError

log = logging.getLogger(__name__)

#: What may be wrong with totals and not with panes: a sum over all time leaves its range, a block is damaged.
_UNFIT = (ArithmeticError, PaoDecodeError, DamagedError)


class Summing:
    """The totals of one job.

    Args:
        past: its panes.
        fresh: what there is on disk is of an earlier version of the job.
    """

    __slots__ = ("_past", "_totals")

    def __init__(self, past: Past, *, fresh: bool = False) -> None:
        self._past = past
        self._totals = Totals({} if fresh else self._known())

    def window(self, first: int, last: int) -> pl.DataFrame | None:
        """Make a window of two totals, where there are some and that takes fewer rows than its panes have."""
        with contextlib.suppress(*_UNFIT):
            return self._window(first, last)
        return None

    def _window(self, first: int, last: int) -> pl.DataFrame | None:
        past, cover = self._past, self._totals.cover(first, last)
        if cover is None or self._has_blank(first, last):
            return None
        earlier, later = cover
        edges = [(first, earlier), (later + 1, last)]
        edge_keys = [key for edge in edges for key in past.labels.holding(*edge)]
        cost = sum(past.rows[key] for key in edge_keys) + sum(self._totals.marks[mark] for mark in cover)
        if all(rows <= cost for rows in accumulate(past.rows[key] for key in past.labels.holding(first, last))):
            return None
        plus = [rows for edge in edges for rows in past.inside(*edge)]
        return past.schema.difference(
            past.frames.read((Kind.TOTAL, later)), past.frames.read((Kind.TOTAL, earlier)), plus
        )

    def prepare(self, change: Change) -> None:
        """Add to a change what it means for the totals."""
        try:
            self._sum_up(change)
        except _UNFIT as error:
            log.warning("running totals begin anew: %s", error)
            self._begin_anew(change)

    def replace(self, change: Change) -> None:
        """Add to a change of long ago what it means for the totals: those behind it are made anew, up to its end."""
        assert change.replaced is not None
        first, last = change.replaced
        gone: set[int] = set(self._totals.marks.irange(first))
        change.dropped |= {(Kind.TOTAL, mark) for mark in gone}
        try:
            self._sum_up_to(last, self._totals.newest(gone), first, change)
        except _UNFIT as error:
            log.warning("running totals begin anew: %s", error)
            self._begin_anew(change)

    def _sum_up_to(self, last: int, mark: int | None, first: int, change: Change) -> None:
        """Make the totals of all panes from a mark, or else from an interval, up to another one."""
        after = first - 1 if mark is None else mark
        kept = (key for key in self._past.labels.ends(after + 1, last) if key not in change.extended)
        keys = sorted({*kept, *(key for key in change.frames if after < key <= last)})
        rows = self._past.rows
        panes = iter([(key, change.frames[key].height if key in change.frames else rows[key]) for key in keys])
        total = self._past.schema.empty() if mark is None else self._total(mark, {})
        # One after the other: how many rows a mark has says how far the next one is.
        while steps := self._totals.steps(mark, panes, 1, total.height):
            parts = steps[0][1]
            mark = parts[-1]
            total = self._past.schema.add_to_total(total, [self._past.pane(key, change) for key in parts])
            if total.height > ROWS_MAX:
                change.made.clear()
                self._begin_anew(change)
                return
            change.made[Kind.TOTAL, mark] = total

    def changed(self, change: Change) -> None:
        """Note what has become durable."""
        totals = {mark: frame for (kind, mark), frame in change.made.items() if kind == Kind.TOTAL}
        made = {mark: frame.height for mark, frame in totals.items() if isinstance(frame, pl.DataFrame)}
        dropped = [mark for kind, mark in change.dropped if kind == Kind.TOTAL and mark not in made]
        self._totals.marks.replace(made, dropped)

    def _sum_up(self, change: Change) -> None:
        """Add what is late to the totals, drop those of panes that are gone, and make those that are due."""
        totals, schema = self._totals, self._past.schema
        gone: set[int] = set(totals.marks.irange(maximum=max(change.expired))) if change.expired else set()
        made: dict[int, pl.DataFrame] = {}
        for first, _, rows in change.late:
            # No mark is in the midst of a pane, so those of all its intervals are the same.
            amended, dropped = totals.late(first)
            gone.update(dropped)
            newest: pl.DataFrame | None = None
            for mark in reversed(amended):
                made[mark] = schema.add_to_total(self._total(mark, made), [rows], newest)
                newest = made[mark] if newest is None else newest
        for mark in gone:
            made.pop(mark, None)
        last = totals.newest(gone)
        for before, keys in totals.steps(last, self._waiting(last, change)):
            base = schema.empty() if before is None else self._total(before, made)
            total = schema.add_to_total(base, [self._past.pane(key, change) for key in keys])
            if total.height > ROWS_MAX:
                self._begin_anew(change)
                return
            made[keys[-1]] = total
        change.made |= {(Kind.TOTAL, mark): frame for mark, frame in made.items()}
        change.dropped |= {(Kind.TOTAL, mark) for mark in gone}

    def _begin_anew(self, change: Change) -> None:
        change.dropped |= {(Kind.TOTAL, mark) for mark in self._totals.marks}

    def _waiting(self, last: int | None, change: Change) -> Iterator[tuple[int, int]]:
        """Yield key and rows of the panes after the last mark, as they will be; without a mark, of the newest only."""
        newest = max(change.frames)
        after = newest - 1 if last is None else last
        for key in self._past.labels.ends(after + 1, newest - 1):
            if key not in change.extended:
                yield key, change.frames[key].height if key in change.frames else self._past.rows[key]
        yield newest, change.frames[newest].height

    def _total(self, mark: int, made: dict[int, pl.DataFrame]) -> pl.DataFrame:
        return made[mark] if mark in made else self._past.frames.read((Kind.TOTAL, mark))

    def _has_blank(self, first: int, last: int) -> bool:
        key = next(self._past.blank.irange(first), None)
        return key is not None and self._past.labels[key].previous < last

    def _known(self) -> dict[int, int]:
        """Return the marks on disk; how many rows those before the last hold, nobody needs to know exactly."""
        past = self._past
        marks = past.store.intervals(past.app, Kind.TOTAL)
        try:
            return dict.fromkeys(marks, past.frames.read((Kind.TOTAL, marks[-1])).height) if marks else {}
        except (PaoDecodeError, DamagedError) as error:
            log.warning("running totals begin anew: %s", error)
            past.store.replace(past.app, {}, [(Kind.TOTAL, mark) for mark in marks])
            return {}
