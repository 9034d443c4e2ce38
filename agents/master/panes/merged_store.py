"""Pre-merged panes on disk: a window of aggregates without an inverse is made of few of them (`merged`).

Where they can be, they are placed in an order of keys (`key_orders`): merging a few of them then takes hardly
longer than reading one pane. A pane of one interval is placed, too, so that no end of a window costs more.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import polars as pl

from elf.agents.master.panes.key_orders import KeyOrders
from elf.agents.master.panes.merged import ROWS_MAX, Merged, bounds_of, is_worth, level_of, name_of
from elf.agents.master.panes.past import Change, Past, block_of
from elf.agents.store.checksums import DamagedError
from elf.agents.store.panes import Kind
from elf.cbt import PaoDecodeError
from elf.cbt.merging import Merging
from elf.cbt.placed import Placed, Placing, place, to_frame
from elf.overlay.contract import NEVER

log = logging.getLogger(__name__)

#: Of a pane that nobody has found worth merging yet, at most this share may be keys that come new into an order.
NEW_SHARE_MAX = 0.5
#: Rows of a pane are placed where the order has at most so many times as many; else they are better sorted.
ORDER_SHARE_MAX = 4
#: Panes of a window that are placed, at most; of more it is cheaper to merge those of equal keys.
PANES_PLACED_MAX = 8
_MERGED_KINDS = (Kind.MERGED, Kind.NOT_MERGED)


class Premerging:
    """The pre-merged blocks of one job.

    Args:
        past: its panes.
        fresh: what there is on disk is of an earlier version of the job.
    """

    def __init__(self, past: Past, *, fresh: bool = False) -> None:
        self._past = past
        self._orders = KeyOrders(past, fresh=fresh)
        kept, declined = ([] if fresh else past.store.intervals(past.app, kind) for kind in _MERGED_KINDS)
        self._merged = Merged(kept, declined, past.labels.ends)
        #: Blocks begin after this interval.
        self._oldest = NEVER
        if past.labels:
            self._begin()
            newest = past.labels.newest()
            ends = past.labels.between(None, newest)
            self._merged.want_around(ends, self._oldest, newest)
            # Those of before there were any placed panes are not placed now: new ones would have to wait for them.
            last = self._merged.last_single()
            if last is not None:
                self._want_singles(past.labels.between(last + 1, newest))

    def window(self, first: int, last: int) -> pl.DataFrame:
        """Merge all rows of these intervals, both ends included, into interval 0."""
        return self._gather(first, last, None).frame()

    def prepare(self, change: Change) -> None:
        """Drop blocks that a change makes wrong or old, and make some of those that earlier ones have made due."""
        late = [(first, last) for first, last, _ in change.late]
        oldest = max(change.expired, default=self._oldest)
        gone = [*self._merged.until(oldest), *(name for run in late for name in self._merged.within(*run))]
        # Which of both a block was, kept or declined, makes no difference here.
        change.dropped |= {(kind, name) for name in gone for kind in _MERGED_KINDS}
        change.dropped |= set(self._orders.expired(oldest))
        for name in self._merged.steps(oldest, late, 0 if self._orders.has_one() else 1):
            self._add(name, change)

    def _add(self, name: int, change: Change) -> None:
        """Add a block that is due, or that it is declined, to a change."""
        block: pl.DataFrame | Placed | None = None
        with contextlib.suppress(ArithmeticError, ValueError):  # nobody has asked for so long a window yet
            block = self._make(name, change)
        change.made[Kind.NOT_MERGED if block is None else Kind.MERGED, name] = block

    def replace(self, change: Change) -> None:
        """Drop the blocks of panes that are made anew. Who keeps us begins again after that, with `make_all`."""
        assert change.replaced is not None
        change.dropped |= {(kind, name) for name in self._merged.within(*change.replaced) for kind in _MERGED_KINDS}

    def make_all(self) -> None:
        """Make all blocks that are due, durably: of many panes at once, a few with each commit would take for ever."""
        past = self._past
        while names := self._merged.steps(self._oldest, (), 0 if self._orders.has_one() else 1):
            change = Change()
            for name in names:
                self._add(name, change)
            past.store.replace(past.app, {place: block_of(made) for place, made in change.made.items()}, [])
            past.changed(change, {})
            self._orders.changed(change)
            for kind, name in change.made:
                if kind in _MERGED_KINDS:
                    self._merged.add(name, worth=kind == Kind.MERGED)

    def changed(self, change: Change) -> None:
        """Note what has become durable, and which blocks are due now."""
        self._orders.changed(change)
        self._merged.drop(name for kind, name in change.dropped if kind == Kind.MERGED)
        for kind, name in change.made:
            if kind in _MERGED_KINDS:
                self._merged.add(name, worth=kind == Kind.MERGED)
        if self._oldest == NEVER:
            self._begin()
        self._oldest = max([self._oldest, *change.expired])
        newest = self._past.labels.newest()
        before = self._past.labels.before(newest)
        if before is not None:
            self._merged.want_around([before], self._oldest, newest)
        # Before the blocks that it is in are due, which then are made of it.
        self._want_singles([newest])

    def _begin(self) -> None:
        key = self._past.labels.oldest()
        previous = self._past.labels[key].previous
        # The very first pane holds whatever came before its end.
        self._oldest = max(key - 1 if previous == NEVER else previous, self._past.begins - 1)

    def _want_singles(self, keys: list[int]) -> None:
        """Have panes placed that are of one interval, and have rows: the run of others may still grow."""
        if not self._orders.has_one():
            return
        labels, rows = self._past.labels, self._past.rows
        self._merged.want([name_of(0, key) for key in keys if rows[key] and labels[key].previous == key - 1])

    def _make(self, name: int, change: Change) -> pl.DataFrame | Placed | None:
        """Make a block; None if it would save nothing."""
        first, last = bounds_of(name)
        if level_of(name) == 0:
            rows = next(self._past.inside(first, last), self._past.schema.empty())
            return self._orders.place(rows, change, new_max=int(rows.height * NEW_SHARE_MAX))
        gathered = self._gather(first, last, change)
        if gathered.count > ROWS_MAX:
            return None
        placed = gathered.placed()
        if placed is not None:
            return placed if is_worth(placed.count, gathered.count) else None
        frame = gathered.frame()
        if not is_worth(frame.height, gathered.count):
            return None
        # Of larger blocks many more keys would come into the order than the smaller ones have.
        return self._orders.place(frame, change, new_max=None if gathered.of_panes else 0) or frame

    def _gather(self, first: int, last: int, change: Change | None) -> _Gathered:
        gathered = _Gathered(self._past, self._orders, change)
        for part, is_pane in self._parts(first, last, change):
            gathered.add(part, is_pane)
            if change is not None and gathered.count > ROWS_MAX:
                break
        return gathered

    def _parts(self, first: int, last: int, change: Change | None) -> Iterator[tuple[pl.DataFrame | Placed, bool]]:
        """Yield what has the rows of these intervals, each row in one part, and whether it is of a pane.

        With a change, also the blocks that are made now.
        """
        made = {} if change is None else change.made
        for piece in self._merged.cover(first, last, {name for kind, name in made if kind == Kind.MERGED}):
            if piece.block is None:
                for rows in self._past.inside(piece.first, piece.last):
                    yield rows, True
                continue
            block = made.get((Kind.MERGED, piece.block))
            if block is not None:
                yield block, False
                continue
            try:
                block = self._past.frames.read_merged((Kind.MERGED, piece.block))
                if isinstance(block, Placed):
                    self._orders.check(block, change)
            except (PaoDecodeError, DamagedError) as error:
                log.warning("panes %d to %d are merged anew: %s", piece.first, piece.last, error)
                self._merged.drop([piece.block])
                yield from self._parts(piece.first, piece.last, change)
            else:
                yield block, False


class _Gathered:
    """What blocks and panes hold together: of those placed in one order at their places, of others with their keys."""

    def __init__(self, past: Past, orders: KeyOrders, change: Change | None) -> None:
        self._schema = past.schema
        self._orders = orders
        self._change = change
        self._merging = Merging(past.schema)
        self._placings: dict[int, Placing] = {}
        #: Orders with more keys than they have on disk.
        self._grown: dict[int, pl.DataFrame] = {}
        self._panes_placed = 0
        #: Rows added, and whether all of them are of panes.
        self.count = 0
        self.of_panes = True

    def add(self, part: pl.DataFrame | Placed, is_pane: bool) -> None:
        """Add the rows of a part, merging them or not."""
        self.of_panes &= is_pane
        if isinstance(part, Placed):
            self.count += part.count
            self._add_placed(part)
            return
        self.count += part.height
        if self._change is not None or not self._place(part):
            self._merging.add(part)

    def _add_placed(self, part: Placed) -> None:
        placing = self._placings.get(part.order)
        if placing is None:
            self._placings[part.order] = Placing(self._schema, part)
        else:
            placing.add(part)

    def _place(self, rows: pl.DataFrame) -> bool:
        """Place rows beside the blocks before them, as those of the newest panes are; new keys are not kept."""
        name = next(reversed(self._placings), None)
        if name is None or not rows.height or self._panes_placed == PANES_PLACED_MAX:
            return False
        order = self._order(name)
        if order.height > ORDER_SHARE_MAX * rows.height:
            return False
        found = place(rows, order, self._schema, name)
        if found is None:
            return False
        placed, self._grown[name] = found
        self._add_placed(placed)
        self._panes_placed += 1
        return True

    def _order(self, name: int) -> pl.DataFrame:
        return self._grown[name] if name in self._grown else self._orders.read(name, self._change)

    def placed(self) -> Placed | None:
        """Return all rows merged, if all of them are placed in one order."""
        if self._merging.count or len(self._placings) != 1:
            return None
        (placing,) = self._placings.values()
        return placing.result()

    def frame(self) -> pl.DataFrame:
        """Return all rows merged, in interval 0."""
        placings = self._placings.items()
        frames = [to_frame(placing.result(), self._order(name), self._schema) for name, placing in placings]
        if len(frames) == 1 and not self._merging.count:
            return frames[0]
        for frame in frames:
            self._merging.add(frame)
        return self._merging.result()
