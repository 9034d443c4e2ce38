"""The kernels that take lines apart, in C; without a compiler the twin in Python does their work.

The twin (`elf.agents.sources.layouts.twin`) defines the result, offset for offset. Each kernel lets other threads run
while it works; they must not change its arguments meanwhile. LINES section 8.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

#: Where lines end: the place of each newline.
Ends = npt.NDArray[np.int64]
#: Of each row where a text begins and ends in the block; -1 and -1 if it is null. Shape (rows, 2).
Spans = npt.NDArray[np.int32]
#: One bit a row, the lowest first: whether there is a value.
Bitmap = npt.NDArray[np.uint8]
#: Lines that fit no layout: number, the layout that got furthest, its step, the byte of the line. Shape (lines, 4).
Misfits = npt.NDArray[np.int32]


class Kernels(Protocol):
    """What takes blocks of lines apart; arguments that do not fit together raise ValueError.

    A block is valid UTF-8 of less than 2 GiB, and each of its lines ends with a newline.
    """

    def take_apart(
        self,
        programs: Sequence[bytes],
        block: bytes,
        ends: Ends,
        spans: Sequence[Spans],
        times: npt.NDArray[np.int64],
        layouts: npt.NDArray[np.uint8],
        misfits: Misfits,
        /,
    ) -> tuple[int, int]:
        """Take lines apart by the first program that fits each.

        Args:
            programs: as `elf.agents.sources.layouts.program.encoded` has them.
            block: the lines.
            ends: of all of them.
            spans: of each output of the programs where its values are; room for all lines.
            times: the event times, as `read_time` has them, `NO_TIME` of lines that say none; room for all lines.
            layouts: of each line that fits the number of its program; room for all lines.
            misfits: the lines that fit no program; room for all lines.

        Returns:
            How many lines fit, in their order, and how many do not.
        """

    def pairs(
        self, style: int, names: tuple[bytes, ...], block: bytes, ends: Ends, spans: Sequence[Spans], misfits: Spans, /
    ) -> tuple[int, int]:
        """Take lines of names and values apart.

        Args:
            style: of `elf.agents.sources.pairs.reading.Style`.
            names: whose values are wanted.
            block: the lines.
            ends: of all of them.
            spans: of each name where its values are, between their quotes; room for all lines.
            misfits: the lines that do not fit: number, and the byte where it stops to; room for all lines.

        Returns:
            How many lines fit, in their order, and how many do not.
        """

    def integers(self, block: bytes, spans: Spans, out: npt.NDArray[np.int64], valid: Bitmap, /) -> int:
        """Read integers; `-` is 0. Returns how many are beyond 64 bits, which are null."""

    def decimals(
        self, block: bytes, spans: Spans, is_duration: bool, out: npt.NDArray[np.float64], valid: Bitmap, /
    ) -> int:
        """Read numbers, or durations in s, correctly rounded. Returns how many are beyond a double, which are null."""

    def requests(self, block: bytes, spans: Spans, method: Spans, uri: Spans, protocol: Spans, /) -> None:
        """Take requests apart; all three are null of one that is malformed."""

    def uris(self, block: bytes, spans: Spans, path: Spans, query: Spans, host: Spans | None, /) -> None:
        """Take paths and queries apart; with `host`, also `scheme://host`."""

    def gather(self, block: bytes, spans: Spans, offsets: npt.NDArray[np.int64], valid: Bitmap, /) -> tuple[bytes, int]:
        """Copy texts one after the other; writes where each begins and the last ends. Also tells how many are null."""


def built() -> Kernels | None:
    """Return the kernels in C, if there are any."""
    try:
        return cast(Kernels, importlib.import_module("elf.agents.sources.native._kernels"))
    except ImportError:
        return None
