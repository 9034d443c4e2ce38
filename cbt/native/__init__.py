"""The buffer tree's kernels in C, which do in one pass over a column what takes NumPy five to twenty.

They are optional: whoever calls one has the same in NumPy, which defines the result, bit for bit, and does the work
where elf was installed without a compiler. Each lets other threads run while it works; they must not change its
arguments meanwhile.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from elf.cbt.columns import Index, Words, is_constant

#: A column as kernels take it: the value of all rows, or a contiguous, aligned array of integers of 1, 2, 4 or 8 bytes.
Argument = int | npt.NDArray[Any]

#: Of rows: number of the first length among a key's words, of the first text, of all; how each state merges.
Shape = tuple[int, int, int, bytes]


class Kernels(Protocol):
    """What `module.c` offers; arguments that do not fit together raise ValueError."""

    def pack(self, values: Argument, rows: int, sizes: Argument | None, word: int, relative: bool, /) -> bytes:
        """Pack a column of so many rows (`elf.cbt.packing`); of text, if there are `sizes`, its word of that number."""

    def unpack(
        self, data: bytes | memoryview, at: int, sizes: Argument | None, word: int, out: npt.NDArray[Any], /
    ) -> int:
        """Unpack such a column from byte `at` on; returns where the next begins."""

    def hash_words(self, columns: list[Argument], out: Words, /) -> None:
        """Hash keys (`elf.cbt.hashing.hash_words`)."""

    def sort_packed(self, packed: Words, /) -> None:
        """Sort by the upper 40 bits, in place and stably; takes as much memory again."""

    def first_rows(self, columns: list[Argument], packed: Words, starts: Index, /) -> int:
        """Write where among sorted rows each key begins; returns how many do, -1 if keys of one order alternate."""

    def locate(self, many: list[Argument], few: list[Argument], order: Words, wanted: Words, places: Index, /) -> bool:
        """Write where among many sorted rows the keys of few are (`elf.cbt.patching`); false if keys collide."""

    def take(self, values: Argument, packed: Words, starts: Index | None, out: npt.NDArray[Any], /) -> None:
        """Gather the values of sorted rows, or of those of them that are at `starts`, as items of 8 bytes."""

    def sum_runs(self, values: Index, starts: Index, out: Index, /) -> bool:
        """Add up runs that begin at `starts`; false if a sum left 64 bits on its way, and `out` means nothing."""

    def merge_blocks(
        self, blocks: Sequence[memoryview], shape: Shape, bounds: Words, most: int, /
    ) -> list[tuple[int, bytes, int, int]] | None:
        """Merge packed columns of sorted rows into (part, packed columns, rows, lowest order) (`elf.cbt.fusing`)."""

    def write_ranked(
        self, columns: list[Argument], packed: Words, shape: Shape, bounds: Words, most: int, /
    ) -> list[tuple[int, bytes, int, int]] | None:
        """Merge rows, words first, then states, whose orders and numbers are sorted, into such pieces."""

    def words_of_views(
        self, views: Words, texts: list[npt.NDArray[np.uint8]], rows: Index | None, count: int, out: Words, /
    ) -> None:
        """Write strings, Arrow's views into `texts`, as zero-padded words, column after column."""


def _built() -> Kernels | None:
    try:
        return cast(Kernels, importlib.import_module("elf.cbt.native._kernels"))
    except ImportError:
        return None


kernels = _built()


def argument(column: npt.NDArray[Any]) -> Argument:
    """A column that has rows, as kernels take it."""
    if is_constant(column):
        return int(column[0])
    contiguous = np.ascontiguousarray(column)
    return contiguous if contiguous.flags.aligned else contiguous.copy()
