"""What a master keeps of a job's past: panes with their labels, and running totals; frames lie on disk.

A pane is what one commit brought: the PAOs of a run of intervals, named by the last of them. Which running totals
there are, and which make up a window, is `agents.totals`'s. A change is described first, written with the commit that
it belongs to, and only then taken into memory: a disk that fails leaves everything as it was.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec
import polars as pl
from msgspec.structs import replace
from sortedcontainers import SortedDict, SortedSet

from agents.jobs.plan import Plan
from agents.labels import Labels
from agents.mending import holes, stand_ins
from agents.results import Label
from agents.store.checksums import DamagedError
from agents.store.panes import Kind, Panes, Place
from agents.totals import ROWS_MAX, Totals
from cbt import INTERVAL, PaoDecodeError, decode, encode

log = logging.getLogger(__name__)

#: Frames that were read or written lately; resident, they take up to three times as much.
CACHE_BYTES = 8 << 20
#: Rows of panes merged at a time.
MERGED_ROWS = 1 << 20
#: What may be wrong with totals and not with panes: a sum over all time leaves its range, a block is damaged.
_UNFIT = (ArithmeticError, PaoDecodeError, DamagedError)


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A pane as memory and disk keep it beside its frame.

    `blank`: some row's states are all zero (a key of nulls only), which a difference could not tell from no row.
    """

    label: Label
    rows: int
    blank: bool


class _LabelledPane(msgspec.Struct, frozen=True, array_like=True):
    label: Label
    block: bytes


class Change:
    """What a commit changes of the past; `totals` are made last, when the panes are known."""

    def __init__(self) -> None:
        self.labels: dict[int, Label] = {}
        self.frames: dict[int, pl.DataFrame] = {}
        #: Rows of intervals that had been committed before.
        self.late: list[tuple[int, pl.DataFrame]] = []
        #: Panes that are no longer retained, and those whose run another pane now extends.
        self.expired: list[int] = []
        self.extended: list[int] = []
        self.totals: dict[int, pl.DataFrame] = {}
        self.totals_gone: set[int] = set()

    @property
    def gone(self) -> list[int]:
        """The panes that there are no more."""
        return [*self.expired, *self.extended]


