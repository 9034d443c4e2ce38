"""Arrays filled a value at a time, as the twins of the kernels do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from elf.agents.sources.native import Bitmap, Spans


def fill_numbers(
    block: bytes, spans: Spans, read: Callable[[bytes], float | None], out: npt.NDArray[Any], valid: Bitmap
) -> int:
    """Read numbers, or booleans, of the texts of a block; returns how many of these are none. 1 us each and more."""
    has, unfit = np.zeros(len(spans), np.bool_), 0
    for row, (begin, end) in enumerate(spans.tolist()):
        value = read(block[begin:end]) if begin >= 0 else None
        has[row] = value is not None
        out[row] = 0 if value is None else value
        unfit += begin >= 0 and value is None
    valid[:] = np.packbits(has, bitorder="little")
    return unfit
