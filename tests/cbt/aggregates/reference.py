"""What the kernel does to PAO rows, done plainly: one pair of rows at a time, in the order they come."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.testing import assert_frame_equal

from elf.cbt.aggregates import States, check_sums
from elf.cbt.aggregates.contract import Aggregate
from elf.cbt.folding import creator, finish
from elf.cbt.schema import INTERVAL

WORDS = {"sum": np.add, "min": np.fmin, "max": np.maximum}


@dataclasses.dataclass(frozen=True)
class Schema:
    """As `PaoSchema`, without its tree."""

    keys: tuple[tuple[str, pl.DataType], ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    @property
    def slots(self) -> dict[str, pl.DataType]:
        return {slot: dtype for name, each in self.aggregates for slot, dtype in each.slots(name).items()}

    @property
    def columns(self) -> dict[str, pl.DataType]:
        states = {column: dtype for name, each in self.aggregates for column, dtype in each.states(name).items()}
        return {INTERVAL: pl.Int64(), **dict(self.keys), **self.slots, **states}


def single(aggregate: Aggregate) -> Schema:
    """One aggregate `a` by one key `k`."""
    return Schema((("k", pl.String()),), (("a", aggregate),))


def raw(rows: Iterable[tuple[str | None, Any]], dtype: pl.DataType) -> pl.DataFrame:
    """Raw rows of one interval."""
    listed = list(rows)
    series = (pl.Series("k", [k for k, _ in listed], dtype=pl.String), pl.Series("v", [v for _, v in listed], dtype))
    return pl.DataFrame(series).select(pl.lit(0, dtype=pl.Int64).alias(INTERVAL), "k", "v")


def made(schema: Schema, frame: pl.DataFrame) -> pl.DataFrame:
    """PAO rows, of the column `v` for all aggregates; checked to be what the contract says."""
    paos = creator(schema, {name: pl.col("v") for name, _ in schema.aggregates})(frame)
    assert dict(paos.schema) == schema.columns
    states = [column for column in paos.columns if column not in (INTERVAL, *schema.key_names, *schema.slots)]
    assert not sum(paos.select(states).null_count().row(0)), "states are never null"
    return paos


def answers(paos: pl.DataFrame, schema: Schema, name: str = "a") -> dict[Any, Any]:
    """Final values by key."""
    final = finish(paos.drop(INTERVAL), schema)
    assert final.schema[name] == dict(schema.aggregates)[name].output
    return dict(zip(final["k"], final[name].to_list(), strict=True))


def merged(frames: Sequence[pl.DataFrame], schema: Schema) -> pl.DataFrame:
    """Merge PAO frames: rows of equal keys and slots, pair by pair."""
    rows = pl.concat([pl.DataFrame(schema=schema.columns), *frames])
    by = [INTERVAL, *schema.key_names, *schema.slots]
    if not rows.height:
        return rows
    groups = rows.with_row_index("__row").group_by(by, maintain_order=True).agg("__row")
    out = groups.select(by)
    for name, each in schema.aggregates:
        for merge in each.merges(name):
            arrays = [_array(rows[column]) for column in merge.states]
            results = [_fold(arrays, indices, merge.how) for indices in groups["__row"].to_list()]
            for place, column in enumerate(merge.states):
                out = out.with_columns(_series(column, [result[place] for result in results], rows[column]))
    return out.select(list(schema.columns))


def _fold(arrays: list[npt.NDArray[Any]], rows: list[int], how: Any) -> list[Any]:
    left: States = tuple(array[rows[:1]] for array in arrays)
    for row in rows[1:]:
        right = tuple(array[[row]] for array in arrays)
        if callable(how):
            left = how(left, right)
        else:
            if how == "sum":
                for a, b in zip(left, right, strict=True):
                    check_sums(np.concatenate([a, b]), np.array([0]), "a")
            left = tuple(WORDS[how](a, b) for a, b in zip(left, right, strict=True))
    return [column[0] for column in left]


def _array(column: pl.Series) -> npt.NDArray[Any]:
    if column.dtype == pl.String:
        return column.rank("dense").to_numpy().astype(np.int64)
    if column.dtype == pl.Binary:
        array = np.empty(column.len(), dtype=object)
        array[:] = column.to_list()
        return array
    if column.dtype == pl.Boolean:
        return column.to_numpy().astype(np.uint8)
    return column.to_numpy().astype(np.float64 if column.dtype == pl.Float64 else np.int64)


def _series(name: str, values: list[Any], like: pl.Series) -> pl.Series:
    if like.dtype == pl.String:
        words = dict(zip(_array(like).tolist(), like.to_list(), strict=True))
        return pl.Series(name, [words[int(value)] for value in values], dtype=pl.String)
    if like.dtype == pl.Binary:
        return pl.Series(name, values, dtype=pl.Binary)
    return pl.Series(name, np.array(values)).cast(like.dtype)


def negated(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The inverse of PAO rows of invertible aggregates."""
    states = [column for name, each in schema.aggregates for column in each.states(name)]
    return frame.with_columns(-pl.col(states))


def assert_same_rows(one: pl.DataFrame, other: pl.DataFrame, schema: Schema, exact: bool = True) -> None:
    """Equal as sets of rows; doubles to the bit but for the sign of zero, or nearly."""
    by = [INTERVAL, *schema.key_names, *schema.slots]
    assert_frame_equal(one.sort(by), other.sort(by), check_exact=exact, rel_tol=1e-12, abs_tol=1e-300)
