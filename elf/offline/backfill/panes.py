"""What Spark computed, as PAO frames: the columns and types of a job's panes (`elf.cbt.schema`).

Spark hands its rows over as Parquet files, which are read once and go: nothing is saved by making them small. The slot
of a distinct value is the aggregate's own to say: a sketch that is merged with those of agents has to hash values, or
cut buckets, as they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from elf.cbt import INTERVAL, PaoSchema, encode
from elf.cbt.aggregates import Slotted
from elf.cbt.folding import completed
from elf.offline.backfill.states import TIMES, VALUE
from elf.offline.session import OfflineError
from elf.overlay.contract import PAYLOAD_BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How Spark writes them: a dictionary and a codec would take longer than a row's own bytes.
_HANDED_OVER = {"compression": "none", "parquet.enable.dictionary": "false"}
#: Bytes of a block that is loaded at once, and intervals with rows in it: what a master merges in about a second.
BLOCK_BYTES = 4 << 20
INTERVALS_MAX = 500
#: Rows of a frame take at least so many bytes in memory for one in a block.
_PACKED = 4


def hand_over(frame: DataFrame, folder: Path, name: str) -> None:
    """Have Spark write the frame of one aggregate, or under "" the plain rows, to where `read_frames` looks for it."""
    frame.write.options(**_HANDED_OVER).parquet(str(folder / (name or "plain")))


def read_frames(folder: Path, schema: PaoSchema) -> pl.DataFrame:
    """Read what `hand_over` wrote into a folder for one block of intervals.

    Returns:
        PAO rows in the order of their intervals, one for each (interval, keys, slots).
    """
    frames = [schema.empty()]
    plain = _read(folder / "plain")
    if plain is not None:
        unslotted = [(name, each) for name, each in schema.aggregates if not isinstance(each, Slotted)]
        states = {state for name, each in unslotted for state in each.states(name)}
        frames.append(completed(_typed(plain, schema, states), schema, {}))
    for name, aggregate in schema.aggregates:
        values = _read(folder / name) if isinstance(aggregate, Slotted) else None
        if values is not None and isinstance(aggregate, Slotted):
            frames.append(_slotted(_typed(values, schema, set()), name, aggregate, schema))
    return pl.concat(frames).sort(INTERVAL, maintain_order=True)


def cut(rows: pl.DataFrame, first: int, last: int) -> Iterator[tuple[int, int, bytes]]:
    """Cut the rows of a run of intervals into blocks that can be loaded: first and last interval, and the bytes.

    The blocks cover the run without gaps; the rows of an interval are in one block.

    Raises:
        OfflineError: an interval is too large for one.
    """
    sizes = rows.group_by(INTERVAL, maintain_order=True).len()
    row_bytes = rows.estimated_size() / max(rows.height, 1) / _PACKED
    ends: list[tuple[int, int]] = []
    begin = count = taken = 0
    for interval, length in sizes.iter_rows():
        full = taken and ((taken + length) * row_bytes > BLOCK_BYTES or count == INTERVALS_MAX)
        if full:
            ends.append((interval - 1, begin + taken))
            begin, taken, count = begin + taken, 0, 0
        taken, count = taken + length, count + 1
    ends.append((last, rows.height))
    begin = 0
    for until, end in ends:
        # There is one row of each key already, and the master puts each interval into the order of its panes.
        block = encode(rows[begin:end])
        if len(block) > PAYLOAD_BYTES_MAX - (64 << 10):
            raise OfflineError(
                f"intervals {first} to {until} have {end - begin} rows in {len(block)} bytes, more than can be loaded "
                "at once; publish the job with a shorter `interval`, or with more `trees`"
            )
        yield first, until, block
        first, begin = until + 1, end


def _read(folder: Path) -> pl.DataFrame | None:
    files = sorted(folder.glob("*.parquet"))
    return pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in files]) if files else None


def _typed(frame: pl.DataFrame, schema: PaoSchema, states: set[str]) -> pl.DataFrame:
    """Give keys and states their types: dates and times came as their number."""
    kinds = {INTERVAL: pl.Int64(), **dict(schema.keys), **{name: schema.states[name] for name in states}}
    return frame.with_columns(pl.col(name).cast(kinds[name]) for name in frame.columns if name in kinds)


def _slotted(values: pl.DataFrame, name: str, aggregate: Slotted, schema: PaoSchema) -> pl.DataFrame:
    """Turn distinct values with their counts into the slot rows of an aggregate."""
    dtype = aggregate.dtype
    value = _struct(dtype) if isinstance(dtype, pl.Struct) else pl.col(f"{VALUE}0").cast(dtype)
    keys = [INTERVAL, *schema.key_names]
    items = values.select(*keys, TIMES, aggregate.item(value).alias(name)).filter(pl.col(name).is_not_null())
    slots = [slot.alias(column) for column, slot in aggregate.slot(name, pl.col(name)).items()]
    counted = [merge.states[0] for merge in aggregate.merges(name) if merge.how == "sum"]
    grouped = items.group_by(*keys, *slots)
    counts = [pl.col(TIMES).sum().cast(pl.Int64).alias(column) for column in counted]
    others = [each for each in aggregate.create(name, pl.col(name)) if each.meta.output_name() not in counted]
    return completed(grouped.agg(*counts, *others), schema, {})


def _struct(dtype: pl.Struct) -> pl.Expr:
    return pl.struct(
        pl.col(f"{VALUE}{index}").cast(field.dtype).alias(field.name) for index, field in enumerate(dtype.fields)
    )
