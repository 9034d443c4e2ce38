"""Columns of what kernels find, with no copy but their own."""

from __future__ import annotations

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources.native import Kernels, Spans


def gathered(kernels: Kernels, name: str, block: bytes, spans: Spans) -> tuple[pl.Series, bytes]:
    """Make a column of the texts at some places of a block; also return all their bytes. O(bytes)."""
    offsets, valid = np.empty(len(spans) + 1, np.int64), np.empty((len(spans) + 7) // 8, np.uint8)
    data, nulls = kernels.gather(block, spans, offsets, valid)
    buffers = [valid if nulls else None, offsets, data]
    array = nanoarrow.c_array_from_buffers(nanoarrow.large_string(), len(spans), buffers, null_count=nulls)
    return pl.Series(array).alias(name), data


def imported(
    name: str, kind: nanoarrow.Schema, values: npt.NDArray[np.generic], valid: npt.NDArray[np.uint8]
) -> pl.Series:
    """Make a column of numbers and the bitmap of those that are there."""
    return pl.Series(nanoarrow.c_array_from_buffers(kind, len(values), [valid, values])).alias(name)
