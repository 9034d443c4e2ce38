"""Blocks of lines that are objects to typed columns: what the kernels find, in the columns that somebody wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import arrow, event_time
from elf.agents.sources.native import DISTINCT_MAX, Ends, ObjectKernels, Spans, Unfit, built_for_objects
from elf.agents.sources.objects.program import compiled, encoded
from elf.agents.sources.objects.twin import ObjectTwin
from elf.agents.sources.objects.values import Value, scalar
from elf.agents.sources.times.notations import NO_TIME

#: Reads event times, in ms, `NO_TIME` where a value is none.
TimesOf = Callable[[Sequence[object]], npt.NDArray[np.int64]]
#: Of fewer rows texts are made one by one.
_CODED_ROWS_MIN = 512
_EXACT_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


class Block(NamedTuple):
    """What a block of lines is.

    Attributes:
        columns: those that are wanted, without the event time, of the lines that are objects.
        times: their event times, in ms; `NO_TIME` of those that have none.
        misfits: the other lines.
        mistyped: the rows, of those columns that have any, of values that do not fit their types; each is null.
    """

    columns: list[pl.Series]
    times: npt.NDArray[np.int64]
    misfits: Unfit
    mistyped: Mapping[str, npt.NDArray[np.intp]]


class ObjectReader:
    """Reads lines that are objects; immutable, so threads may share it.

    Args:
        time: the column with the event time.
        wanted: columns, with their types; the event time may be one of them.
        kernels: who reads lines; those in C, or their twin, unless given.
    """

    def __init__(self, time: str, wanted: Mapping[str, SqlType], kernels: ObjectKernels | None = None) -> None:
        self._kernels = kernels or built_for_objects() or ObjectTwin()
        self._wanted = wanted
        self._time = time
        self._names = list(dict.fromkeys([time, *wanted]))
        self._program = encoded(compiled(self._names))

    def read(self, block: bytes, begin: int, ends: Ends, times_of: TimesOf) -> Block:
        """Read lines.

        Args:
            block: valid UTF-8 of less than 2 GiB.
            begin: where the first line begins.
            ends: where each line's newline is.
            times_of: reads event times that are not in the usual notations.
        """
        spans = [np.empty((len(ends), 2), np.int32) for _ in self._names]
        escaped = np.empty(len(self._names), np.uint8)
        misfits = np.empty((len(ends), 3), np.int32)
        rows, unfit = self._kernels.read_objects(self._program, block, begin, ends, spans, escaped, misfits)
        columns = _Columns(self._kernels, block, rows)
        found = {name: (each[:rows], bool(has)) for name, each, has in zip(self._names, spans, escaped, strict=True)}
        times = self._times(block, found[self._time][0], times_of)
        series = [columns.series(name, kind, *found[name]) for name, kind in self._wanted.items()]
        return Block(series, times, misfits[:unfit], columns.mistyped)

    def _times(self, block: bytes, spans: Spans, times_of: TimesOf) -> npt.NDArray[np.int64]:
        times = np.empty(len(spans), np.int64)
        if self._kernels.object_times(block, spans, times):
            left = np.flatnonzero((times == NO_TIME) & (spans[:, 0] >= 0))
            times[left] = times_of(_scalars(block, spans[left]))
        return times


class _Columns:
    """Makes columns of the places of values in a block."""

    def __init__(self, kernels: ObjectKernels, block: bytes, rows: int) -> None:
        self._kernels = kernels
        self._block = block
        self._rows = rows
        self.mistyped: dict[str, npt.NDArray[np.intp]] = {}

    def series(self, name: str, kind: SqlType, spans: Spans, escaped: bool) -> pl.Series:
        """Make a column of a type."""
        if kind is SqlType.STRING:
            return self._texts(name, spans, escaped)
        if kind in (SqlType.DATE, SqlType.TIMESTAMP):
            column = _instants(name, kind, _scalars(self._block, spans))
            unfit = column.null_count() - int((spans[:, 0] < 0).sum())
        else:
            column, unfit = self._values(name, kind, spans)
        if unfit:
            self.mistyped[name] = np.flatnonzero(column.is_null().to_numpy() & (spans[:, 0] >= 0))
        return column

    def _texts(self, name: str, spans: Spans, escaped: bool) -> pl.Series:
        """Make a column of texts; of few that come again and again each is made once."""
        if self._rows >= _CODED_ROWS_MIN:
            codes, valid = np.empty(self._rows, np.uint32), arrow.bitmap(self._rows)
            firsts = np.empty((DISTINCT_MAX, 2), np.int32)
            distinct, nulls = self._kernels.object_codes(self._block, spans, codes, firsts, valid)
            if distinct >= 0:
                texts = partial(self._kernels.object_texts, self._block, firsts[:distinct], escaped)
                numbers = arrow.numbers(name, arrow.UINT32, codes, valid) if nulls else pl.Series(codes)
                return arrow.texts(name, distinct, texts)[numbers]
        return arrow.texts(name, self._rows, partial(self._kernels.object_texts, self._block, spans, escaped))

    def _values(self, name: str, kind: SqlType, spans: Spans) -> tuple[pl.Series, int]:
        """Make a column of numbers or booleans; returns it and how many values do not fit."""
        valid = arrow.bitmap(self._rows)
        if kind is SqlType.BOOLEAN:
            flags = arrow.bitmap(self._rows)
            unfit = self._kernels.object_booleans(self._block, spans, flags, valid)
            return arrow.booleans(name, self._rows, flags, valid), unfit
        if kind is SqlType.DOUBLE:
            doubles = np.empty(self._rows, np.float64)
            unfit = self._kernels.object_decimals(self._block, spans, doubles, valid)
            return arrow.numbers(name, arrow.FLOAT64, doubles, valid), unfit
        integers = np.empty(self._rows, np.int64)
        bits = 32 if kind is SqlType.INT else 64
        unfit = self._kernels.object_integers(self._block, spans, bits, integers, valid)
        column = arrow.numbers(name, arrow.INT64, integers, valid)
        return column if column.dtype == kind.dtype else column.cast(kind.dtype), unfit


def _scalars(block: bytes, spans: Spans) -> list[Value]:
    return [scalar(block[begin:end]) if begin >= 0 else None for begin, end in spans.tolist()]


def _instants(name: str, kind: SqlType, values: list[Value]) -> pl.Series:
    """Make a column of dates or timestamps; what is none is null."""
    if kind is SqlType.DATE:
        texts = pl.Series(name, [value if isinstance(value, str) else None for value in values], dtype=pl.String)
        exact = texts.str.contains(_EXACT_DATE) & ~texts.str.starts_with("0000")
        return texts.set(~exact, None).str.to_date("%Y-%m-%d", strict=False)
    times, valid = event_time.from_values(values, unit=1_000_000)
    return pl.Series(name, times).set(pl.Series(~valid), None).cast(kind.dtype)
