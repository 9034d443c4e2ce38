"""Which partition a key is of, where a job's keys are spread over several trees.

The fixed hash of the key decides (`elf.cbt.hashing`), and nothing else: not the interval, not the slots of an
aggregate, not the frame that a row stands in. So all agents put a key into the same partition, and all rows of it are
in one.
Paper: §2.3 (m trees for functions like WordCount, each responsible for a range of the keys).
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.columns import Words
from elf.cbt.schema import INTERVAL, PaoSchema
from elf.cbt.words import KeyLayout


def partitions_of(frame: pl.DataFrame, schema: PaoSchema, count: int) -> npt.NDArray[np.int64]:
    """Return the partition, 0 <= partition < count, of each row of a PAO frame; shape (rows,). O(rows)."""
    layout = _layout(schema)
    found = np.zeros(frame.height, dtype=np.int64)
    for rows, words in layout.encode(frame):
        hashed: Words = layout.partition_hash(words) % np.uint64(count)
        found[slice(None) if rows is None else rows] = hashed.view(np.int64)
    return found


def split(frame: pl.DataFrame, schema: PaoSchema, count: int) -> list[pl.DataFrame]:
    """Split a PAO frame into those of `count` partitions; rows stay in their order. O(rows log rows)."""
    if count == 1:
        return [frame]
    partitions = partitions_of(frame, schema, count)
    rows = np.argsort(partitions, kind="stable")
    bounds = np.searchsorted(partitions[rows], np.arange(count + 1)).tolist()
    ordered = frame[rows]
    return [ordered.slice(bounds[part], bounds[part + 1] - bounds[part]) for part in range(count)]


@functools.lru_cache(maxsize=256)
def _layout_of(keys: tuple[tuple[str, pl.DataType], ...]) -> KeyLayout:
    return KeyLayout(((INTERVAL, pl.Int64()), *keys))


def _layout(schema: PaoSchema) -> KeyLayout:
    """The words of the keys alone; those of slots tell rows of one key apart."""
    return _layout_of(schema.keys)
