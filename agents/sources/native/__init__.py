"""The kernels that take lines apart, in C; without a compiler their twins in Python do their work.

The twins (`elf.agents.sources.layouts.twin`, `elf.agents.sources.objects.twin`) define the result, offset for offset.
Each kernel lets other threads run while it works; they must not change its arguments meanwhile. LINES section 8.
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
#: Lines that are no objects: number, why (`elf.agents.sources.objects.line.Why`), the byte of the line. Shape
#: (lines, 3).
Unfit = npt.NDArray[np.int32]
#: Values of a column that `object_codes` tells apart at most.
DISTINCT_MAX = 1024


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
            style: of `elf.agents.sources.pairs.line.Style`.
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


class ObjectKernels(Protocol):
    """What reads blocks of lines that are objects of JSON; arguments that do not fit together raise ValueError.

    A block is as for `Kernels`. Spans are of values as they are written, texts with their quotes.
    """

    def read_objects(
        self,
        program: bytes,
        block: bytes,
        begin: int,
        ends: Ends,
        spans: Sequence[Spans],
        escaped: npt.NDArray[np.uint8],
        misfits: Unfit,
        /,
    ) -> tuple[int, int]:
        """Read lines, every byte of them.

        Args:
            program: as `elf.agents.sources.objects.program.encoded` has it.
            block: the lines, and maybe others.
            begin: where the first line begins.
            ends: of all of them.
            spans: of each output of the program where its values are; null where a line has none, or JSON null. Room
                for all lines.
            escaped: of each output whether any of its values is a text with escapes.
            misfits: the lines that are no objects; room for all lines.

        Returns:
            How many lines are objects, in their order, and how many are none.
        """

    def object_integers(
        self, block: bytes, spans: Spans, bits: int, out: npt.NDArray[np.int64], valid: Bitmap, /
    ) -> int:
        """Read integers of 32 or 64 bits. Returns how many values are none, which are null."""

    def object_decimals(self, block: bytes, spans: Spans, out: npt.NDArray[np.float64], valid: Bitmap, /) -> int:
        """Read doubles, correctly rounded. Returns how many values are none, which are null."""

    def object_booleans(self, block: bytes, spans: Spans, out: Bitmap, valid: Bitmap, /) -> int:
        """Read booleans. Returns how many values are none, which are null."""

    def object_times(self, block: bytes, spans: Spans, out: npt.NDArray[np.int64], /) -> int:
        """Read event times in ms: ISO-8601 and epoch numbers. Returns how many values are left, as `NO_TIME`.

        The kernel leaves some values, too, that are times, but not the usual ones.
        """

    def object_texts(
        self, block: bytes, spans: Spans, escaped: bool, offsets: npt.NDArray[np.int64], valid: Bitmap, /
    ) -> tuple[bytes, int]:
        """Copy texts without quotes and escapes, and other values as they are written; otherwise as `gather`.

        Args:
            block: the lines.
            spans: where the values are.
            escaped: whether any of them may have escapes.
            offsets: is filled with where each begins and the last one ends.
            valid: is filled with which there are.
        """

    def object_codes(
        self, block: bytes, spans: Spans, codes: npt.NDArray[np.uint32], firsts: Spans, valid: Bitmap, /
    ) -> tuple[int, int]:
        """Tell which values are the same, as they are written.

        Args:
            block: the lines.
            spans: where the values are.
            codes: is filled with the number of each row's value.
            firsts: is filled with where the value of each number is first; room for `DISTINCT_MAX`.
            valid: is filled with which rows have a value.

        Returns:
            How many values there are, or -1: more than `DISTINCT_MAX`, or nobody has looked; and how many rows have
            none.
        """


class SweepKernels(Protocol):
    """What looks at chunks as a whole."""

    def sweep(self, chunk: bytes, longest: int, out: Ends, /) -> tuple[int, bool, bool]:
        """Find the newlines.

        Args:
            chunk: whole lines.
            longest: how many bytes lines have at most that are plain.
            out: is filled with the places of newlines, as many as there is room for.

        Returns:
            How many there are; whether all lines are plain: without other bytes up to the carriage return, not too
            long, and none of them begins with the first byte of a byte order mark; and whether it is valid UTF-8.
        """

    def is_utf8(self, chunk: bytes, /) -> bool:
        """Tell whether it is valid UTF-8."""


class DictionaryKernels(Protocol):
    """What numbers values."""

    def look_up(
        self,
        block: bytes,
        spans: Spans,
        first: int,
        slots: npt.NDArray[np.uint64],
        texts: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        known: int,
        codes: npt.NDArray[np.uint32],
        valid: Bitmap,
        /,
    ) -> tuple[int, int, int]:
        """Look values up, as they are written, in a dictionary; those that it does not have get the next numbers.

        Args:
            block: the lines.
            spans: where the values are.
            first: the row to begin with.
            slots: the dictionary's hash table, zeros at first; a power of two.
            texts: its values, one after the other.
            offsets: where each of these begins, and the last one ends; 0 at first.
            known: how many it has.
            codes: is filled with the number of each row's value, 0 where it has none.
            valid: is filled with which rows have a value.

        Returns:
            The row whose value there is no room for, or the number of rows; how many values the dictionary has; how
            many of the rows looked at have none.
        """

    def fill_slots(
        self,
        slots: npt.NDArray[np.uint64],
        texts: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        known: int,
        /,
    ) -> int:
        """Fill a hash table, all zeros, with what a dictionary has; returns how much of it, for many may be alike."""


class RecordKernels(Protocol):
    """What finds the records of CSV; its twin is `elf.agents.sources.headed.records`."""

    def records(
        self, data: bytes, ends: Ends, separator: int, bytes_max: int, lines_max: int, lasts: Ends, /
    ) -> tuple[int, int]:
        """Find where records end, of which values between quotes may hold newlines.

        Args:
            data: clean lines.
            ends: where they end.
            separator: the byte between values.
            bytes_max: the most that a record of several lines has.
            lines_max: the most lines that one has.
            lasts: is filled with the number of the line that each record ends with; room for all lines.

        Returns:
            How many records there are, and the line with which one begins that has no end yet; the number of lines if
            none does.
        """


def built() -> Kernels | None:
    """Return the kernels in C, if there are any."""
    try:
        return cast(Kernels, importlib.import_module("elf.agents.sources.native._kernels"))
    except ImportError:
        return None


def named() -> str:
    """Say which kernels read log lines here: `c`, or `none`, and all is slower."""
    return "none" if built() is None else "c"


def built_for_objects() -> ObjectKernels | None:
    """Return the kernels in C for objects, if there are any."""
    return cast(ObjectKernels | None, built())


def built_for_dictionaries() -> DictionaryKernels | None:
    """Return the kernels in C for dictionaries, if there are any."""
    return cast(DictionaryKernels | None, built())


def built_for_sweeps() -> SweepKernels | None:
    """Return the kernels in C for chunks, if there are any."""
    return cast(SweepKernels | None, built())


def built_for_records() -> RecordKernels | None:
    """Return the kernels in C for records of CSV, if there are any."""
    return cast(RecordKernels | None, built())
