"""Columns made of buffers that kernels have filled, without copying them."""

from __future__ import annotations

from typing import Protocol

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl
from nanoarrow.c_schema import CSchema

#: Types of columns; made once, for it takes longer than to make a short column.
INT64, UINT32, FLOAT64 = map(nanoarrow.c_schema, (nanoarrow.int64(), nanoarrow.uint32(), nanoarrow.float64()))
_BOOLEAN, _TEXT = map(nanoarrow.c_schema, (nanoarrow.bool_(), nanoarrow.large_string()))


class Gather(Protocol):
    """Copies texts of rows; as `elf.agents.sources.native.Kernels.gather` behind its first arguments."""

    def __call__(self, offsets: npt.NDArray[np.int64], valid: npt.NDArray[np.uint8], /) -> tuple[bytes, int]:
        """Fill the arrays; returns the texts, one after the other, and how many rows have none."""


def bitmap(rows: int) -> npt.NDArray[np.uint8]:
    """Return room for one bit a row."""
    return np.empty((rows + 7) // 8, np.uint8)


def numbers(name: str, kind: CSchema, values: npt.NDArray[np.generic], valid: npt.NDArray[np.uint8]) -> pl.Series:
    """Make a column of numbers."""
    return pl.Series(nanoarrow.c_array_from_buffers(kind, len(values), [valid, values])).alias(name)


def booleans(name: str, rows: int, values: npt.NDArray[np.uint8], valid: npt.NDArray[np.uint8]) -> pl.Series:
    """Make a column of booleans."""
    return pl.Series(nanoarrow.c_array_from_buffers(_BOOLEAN, rows, [valid, values])).alias(name)


def texts(name: str, rows: int, gather: Gather) -> pl.Series:
    """Make a column of texts."""
    return texts_and_bytes(name, rows, gather)[0]


def texts_and_bytes(name: str, rows: int, gather: Gather) -> tuple[pl.Series, bytes]:
    """Make a column of texts; also return all their bytes."""
    offsets, valid = np.empty(rows + 1, np.int64), bitmap(rows)
    data, nulls = gather(offsets, valid)
    buffers = [valid if nulls else None, offsets, data]
    array = nanoarrow.c_array_from_buffers(_TEXT, rows, buffers, null_count=nulls)
    return pl.Series(array).alias(name), data
