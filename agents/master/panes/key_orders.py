"""The orders of keys that a job's merged panes are placed in (`elf.cbt.placed`); they lie on disk.

There is one order at a time. It begins with the keys of a block that was worth to be made, grows with keys that come
new, and gives way to another when it is long for what is placed in it. What was placed in one earlier goes on being so;
an order goes when no block of before its successor is retained.
"""

from __future__ import annotations

import logging

import polars as pl
from sortedcontainers import SortedSet

from elf.agents.master.panes.past import Change, Past
from elf.agents.store.checksums import DamagedError
from elf.agents.store.panes import Kind, Place
from elf.cbt import PaoDecodeError
from elf.cbt.placed import Placed, is_placeable, order_of, place

log = logging.getLogger(__name__)

#: An order has at most so many rows, or so many times as many as what is placed in it: it is read and written whole.
ROWS_MIN = 4_096
ROWS_SHARE_MAX = 8


class KeyOrders:
    """The orders of one job, by name: the last interval committed when they began.

    Args:
        past: the job's panes.
        fresh: what there is on disk is of an earlier version of the job.
    """

    def __init__(self, past: Past, *, fresh: bool = False) -> None:
        self._past = past
        self._placeable = is_placeable(past.schema)
        self._names: SortedSet[int] = SortedSet([] if fresh else past.store.intervals(past.app, Kind.ORDER))
        self._unreadable: set[int] = set()

    def read(self, name: int, change: Change | None = None) -> pl.DataFrame:
        """Return an order, with a change as it will be after it.

        Raises:
            DamagedError, PaoDecodeError: it is not there any more, or not as it was written.
        """
        made = change.made.get((Kind.ORDER, name)) if change is not None else None
        if isinstance(made, pl.DataFrame):
            return made
        if name not in self._names:
            raise DamagedError(f"there is no order of keys {name}")
        return self._past.frames.read((Kind.ORDER, name))

    def check(self, placed: Placed, change: Change | None = None) -> None:
        """Raise as `read` does, also where an order is shorter than what is placed in it."""
        if self.read(placed.order, change).height < placed.height:
            raise DamagedError(f"the order of keys {placed.order} is shorter than what is placed in it")

    def has_one(self) -> bool:
        """Tell whether there is an order that something new can be placed in."""
        return bool(self._names) and self._names[-1] not in self._unreadable

    def place(self, frame: pl.DataFrame, change: Change, *, new_max: int | None) -> Placed | None:
        """Place a frame of one row per (keys, slots) in the order, which may grow; O(frame + order).

        Args:
            frame: rows of one interval.
            change: what the order becomes, if it grows or begins.
            new_max: most new keys that the order may get by it; None: a new order may begin.

        Returns:
            None if they are not to be placed.
        """
        if not self._placeable or not frame.height:
            return None
        schema, names = self._past.schema, self._names_after(change)
        rows_max = max(ROWS_MIN, ROWS_SHARE_MAX * frame.height)
        if names:
            try:
                order = self.read(names[-1], change)
            except (DamagedError, PaoDecodeError) as error:
                log.warning("an order of keys begins anew: %s", error)
                self._unreadable.add(names[-1])
            else:
                found = place(frame, order, schema, names[-1]) if order.height <= rows_max else None
                if found is not None:
                    placed, grown = found
                    new = grown.height - order.height
                    if not new:
                        return placed
                    if grown.height <= rows_max and (new_max is None or new <= new_max):
                        change.made[Kind.ORDER, names[-1]] = grown
                        return placed
        name = max(change.frames, default=None) or self._past.labels.newest()
        if new_max is not None or (names and name <= names[-1]):
            return None
        found = place(frame, order_of(frame, schema), schema, name)
        if found is None:
            return None
        placed, change.made[Kind.ORDER, name] = found
        return placed

    def expired(self, oldest: int) -> list[Place]:
        """Return the orders that nothing is placed in which begins after an interval."""
        followed = zip(self._names, self._names[1:], strict=False)
        return [(Kind.ORDER, name) for name, successor in followed if successor <= oldest]

    def changed(self, change: Change) -> None:
        """Note what has become durable."""
        self._names -= {name for kind, name in change.dropped if kind == Kind.ORDER}
        self._names |= {name for kind, name in change.made if kind == Kind.ORDER}

    def _names_after(self, change: Change) -> list[int]:
        begun = [name for kind, name in change.made if kind == Kind.ORDER and name not in self._names]
        readable = [*self._names, *begun]
        return readable if readable and readable[-1] not in self._unreadable else []