class History:
    """The past of one job.

    Args:
        plan: the compiled job.
        store: where it is durable.
    """

    def __init__(self, plan: Plan, store: Panes) -> None:
        self._schema, self._store, self._app = plan.schema, store, plan.definition.app_id
        self._windowed = plan.window is not None
        self._summed = self._windowed and plan.schema.invertible
        self._frames: OrderedDict[Place, pl.DataFrame] = OrderedDict()
        self._frame_bytes = 0
        self._split_labelled_panes()
        entries = {
            key: msgspec.msgpack.decode(block, type=_Entry)
            for key, block in store.blocks(self._app, Kind.LABEL).items()
        }
        self.labels = Labels({key: entry.label for key, entry in entries.items()})
        self._rows: SortedDict[int, int] = SortedDict({key: entry.rows for key, entry in entries.items()})
        self._blank = SortedSet(key for key, entry in entries.items() if entry.blank)
        #: Panes whose labels say that they are damaged, whatever a commit makes of those labels.
        self._damaged = {key for key, entry in entries.items() if entry.label.damaged}
        self.totals = Totals(self._known_totals())

    def pane(self, key: int, change: Change | None = None) -> pl.DataFrame:
        """Return a pane's rows; with a change, as they will be after it."""
        changed = change.frames.get(key) if change is not None else None
        return self._frame(Kind.PANE, key) if changed is None else changed

    def is_empty(self, key: int) -> bool:
        """Tell whether a pane has no rows."""
        return not self._rows[key]

    def window(self, first: int, last: int) -> pl.DataFrame:
        """Merge all rows of these intervals, both ends included, without the `interval` column.

        O(rows of two totals) where the aggregates have an inverse, else O(rows of the panes).
        """
        with contextlib.suppress(*_UNFIT):
            found = self._difference(first, last)
            if found is not None:
                return found
        if first == last:
            # A pane has one row for each key of an interval.
            return next(self._inside(first, last), self._schema.empty()).drop(INTERVAL)
        merged, waiting, count = self._schema.empty().drop(INTERVAL), list[pl.DataFrame](), 0
        for rows in self._inside(first, last):
            waiting.append(rows)
            count += rows.height
            if count > MERGED_ROWS:
                merged, waiting, count = self._schema.merge_window([merged, *waiting]), [], 0
        return self._schema.merge_window([merged, *waiting])

    def _difference(self, first: int, last: int) -> pl.DataFrame | None:
        """Make a window of two totals, where there are some and that takes fewer rows than its panes have."""
        cover = self.totals.cover(first, last)
        if cover is None or self._has_blank(first, last):
            return None
        earlier, later = cover
        edges = [(first, earlier), (later + 1, last)]
        edge_keys = [key for edge in edges for key in self.labels.holding(*edge)]
        cost = sum(self._rows[key] for key in edge_keys) + sum(self.totals.marks[mark] for mark in cover)
        if all(rows <= cost for rows in accumulate(self._rows[key] for key in self.labels.holding(first, last))):
            return None
        plus = [rows for edge in edges for rows in self._inside(*edge)]
        return self._schema.difference(self._frame(Kind.TOTAL, later), self._frame(Kind.TOTAL, earlier), plus)

    # ---- changing

    def write(self, state: bytes, change: Change) -> None:
        """Write a change durably with the master's state, then remember it."""
        if self._summed and change.frames:
            try:
                self._sum_up(change)
            except _UNFIT as error:
                log.warning("running totals begin anew: %s", error)
                self._begin_anew(change)
        for key in self._damaged.intersection(change.labels):
            change.labels[key] = replace(change.labels[key], damaged=1)
        entries = {key: self._entry(key, label, change) for key, label in change.labels.items()}
        changed: dict[Place, bytes] = {(Kind.LABEL, key): msgspec.msgpack.encode(e) for key, e in entries.items()}
        changed |= {(Kind.PANE, key): encode(frame) for key, frame in change.frames.items()}
        changed |= {(Kind.TOTAL, mark): encode(frame) for mark, frame in change.totals.items()}
        gone: list[Place] = [(kind, key) for key in change.gone for kind in (Kind.LABEL, Kind.PANE)]
        gone += [(Kind.TOTAL, mark) for mark in change.totals_gone]
        self._store.commit(self._app, state, changed, gone)
        self.labels.replace(change.labels, change.gone)
        for at in gone:
            self._uncache(at)
        for key in change.gone:
            self._rows.pop(key, None)
            self._blank.discard(key)
            self._damaged.discard(key)
        for key, entry in entries.items():
            self._rows[key] = entry.rows
            (self._blank.add if entry.blank else self._blank.discard)(key)
        for mark in change.totals_gone:
            self.totals.marks.pop(mark, None)
        self.totals.marks.update({mark: frame.height for mark, frame in change.totals.items()})
        for key, frame in change.frames.items():
            self._cache((Kind.PANE, key), frame)
        # Not the totals themselves: read back, they hold no more memory than they need.
        for mark in change.totals:
            self._uncache((Kind.TOTAL, mark))

    def _entry(self, key: int, label: Label, change: Change) -> _Entry:
        frame = change.frames.get(key)
        if frame is None:
            return _Entry(label, self._rows[key], key in self._blank)
        return _Entry(label, frame.height, self._summed and _is_blank(frame, self._schema.states))

    def _sum_up(self, change: Change) -> None:
        """Add what is late to the totals, drop those of panes that are gone, and make those that are due."""
        totals, gone = self.totals, change.totals_gone
        if change.expired:
            gone.update(totals.marks.irange(maximum=max(change.expired)))
        for interval, rows in change.late:
            amended, dropped = totals.late(interval)
            gone.update(dropped)
            newest: pl.DataFrame | None = None
            for mark in reversed(amended):
                before = self._total(mark, change)
                change.totals[mark] = self._schema.add_to_total(before, [rows], newest)
                newest = change.totals[mark] if newest is None else newest
        for mark in gone:
            change.totals.pop(mark, None)
        last = totals.newest(gone)
        for mark_before, keys in totals.steps(last, self._waiting(last, change)):
            base = self._schema.empty() if mark_before is None else self._total(mark_before, change)
            total = self._schema.add_to_total(base, [self.pane(key, change) for key in keys])
            if total.height > ROWS_MAX:
                self._begin_anew(change)
                return
            change.totals[keys[-1]] = total

    def _begin_anew(self, change: Change) -> None:
        change.totals_gone.update(self.totals.marks)
        change.totals.clear()

    def _waiting(self, last: int | None, change: Change) -> Iterator[tuple[int, int]]:
        """Yield key and rows of the panes after the last mark, as they will be; without a mark, of the newest only."""
        newest = max(change.frames)
        after = newest - 1 if last is None else last
        for key in self._rows.irange(after + 1, newest - 1):
            if key not in change.extended:
                yield key, change.frames[key].height if key in change.frames else self._rows[key]
        yield newest, change.frames[newest].height

    # ---- frames

    def _total(self, mark: int, change: Change) -> pl.DataFrame:
        changed = change.totals.get(mark)
        return self._frame(Kind.TOTAL, mark) if changed is None else changed

    def _inside(self, first: int, last: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of these intervals, pane by pane."""
        for key in list(self.labels.holding(first, last)):
            rows, label = self.pane(key), self.labels[key]
            whole = first <= label.previous + 1 and label.through <= last
            yield rows if whole else rows.filter(pl.col(INTERVAL).is_between(first, last))

    def _has_blank(self, first: int, last: int) -> bool:
        key = next(self._blank.irange(first), None)
        return key is not None and self.labels[key].previous < last

    def _frame(self, kind: Kind, key: int) -> pl.DataFrame:
        place = kind, key
        frame = self._frames.get(place)
        if frame is None:
            try:
                frame = decode(self._store.block(self._app, kind, key), self._schema)
            except (DamagedError, PaoDecodeError):
                if kind is not Kind.PANE:
                    raise
                frame = self._schema.empty()
                self._stand_in(key, replace(self.labels[key], damaged=1), frame)
            self._cache(place, frame)
        else:
            self._frames.move_to_end(place)
        return frame

    # ---- damage

    def mend(self, expired: int, committed: int, expected: int) -> None:
        """Put labels that say so where those of some panes are lost; see `agents.mending`."""
        for hole in holes(self.labels.all(), expired, committed):
            for label in stand_ins(hole, self._store.intervals(self._app, Kind.PANE), expected):
                key = label.through if self._windowed else 0
                self._store.note(Kind.LABEL, key)
                frame = self._schema.empty()
                with contextlib.suppress(DamagedError, PaoDecodeError):
                    frame = decode(self._store.block(self._app, Kind.PANE, key), self._schema)
                self._stand_in(key, label, frame)

    def _stand_in(self, key: int, label: Label, frame: pl.DataFrame) -> None:
        """Take what is left of a damaged pane for the pane, in memory even where the disk refuses."""
        entry = _Entry(label, frame.height, self._summed and _is_blank(frame, self._schema.states))
        self._damaged.add(key)
        self.labels.replace({key: label}, ())
        self._rows[key] = entry.rows
        (self._blank.add if entry.blank else self._blank.discard)(key)
        blocks = {(Kind.LABEL, key): msgspec.msgpack.encode(entry), (Kind.PANE, key): encode(frame)}
        try:
            self._store.replace(self._app, blocks, [])
        except (OSError, sqlite3.Error) as error:
            log.error("what is left of a damaged pane is not on disk: %s", error)

    def _cache(self, place: Place, frame: pl.DataFrame) -> None:
        self._uncache(place)
        self._frames[place] = frame
        self._frame_bytes += int(frame.estimated_size())
        while self._frame_bytes > CACHE_BYTES and len(self._frames) > 1:
            self._uncache(next(iter(self._frames)))

    def _uncache(self, place: Place) -> None:
        frame = self._frames.pop(place, None)
        if frame is not None:
            self._frame_bytes -= int(frame.estimated_size())

    def _known_totals(self) -> dict[int, int]:
        """Return the marks on disk; how many rows those before the last hold, nobody needs to know exactly."""
        marks = self._store.intervals(self._app, Kind.TOTAL)
        try:
            return dict.fromkeys(marks, self._frame(Kind.TOTAL, marks[-1]).height) if marks else {}
        except (PaoDecodeError, DamagedError) as error:
            log.warning("running totals begin anew: %s", error)
            self._store.replace(self._app, {}, [(Kind.TOTAL, mark) for mark in marks])
            return {}

    def _split_labelled_panes(self) -> None:
        """Bring panes of an older release into the present form."""
        changed: dict[Place, bytes] = {}
        old = self._store.intervals(self._app, Kind.LABELLED_PANE)
        for key in old:
            try:
                block = self._store.block(self._app, Kind.LABELLED_PANE, key)
                kept = msgspec.msgpack.decode(block, type=_LabelledPane)
                frame = decode(kept.block, self._schema)
            except (DamagedError, PaoDecodeError, msgspec.DecodeError):
                continue  # `mend` finds that it is lacking
            blank = self._summed and _is_blank(frame, self._schema.states)
            changed[Kind.LABEL, key] = msgspec.msgpack.encode(_Entry(kept.label, frame.height, blank))
            changed[Kind.PANE, key] = kept.block
        if old:
            self._store.replace(self._app, changed, [(Kind.LABELLED_PANE, key) for key in old])


def _is_blank(frame: pl.DataFrame, states: Iterable[str]) -> bool:
    """Tell whether some row's states, numbers all of them, are zero."""
    return bool(frame.height) and bool(frame.select(pl.all_horizontal(pl.col(*states) == 0).any()).item())
