"""Merge runs of adjacent rows by any associative function, vectorised: what `np.ufunc.reduceat` is for words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from elf.cbt.aggregates.contract import Combine, States


def segmented(states: States, starts: npt.NDArray[np.int64], combine: Combine) -> States:
    """Merge each segment's rows into one, neighbours first, in their order.

    Takes log2(longest segment) passes; each touches only rows of segments that still have more than one, so all
    passes together combine each row once: O(rows).

    Args:
        states: aligned columns of n rows; not changed.
        starts: first row of each segment, ascending from 0, all different and below n; as `reduceat` takes them.
        combine: merges aligned rows; called with the earlier row on the left.

    Returns:
        Columns with one row per segment.
    """
    total = len(states[0])
    merged = tuple(column[starts] for column in states)
    lengths = np.diff(starts, append=total)
    segments = np.flatnonzero(lengths > 1)
    if segments.size < lengths.size:
        states = _take(states, np.repeat(lengths > 1, lengths))
        lengths = lengths[segments]
    while segments.size:
        states, lengths = _pass(states, lengths, combine)
        done = lengths == 1
        if done.any():
            heads = (np.cumsum(lengths) - lengths)[done]
            for column, source in zip(merged, states, strict=True):
                column[segments[done]] = source[heads]
            states = _take(states, np.repeat(~done, lengths))
            segments, lengths = segments[~done], lengths[~done]
    return merged


def _pass(states: States, lengths: npt.NDArray[np.int64], combine: Combine) -> tuple[States, npt.NDArray[np.int64]]:
    """Combine rows 0 and 1, 2 and 3, ... of every segment; an odd last row stays as it is."""
    ends = np.cumsum(lengths)
    offsets = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    even = (offsets & 1) == 0
    right = np.flatnonzero(~even)
    pairs = combine(_take(states, right - 1), _take(states, right))
    # Among the rows that stay, those with a right neighbour take the pair's states.
    places = np.cumsum(even)[right - 1] - 1
    kept = _take(states, even)
    for column, pair in zip(kept, pairs, strict=True):
        column[places] = pair
    return kept, (lengths + 1) // 2


def _take(states: States, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> States:
    return tuple(column[rows] for column in states)
