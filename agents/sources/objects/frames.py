"""Blocks of lines that are objects to typed columns: what the kernels find, in the columns that somebody wants."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.paths import Step, column_of, steps_of
from elf.agents.language.types import SqlType
from elf.agents.sources import arrow
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.native import DISTINCT_MAX, Ends, ObjectKernels, Spans, Unfit, built, built_for_objects
from elf.agents.sources.objects.named import PATH, QUERY, URI, Objects
from elf.agents.sources.objects.program import compiled, encoded
from elf.agents.sources.objects.shaped import ShapedObjects
from elf.agents.sources.objects.values import Value, scalar
from elf.agents.sources.raw_texts import UnfitValues
from elf.agents.sources.times.notations import NO_TIME
from elf.agents.sources.typed_texts import dates, timestamps

#: Reads event times, in ms, `NO_TIME` where a value is none.
TimesOf = Callable[[Sequence[object]], npt.NDArray[np.int64]]
#: Of fewer rows texts are made one by one.
_CODED_ROWS_MIN = 512


class Wanted(NamedTuple):
    """What is made of lines.

    Attributes:
        time: the path to the event time.
        columns: their types.
        objects: the format whose columns these are; None: they are paths.
        unwrap: the path to texts that are objects themselves: longer paths lead on into these. Empty: there is none.
    """

    time: str
    columns: Mapping[str, SqlType]
    objects: Objects | None = None
    unwrap: str = ""

    def path(self, column: str) -> str:
        """Return the path to a column's value."""
        return column if self.objects is None else self.objects.paths.get(column, column)

    @property
    def read(self) -> list[str]:
        """The columns whose values lines have themselves, and those that others are made of."""
        if self.objects is None:
            return list(self.columns)
        made = {PATH: URI, QUERY: URI, **self.objects.seconds}
        return list(dict.fromkeys([*self.objects.requires, *(made.get(name, name) for name in self.columns)]))


class Values(NamedTuple):
    """The values of a path.

    Attributes:
        block: what they lie in.
        spans: where each row's is.
        escaped: some of them are texts with escapes.
    """

    block: bytes
    spans: Spans
    escaped: bool


class Block(NamedTuple):
    """What a block of lines is.

    Attributes:
        columns: those that are wanted, without the event time, of the lines that are objects.
        times: their event times, in ms; `NO_TIME` of those that have none.
        misfits: the other lines.
        mistyped: of those columns that have any, the values that do not fit their types; each is null.
        lacking: of each line that is an object which of the columns that it has to have is the first that it has not;
            -1: it has them all.
    """

    columns: list[pl.Series]
    times: npt.NDArray[np.int64]
    misfits: Unfit
    mistyped: Mapping[str, UnfitValues]
    lacking: npt.NDArray[np.int64]


