"""Merging few rows into many: what a flush does where little is new.

The many keys stay where they are, and only the states of those that are met again are computed; the general merge
would move every row of every column.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from elf.cbt import columns
from elf.cbt.columns import Index
from elf.cbt.native import argument, kernels
from elf.cbt.rows import Reduce, Rows, State

#: How many times as many rows the many are.
MANY = 8


def patch(many: Rows, few: Rows, reduce: Reduce) -> Rows | None:
    """Merge sorted rows with distinct keys into some that are many times as many. O(many), but hardly.

    Returns:
        Sorted rows with distinct keys; None where keys collide in their order, which is for the general merge.
    """
    places = _located(many, few)
    if places is None:
        return None
    known = places >= 0
    met = np.flatnonzero(known)
    at = places[met]
    states = many.states
    if met.size:
        starts = np.arange(0, 2 * met.size, 2)
        alternating = [_alternating(a, at, b, met) for a, b in zip(states, few.states, strict=True)]
        merged = reduce(alternating, starts)
        states = [_replaced(state, at, new) for state, new in zip(states, merged, strict=True)]
    changed = Rows(many.words, many.order, states)
    if met.size == len(few):
        return changed
    return _with_new(changed, few.take(np.flatnonzero(~known)), -1 - places[~known])


def _located(many: Rows, few: Rows) -> Index | None:
    """Where among many rows the few's keys are; of a key that is not there -1 and less the row that it comes before.

    Returns:
        None where keys collide in their order.
    """
    if kernels is not None and not any(map(columns.is_wide, many.words)):
        found = np.empty(len(few), dtype=np.int64)
        here, there = ([argument(word) for word in rows.words] for rows in (many, few))
        return found if kernels.locate(here, there, many.order, few.order, found) else None
    places = np.searchsorted(many.order, few.order)
    last = len(many) - 1
    known = many.order[np.minimum(places, last)] == few.order
    met = np.flatnonzero(known)
    at = places[met]
    behind = at[:-1] + 1 if at.size and at[-1] == last else at + 1
    if (many.order[behind] == many.order[behind - 1]).any() or not _same_keys(many, at, few, met):
        return None
    return np.where(known, places, -1 - places)


def _same_keys(left: Rows, left_rows: Index, right: Rows, right_rows: Index) -> bool:
    for one, other in zip(left.words, right.words, strict=True):
        if columns.is_constant(one) and columns.is_constant(other):
            if one[0] != other[0]:
                return not left_rows.size
        elif not np.array_equal(columns.take(one, left_rows), columns.take(other, right_rows)):
            return False
    return True


def _with_new(many: Rows, new: Rows, places: Index) -> Rows:
    """Put rows in before the given places, which ascend."""
    rows = np.insert(np.arange(len(many)), places, len(many) + np.arange(len(new)))
    words = [columns.take(columns.join(pair), rows) for pair in zip(many.words, new.words, strict=True)]
    order = np.concatenate([many.order, new.order]).take(rows)
    return Rows(words, order, [_both(a, b, rows) for a, b in zip(many.states, new.states, strict=True)])


def _alternating(left: State, left_rows: Index, right: State, right_rows: Index) -> State:
    """One of the left rows, one of the right, and so on."""
    rows = np.stack([left_rows, right_rows + len(left)], axis=1).ravel()
    if isinstance(left, pl.Series):
        return _both(left, right, rows)
    both = np.empty(rows.size, dtype=left.dtype)
    both[0::2], both[1::2] = left[left_rows], right[right_rows]
    return both


def _replaced(state: State, at: Index, values: State) -> State:
    """The column with other values at some places."""
    if isinstance(state, pl.Series):
        rows = np.arange(len(state))
        rows[at] = len(state) + np.arange(at.size)
        return _both(state, values, rows)
    replaced = state.copy()
    replaced[at] = values
    return replaced


def _both(left: State, right: State, rows: Index) -> State:
    """Rows of two columns, those of the second numbered behind the first's."""
    if isinstance(left, pl.Series):
        assert isinstance(right, pl.Series)
        return pl.concat([left, right]).gather(rows)
    assert isinstance(right, np.ndarray)
    return np.concatenate([left, right]).take(rows)
