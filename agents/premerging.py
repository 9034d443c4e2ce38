"""Pre-merged panes on disk: a window of aggregates without an inverse is made of few of them (`agents.merged`)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping

import polars as pl

from agents.merged import ROWS_MAX, Merged, bounds_of, is_worth
from agents.past import Change, Past
from agents.store.checksums import DamagedError
from agents.store.panes import Kind
from cbt import PaoDecodeError
from cbt.merging import Merging
from overlay.contract import NEVER

log = logging.getLogger(__name__)


class Premerging:
    """The pre-merged blocks of one job.

    Args:
        past: its panes.
    """

    def __init__(self, past: Past) -> None:
        self._past = past
        kept, declined = (past.store.intervals(past.app, kind) for kind in (Kind.MERGED, Kind.NOT_MERGED))
        self._merged = Merged(kept, declined, past.labels.ends)
        #: Blocks begin after this interval.
        self._oldest = NEVER
        if past.labels:
            self._begin()
            newest = past.labels.newest()
            self._merged.want_around(past.labels.between(None, newest), self._oldest, newest)

    def parts(self, first: int, last: int, made: Mapping[int, pl.DataFrame] | None = None) -> Iterator[pl.DataFrame]:
        """Yield frames that hold the rows of these intervals, each row in one; of blocks, also those made now."""
        made = made or {}
        for piece in self._merged.cover(first, last, made):
            if piece.block is None:
                yield from self._past.inside(piece.first, piece.last)
                continue
            if piece.block in made:
                yield made[piece.block]
                continue
            try:
                rows = self._past.frames.read((Kind.MERGED, piece.block))
            except (PaoDecodeError, DamagedError) as error:
                log.warning("panes %d to %d are merged anew: %s", piece.first, piece.last, error)
                self._merged.drop([piece.block])
                yield from self.parts(piece.first, piece.last, made)
            else:
                yield rows

    def prepare(self, change: Change) -> None:
        """Drop blocks that a change makes wrong or old, and make some of those that earlier ones have made due."""
        late = {interval for interval, _ in change.late}
        oldest = max(change.expired, default=self._oldest)
        gone = [*self._merged.until(oldest), *(name for interval in late for name in self._merged.holding(interval))]
        # Which of both a block was, kept or declined, makes no difference here.
        change.dropped |= {(kind, name) for name in gone for kind in (Kind.MERGED, Kind.NOT_MERGED)}
        made: dict[int, pl.DataFrame] = {}
        for name in self._merged.steps(oldest, late):
            rows: pl.DataFrame | None = None
            with contextlib.suppress(ArithmeticError, ValueError):  # nobody has asked for so long a window yet
                rows = self._merge(name, made)
            change.made[Kind.NOT_MERGED if rows is None else Kind.MERGED, name] = rows
            if rows is not None:
                made[name] = rows

    def changed(self, change: Change) -> None:
        """Note what has become durable, and which blocks are due now."""
        self._merged.drop(name for kind, name in change.dropped if kind == Kind.MERGED)
        for kind, name in change.made:
            if kind in (Kind.MERGED, Kind.NOT_MERGED):
                self._merged.add(name, worth=kind == Kind.MERGED)
        if self._oldest == NEVER:
            self._begin()
        self._oldest = max([self._oldest, *change.expired])
        newest = self._past.labels.newest()
        before = self._past.labels.before(newest)
        if before is not None:
            self._merged.want_around([before], self._oldest, newest)

    def _begin(self) -> None:
        key = self._past.labels.oldest()
        previous = self._past.labels[key].previous
        # The very first pane holds whatever came before its end.
        self._oldest = key - 1 if previous == NEVER else previous

    def _merge(self, name: int, made: Mapping[int, pl.DataFrame]) -> pl.DataFrame | None:
        """Make a block; None if it would save nothing."""
        merging = Merging(self._past.schema)
        for rows in self.parts(*bounds_of(name), made):
            merging.add(rows)
            if merging.count > ROWS_MAX:
                return None
        merged = merging.result()
        return merged if is_worth(merged.height, merging.count) else None