class ObjectReader:
    """Reads lines that are objects; immutable, so threads may share it.

    Args:
        wanted: what is made of them.
        kernels: who reads lines; those in C, or what there is in their place, unless given.
    """

    def __init__(self, wanted: Wanted, kernels: ObjectKernels | None = None) -> None:
        self._kernels = kernels or built_for_objects() or ShapedObjects()
        self._wanted = wanted
        paths = dict.fromkeys([wanted.time, *map(wanted.path, wanted.read)])
        outer = steps_of(wanted.unwrap) if wanted.unwrap else ()
        #: What is read of lines, and of the objects that are texts in them: by path there, and here.
        self._inner = {path: column_of(inner) for path in paths if (inner := _behind(outer, steps_of(path)))}
        own = [path for path in paths if path not in self._inner]
        self._paths = list(dict.fromkeys([*own, *([wanted.unwrap] if self._inner else [])]))
        skips = wanted.objects is not None
        self._program = encoded(compiled(self._paths, skips_blanks=skips))
        self._inner_program = encoded(compiled(list(self._inner.values()), skips_blanks=skips))

    def read(
        self,
        block: bytes,
        begin: int,
        ends: Ends,
        times_of: TimesOf,
        *,
        zone: zoneinfo.ZoneInfo | None = None,
        dictionaries: Dictionaries | None = None,
    ) -> Block:
        """Read lines.

        Args:
            block: valid UTF-8 of less than 2 GiB.
            begin: where the first line begins.
            ends: where each line's newline is.
            times_of: reads event times that are not in the usual notations.
            zone: of times that do not say theirs; None: UTC.
            dictionaries: what columns of texts are numbered by; None: they stay texts.
        """
        wanted = self._wanted
        values, misfits = self._values(self._program, self._paths, block, begin, ends)
        rows = len(ends) - len(misfits)
        if self._inner:
            values |= self._unwrapped(values[wanted.unwrap])
        times = self._times(values[wanted.time], times_of, zone)
        columns = _Columns(self._kernels, rows, wanted.objects, dictionaries)
        found = {name: values[path] for name in wanted.read if (path := wanted.path(name)) in values}
        series = [columns.column(name, kind, found) for name, kind in wanted.columns.items()]
        requires = () if wanted.objects is None else wanted.objects.requires
        lacking = _lacking(rows, [found[name].spans for name in requires])
        return Block(series, times, misfits, columns.mistyped, lacking)

    def _values(
        self, program: bytes, paths: Collection[str], block: bytes, begin: int, ends: Ends
    ) -> tuple[dict[str, Values], Unfit]:
        """Return the values of each path, of those lines that are objects, and the other lines."""
        spans = [np.empty((len(ends), 2), np.int32) for _ in paths]
        escaped, misfits = np.empty(len(paths), np.uint8), np.empty((len(ends), 3), np.int32)
        rows, unfit = self._kernels.read_objects(program, block, begin, ends, spans, escaped, misfits)
        found = zip(paths, spans, escaped, strict=True)
        return {path: Values(block, each[:rows], bool(has)) for path, each, has in found}, misfits[:unfit]

    def _unwrapped(self, texts: Values) -> dict[str, Values]:
        """Return the values that lie in texts which are objects; null where a text is none."""
        rows = len(texts.spans)
        offsets, valid = np.empty(rows + 1, np.int64), arrow.bitmap(rows)
        data, _ = self._kernels.object_texts(*texts, offsets, valid)
        # As a block of lines. A newline between the parts of an object is a space like any other, and in a text of it
        # it is as wrong as a carriage return.
        lines = np.insert(np.frombuffer(data.replace(b"\n", b"\r"), np.uint8), offsets[1:], ord("\n")).tobytes()
        ends = offsets[1:] + np.arange(rows)
        found, misfits = self._values(self._inner_program, self._inner, lines, 0, ends)
        fitting = np.delete(np.arange(rows), misfits[:, 0])
        for path, values in found.items():
            spans = np.full((rows, 2), -1, np.int32)
            spans[fitting] = values.spans
            found[path] = values._replace(spans=spans)
        return found

    def _times(self, values: Values, times_of: TimesOf, zone: zoneinfo.ZoneInfo | None) -> npt.NDArray[np.int64]:
        block, spans, _ = values
        times = np.full(len(spans), NO_TIME)
        is_left = bool(self._kernels.object_times(block, spans, times))
        if zone is not None:
            from elf.agents.sources.times.values import in_zone_of_texts

            times = in_zone_of_texts(times, block, spans, zone)
            is_left = True
        if is_left:
            left = np.flatnonzero((times == NO_TIME) & (spans[:, 0] >= 0))
            times[left] = times_of(_scalars(block, spans[left]))
        return times


