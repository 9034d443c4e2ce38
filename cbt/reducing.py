"""Merging the state columns of equal keys: each aggregate's own laws, applied to whole columns at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.aggregates import AggregateOverflow, Merge, check_sums, segmented
from elf.cbt.columns import Index
from elf.cbt.native import kernels
from elf.cbt.rows import Reduce, State

Array = npt.NDArray[Any]
#: Merges the state columns of two frames row by row.
Combiner = Callable[[list[Array], list[Array]], list[Array]]


def reducer(columns: Sequence[str], merges: Sequence[Merge]) -> Reduce:
    """Make the function that merges rows' state columns.

    Args:
        columns: names of the state columns, in order.
        merges: which of them merge how; each column in exactly one.

    Raises:
        ValueError: the merges do not cover the columns.
    """
    place = {name: number for number, name in enumerate(columns)}
    if sorted(name for merge in merges for name in merge.states) != sorted(columns):
        raise ValueError(f"merges {merges} have to name each of the columns {list(columns)} once")

    def reduce(states: list[State], starts: Index) -> list[State]:
        arrays, restore = _as_arrays(states)
        merged: list[Array] = list(arrays)
        for merge in merges:
            numbers = [place[name] for name in merge.states]
            if callable(merge.how):
                results = segmented(tuple(arrays[n] for n in numbers), starts, merge.how)
                for number, result in zip(numbers, results, strict=True):
                    merged[number] = result
            else:
                for number in numbers:
                    merged[number] = _WORDS[merge.how](arrays[number], starts, columns[number])
        return restore(merged)

    return reduce


def combiner(columns: Sequence[str], merges: Sequence[Merge]) -> Combiner:
    """Make the function that merges PAOs row by row, of arrays of numbers; the arguments are as for `reducer`."""
    place = {name: number for number, name in enumerate(columns)}

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        merged = list(left)
        for merge in merges:
            numbers = [place[name] for name in merge.states]
            if callable(merge.how):
                both = (tuple(side[number] for number in numbers) for side in (left, right))
                for number, result in zip(numbers, merge.how(*both), strict=True):
                    merged[number] = result
            else:
                for number in numbers:
                    merged[number] = _PAIRS[merge.how](left[number], right[number], columns[number])
        return merged

    return combine


def _add(left: Array, right: Array, column: str) -> Array:
    total: Array = left + right
    if total.dtype == np.int64 and bool((((left ^ total) & (right ^ total)) < 0).any()):
        raise AggregateOverflow.of(column)
    return total


def _lesser(left: Array, right: Array, column: str) -> Array:
    return np.asarray((np.fmin if left.dtype.kind == "f" else np.minimum)(left, right))


def _greater(left: Array, right: Array, column: str) -> Array:
    return np.asarray(np.maximum(left, right))


_PAIRS: dict[str, Callable[[Array, Array, str], Array]] = {"sum": _add, "min": _lesser, "max": _greater}


def _sum(values: Array, starts: Index, column: str) -> Array:
    if values.dtype != np.int64:
        return np.asarray(np.add.reduceat(values, starts))
    if kernels is not None:
        merged = np.empty(starts.size, dtype=np.int64)
        if kernels.sum_runs(np.require(values, requirements=["C", "A"]), starts, merged):
            return merged
    check_sums(values, starts, column)
    # Differences of the running total: a third of the time of reduceat, and right however often the total wraps.
    totals = np.cumsum(values)
    merged = np.empty(starts.size, dtype=np.int64)
    np.take(totals, starts[1:] - 1, out=merged[:-1], mode="clip")
    merged[-1] = totals[-1]
    merged[1:] -= merged[:-1].copy()
    return merged


def _min(values: Array, starts: Index, column: str) -> Array:
    # NaN is larger than any number (Spark): fmin returns it only where there is nothing else.
    function = np.fmin if values.dtype.kind == "f" else np.minimum
    return np.asarray(function.reduceat(values, starts))


def _max(values: Array, starts: Index, column: str) -> Array:
    return np.asarray(np.maximum.reduceat(values, starts))


_WORDS: dict[str, Callable[[Array, Index, str], Array]] = {"sum": _sum, "min": _min, "max": _max}


def _as_arrays(states: list[State]) -> tuple[list[Array], Callable[[list[Array]], list[State]]]:
    """Present strings as ranks and binaries as objects; also return the way back."""
    arrays: list[Array] = []
    distinct: dict[int, pl.Series] = {}
    for number, state in enumerate(states):
        if isinstance(state, np.ndarray):
            arrays.append(state)
        elif state.dtype == pl.String:
            distinct[number] = state.unique().sort()
            arrays.append(state.rank("dense").to_numpy().astype(np.int64) - 1)
        else:
            arrays.append(state.to_numpy())

    def restore(merged: list[Array]) -> list[State]:
        back: list[State] = []
        for number, (state, array) in enumerate(zip(states, merged, strict=True)):
            if isinstance(state, np.ndarray):
                back.append(array)
            elif number in distinct:
                back.append(distinct[number].gather(array))
            else:
                back.append(pl.Series(array.tolist(), dtype=pl.Binary))
        return back

    return arrays, restore
