"""Blocks merged into blocks by a kernel, with no rows in between: what a buffer that is full comes down to.

Packed columns are read, merged and packed again some rows at a time, so it takes a fraction of the time and of the
memory that rows do. Not all rows can be merged so: states that are not numbers, whose aggregates have a function of
their own, keys of very many words, and sums that leave 64 bits are for `elf.cbt.rows`, which says what the result is.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from elf.cbt.aggregates.contract import Merge
from elf.cbt.blocks import BlockFormat
from elf.cbt.columns import Words
from elf.cbt.hashing import WIDE_WORDS
from elf.cbt.native import Argument, kernels

#: Words and states of a row, as in blocks.h.
_COLUMNS_MAX = 96
#: How a state merges: its word and type, in the order of the kernel's kinds (blocks.h).
_KINDS: list[tuple[object, str]] = [
    ("sum", "i"),
    ("min", "i"),
    ("max", "i"),
    ("min", "f"),
    ("max", "f"),
    ("min", "b"),
    ("max", "b"),
]


class Piece(NamedTuple):
    """A block that has been written.

    Attributes:
        part: how many of the bounds are not above it.
        data: the block.
        rows: in it.
        low: the lowest order among them.
    """

    part: int
    data: bytes
    rows: int
    low: int


class Fusing(msgspec.Struct, frozen=True):
    """Merges the blocks of one tree.

    Attributes:
        format: of its blocks.
        kinds: of its states, for the kernel.
    """

    format: BlockFormat
    kinds: bytes

    def merged(self, blocks: Iterable[bytes], width: int, bounds: Sequence[int], most: int) -> Iterator[Piece] | None:
        """Merge sorted blocks. O(rows log blocks).

        Args:
            blocks: at least one.
            width: words of their keys.
            bounds: no block that is written has rows on both sides of one of these orders; ascending.
            most: rows of a block that is written, about.

        Returns:
            None if it cannot be done here.
        """
        if kernels is None or not self._takes(width):
            return None
        bodies = [self.format.body(block) for block in blocks]
        return self._pieces(kernels.merge_blocks(bodies, self._shape(width), _words(bounds), most))

    def ranked(
        self, columns: Sequence[Argument], packed: Words, width: int, bounds: Sequence[int], most: int
    ) -> Iterator[Piece] | None:
        """Merge rows in any order, at least one. O(rows).

        Args:
            columns: their words, then their states.
            packed: sorted; each row's order, with its number in the lower bits (`elf.cbt.rows.Ranked`).
            width: as for `merged`.
            bounds: likewise.
            most: likewise.

        Returns:
            As `merged`.
        """
        if kernels is None or not self._takes(width):
            return None
        return self._pieces(kernels.write_ranked([*columns], packed, self._shape(width), _words(bounds), most))

    def _takes(self, width: int) -> bool:
        """Whether keys of so many words are hashed word by word, and rows are not too wide."""
        return width - 1 <= WIDE_WORDS and width + len(self.kinds) <= _COLUMNS_MAX

    def _shape(self, width: int) -> tuple[int, int, int, bytes]:
        return self.format.layout.lengths_at, self.format.layout.text_at, width, self.kinds

    def _pieces(self, written: list[tuple[int, bytes, int, int]] | None) -> Iterator[Piece] | None:
        return None if written is None else map(self._piece, written)

    def _piece(self, written: tuple[int, bytes, int, int]) -> Piece:
        part, body, rows, low = written
        return Piece(part, self.format.compressed(body), rows, low)


def fusing(format: BlockFormat, columns: Sequence[str], merges: Sequence[Merge]) -> Fusing | None:
    """Return what merges blocks of these state columns; None if these are not for a kernel."""
    how = {column: merge.how for merge in merges for column in merge.states}
    kinds = [(how[column], _family(dtype)) for column, dtype in zip(columns, format.states, strict=True)]
    if kernels is None or not all(kind in _KINDS for kind in kinds):
        return None
    return Fusing(format, bytes(map(_KINDS.index, kinds)))


def _family(dtype: pl.DataType) -> str:
    if dtype in (pl.String, pl.Binary):
        return "text"
    return "b" if dtype == pl.Boolean else "f" if dtype.is_float() else "i"


def _words(bounds: Sequence[int]) -> Words:
    return np.array(bounds, dtype=np.uint64)