class _Columns:
    """Makes columns of values."""

    def __init__(
        self, kernels: ObjectKernels, rows: int, objects: Objects | None, dictionaries: Dictionaries | None
    ) -> None:
        self._dictionaries = dictionaries
        self._kernels = kernels
        self._rows = rows
        self._objects = objects
        self.mistyped: dict[str, UnfitValues] = {}

    def column(self, name: str, kind: SqlType, found: Mapping[str, Values]) -> pl.Series:
        """Make a column of a type: of values, or of what is made of others."""
        seconds = {} if self._objects is None else self._objects.seconds
        if name in seconds:
            ns = self._series(name, SqlType.BIGINT, found[seconds[name]])
            if name in self.mistyped:
                # Its texts are no seconds.
                self.mistyped[name] = self.mistyped[name]._replace(texts=None)
            return (ns / 1e9).alias(name).cast(kind.dtype)
        if self._objects is not None and name in (PATH, QUERY):
            return self._of_uri(name, found[URI]).cast(kind.dtype, strict=False)
        if name not in found:
            return pl.Series(name, [None], dtype=kind.dtype).new_from_index(0, self._rows)
        return self._series(name, kind, found[name])

    def _of_uri(self, name: str, values: Values) -> pl.Series:
        """Make the column of the paths, or of the queries, of addresses."""
        # Not loaded where nobody reads a format of objects that has a name.
        from elf.agents.sources.layouts.twin import Twin

        layouts = built() or Twin()
        offsets, valid = np.empty(self._rows + 1, np.int64), arrow.bitmap(self._rows)
        texts, _ = self._kernels.object_texts(*values, offsets, valid)
        places = np.stack([offsets[:-1], offsets[1:]], axis=1).astype(np.int32)
        places[values.spans[:, 0] < 0] = -1
        paths, queries = np.empty_like(places), np.empty_like(places)
        layouts.uris(texts, places, paths, queries, None)
        return arrow.texts(name, self._rows, partial(layouts.gather, texts, paths if name == PATH else queries))

    def _series(self, name: str, kind: SqlType, values: Values) -> pl.Series:
        if kind is SqlType.STRING:
            return self._texts(name, values)
        block, spans, escaped = values
        if kind in (SqlType.DATE, SqlType.TIMESTAMP):
            column = _instants(name, kind, _scalars(block, spans))
            unfit = column.null_count() - int((spans[:, 0] < 0).sum())
        else:
            column, unfit = self._numbers(name, kind, block, spans)
        if unfit:
            rows = np.flatnonzero(column.is_null().to_numpy() & (spans[:, 0] >= 0))
            texts = partial(self._kernels.object_texts, block, np.ascontiguousarray(spans[rows]), escaped)
            self.mistyped[name] = UnfitValues(rows, arrow.texts(name, len(rows), texts))
        return column

    def _texts(self, name: str, values: Values) -> pl.Series:
        """Make a column of texts; of few that come again and again each is made once."""
        block, spans, escaped = values
        coded = None if self._dictionaries is None else self._dictionaries.coded(name, block, spans)
        if coded is not None:
            return coded.column(name, self._texts_of)
        if self._rows >= _CODED_ROWS_MIN:
            codes, valid = np.empty(self._rows, np.uint32), arrow.bitmap(self._rows)
            firsts = np.empty((DISTINCT_MAX, 2), np.int32)
            distinct, nulls = self._kernels.object_codes(block, spans, codes, firsts, valid)
            if distinct >= 0:
                texts = partial(self._kernels.object_texts, block, firsts[:distinct], escaped)
                numbers = arrow.numbers(name, arrow.UINT32, codes, valid) if nulls else pl.Series(codes)
                return arrow.texts(name, distinct, texts)[numbers]
        return arrow.texts(name, self._rows, partial(self._kernels.object_texts, *values))

    def _texts_of(self, block: bytes, spans: Spans) -> pl.Series:
        return arrow.texts("", len(spans), partial(self._kernels.object_texts, block, spans, True))

    def _numbers(self, name: str, kind: SqlType, block: bytes, spans: Spans) -> tuple[pl.Series, int]:
        """Make a column of numbers or booleans; returns it and how many values do not fit."""
        valid = arrow.bitmap(self._rows)
        if kind is SqlType.BOOLEAN:
            flags = arrow.bitmap(self._rows)
            unfit = self._kernels.object_booleans(block, spans, flags, valid)
            return arrow.booleans(name, self._rows, flags, valid), unfit
        if kind is SqlType.DOUBLE:
            doubles = np.empty(self._rows, np.float64)
            unfit = self._kernels.object_decimals(block, spans, doubles, valid)
            return arrow.numbers(name, arrow.FLOAT64, doubles, valid), unfit
        integers = np.empty(self._rows, np.int64)
        bits = 32 if kind is SqlType.INT else 64
        unfit = self._kernels.object_integers(block, spans, bits, integers, valid)
        column = arrow.numbers(name, arrow.INT64, integers, valid)
        return column if column.dtype == kind.dtype else column.cast(kind.dtype), unfit


def _behind(outer: Sequence[Step], path: Sequence[Step]) -> Sequence[Step]:
    """Return the steps of a path behind those of another one; none if it does not lead through that."""
    return path[len(outer) :] if outer and tuple(path[: len(outer)]) == tuple(outer) else ()


def _lacking(rows: int, required: Sequence[Spans]) -> npt.NDArray[np.int64]:
    """Return of each row which value is the first that it has not; -1: it has them all."""
    lacking = np.full(rows, -1, np.int64)
    for number in reversed(range(len(required))):
        lacking[required[number][:, 0] < 0] = number
    return lacking


def _scalars(block: bytes, spans: Spans) -> list[Value]:
    return [scalar(block[begin:end]) if begin >= 0 else None for begin, end in spans.tolist()]


def _instants(name: str, kind: SqlType, values: list[Value]) -> pl.Series:
    """Make a column of dates or timestamps; what is none is null."""
    if kind is SqlType.TIMESTAMP:
        return timestamps(name, values)
    return dates(pl.Series(name, [value if isinstance(value, str) else None for value in values], dtype=pl.String))
