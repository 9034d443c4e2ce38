"""Blocks of lines to typed columns: what the kernels find, in the columns that somebody wants.

`request` is read from a line's request, as are `method`, `uri`, `protocol` and `request_malformed`; `path`, `query`
and, where requests may be absolute, `host` come from `uri`. What a layout has as a field of its own, it keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources import arrow
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import TIME, Field, Layout
from elf.agents.sources.layouts.program import compiled, encoded
from elf.agents.sources.layouts.shaped import ShapedLines
from elf.agents.sources.native import Ends, Kernels, Misfits, Spans, built
from elf.agents.sources.raw_texts import UnfitValues
from elf.agents.sources.times.notations import Notation
from elf.agents.sources.typed_texts import of_type

REQUEST, URI, HOST = "request", "uri", "host"
#: Of a request what is a text; whether it is malformed comes beside these.
_PARTS, _MALFORMED = ("method", URI, "protocol"), "request_malformed"
_OF_URI = ("path", "query")
_ADDRESSES = frozenset({Kind.IP, Kind.ADDR, Kind.ADDRESSES, Kind.UPSTREAMS})


class Block(NamedTuple):
    """What a block of lines is.

    Attributes:
        columns: those that are wanted, without the event time, of the lines that fit.
        times: their event times, in ms, as `read_time` has them.
        layouts: of which layout each is.
        misfits: the other lines.
        mistyped: of those columns that have any, the values that do not fit their types; each is null.
    """

    columns: list[pl.Series]
    times: npt.NDArray[np.int64]
    layouts: npt.NDArray[np.uint8]
    misfits: Misfits
    mistyped: Mapping[str, UnfitValues]


class Reader:
    """Reads lines that have one of some layouts, the first that fits each.

    Args:
        layouts: none of them ambiguous.
        absolute: requests may name scheme and host.
        kernels: who takes lines apart; those in C, or what there is in their place, unless given.

    Raises:
        ConfigError: a layout has no event time, or two have columns of one name and several types.
    """

    def __init__(self, layouts: Sequence[Layout], *, absolute: bool = False, kernels: Kernels | None = None) -> None:
        self.layouts = [each for layout in layouts for each in _alternatives(layout)]
        #: What is made of an address, and of a request.
        self._of_uri = (*_OF_URI, HOST) if absolute else _OF_URI
        self._of_request = frozenset({*_PARTS, _MALFORMED, *self._of_uri})
        self._kernels = kernels or built() or ShapedLines()
        self.programs = [compiled(layout) for layout in self.layouts]
        self._encoded: dict[tuple[str, ...], list[bytes]] = {}
        self._fields = _united(self.layouts)
        self.columns = self._schema()
        self._have_request = np.array([REQUEST in _names(layout) for layout in self.layouts], np.bool_)
        #: Values may have quotes written twice.
        self._has_cells = any(field.cell for field in self._fields.values())

    @property
    def notations(self) -> list[tuple[Notation, ...]]:
        """Of each layout the notations of its event time, which are of one sort: with or without zone, and year."""
        return [next(f.notations for f in layout.fields() if f.column == TIME) for layout in self.layouts]

    @property
    def addresses(self) -> frozenset[str]:
        """The columns that hold clients' or servers' addresses, by their kinds."""
        return frozenset(name for name, field in self._fields.items() if field.kind in _ADDRESSES)

    @property
    def derives_all(self) -> bool:
        """Whether lines have no fields of their own for the parts of a request: these are all made of it."""
        return REQUEST in self._fields and self._of_request.isdisjoint(self._fields)

    def read(
        self, block: bytes, ends: Ends, wanted: Mapping[str, SqlType], dictionaries: Dictionaries | None = None
    ) -> Block:
        """Read lines.

        Args:
            block: valid UTF-8 of less than 2 GiB.
            ends: where each line's newline is.
            wanted: columns, with their types; one that no layout has is null. The event time is always read.
            dictionaries: what columns of texts are numbered by; None: they stay texts.
        """
        names = self._needed(wanted)
        key = tuple(names)
        if key not in self._encoded:
            outputs = {name: number for number, name in enumerate(names)}
            self._encoded[key] = [encoded(program, outputs) for program in self.programs]
        spans = [np.empty((len(ends), 2), np.int32) for _ in names]
        times, layouts = np.empty(len(ends), np.int64), np.empty(len(ends), np.uint8)
        misfits = np.empty((len(ends), 4), np.int32)
        rows, unfit = self._kernels.take_apart(self._encoded[key], block, ends, spans, times, layouts, misfits)
        found = {name: each[:rows] for name, each in zip(names, spans, strict=True)}
        columns = _Columns(self._kernels, block, rows, self._fields, self._has_cells)
        made = {} if dictionaries is None else self._coded(block, found, layouts[:rows], wanted, dictionaries)
        left = {name: kind for name, kind in wanted.items() if name not in made}
        self._derive(block, found, layouts[:rows], left, columns)
        made |= {name: columns.series(name, kind, found) for name, kind in left.items() if name != TIME}
        series = [made[name] for name in wanted if name != TIME]
        return Block(series, times[:rows], layouts[:rows], misfits[:unfit], columns.mistyped)

    def _needed(self, wanted: Collection[str]) -> list[str]:
        """Name the fields that the wanted columns are made of."""
        names = set(wanted)
        if not self._of_request.isdisjoint(wanted):
            names.add(REQUEST)
        if not names.isdisjoint(self._of_uri):
            names.add(URI)
        return [name for name in self._fields if name in names]

    def _coded(
        self,
        block: bytes,
        found: Mapping[str, Spans],
        layouts: npt.NDArray[np.uint8],
        wanted: Mapping[str, SqlType],
        dictionaries: Dictionaries,
    ) -> dict[str, pl.Series]:
        """Make those columns of texts that are codes, and what is made of a request once for all that are the same."""
        made: dict[str, pl.Series] = {}
        parts = {name: kind for name, kind in wanted.items() if name in self._of_request} if self.derives_all else {}
        texts = [name for name in found if wanted.get(name) is SqlType.STRING or (name == REQUEST and parts)]
        for name in texts if not self._has_cells else ():
            coded = dictionaries.coded(name, block, found[name])
            if coded is None:
                continue
            if wanted.get(name) is SqlType.STRING:
                made[name] = coded.column(name, partial(_texts_of, self._kernels))
            for part, kind in parts.items() if name == REQUEST else ():
                if kind is SqlType.STRING and part != _MALFORMED:
                    column = coded.part(part, partial(self._parts_of, part), partial(_texts_of, self._kernels))
                    made |= {} if column is None else {part: column}
                elif part == _MALFORMED and kind is SqlType.BOOLEAN:
                    flags = coded.column(part, self._are_malformed).fill_null(True)
                    made[part] = flags.set(pl.Series(~self._have_request[layouts]), None)
        return made

    def _parts_of(self, name: str, block: bytes, requests: Spans) -> Spans:
        """Find a part of requests."""
        parts = {part: np.empty((len(requests), 2), np.int32) for part in (*_PARTS, *self._of_uri)}
        self._kernels.requests(block, requests, *(parts[part] for part in _PARTS))
        if name not in _PARTS:
            self._kernels.uris(block, parts[URI], parts["path"], parts["query"], parts.get(HOST))
        return parts[name]

    def _are_malformed(self, block: bytes, requests: Spans) -> pl.Series:
        """Tell which requests are garbage."""
        return pl.Series(self._parts_of("method", block, requests)[:, 0] < 0)

    def _derive(
        self,
        block: bytes,
        found: dict[str, Spans],
        layouts: npt.NDArray[np.uint8],
        wanted: Collection[str],
        columns: _Columns,
    ) -> None:
        """Add the parts of requests and addresses to what was found."""
        rows = len(layouts)
        if REQUEST in found and not self._of_request.isdisjoint(wanted):
            parts = {name: np.empty((rows, 2), np.int32) for name in _PARTS}
            self._kernels.requests(block, found[REQUEST], *parts.values())
            none = pl.Series(~self._have_request[layouts])
            columns.malformed = pl.Series(_MALFORMED, parts["method"][:, 0] < 0).set(none, None)
            _fill(found, parts)
        if URI in found and any(name in wanted for name in self._of_uri):
            parts = {name: np.empty((rows, 2), np.int32) for name in self._of_uri}
            self._kernels.uris(block, found[URI], parts["path"], parts["query"], parts.get(HOST))
            _fill(found, parts)

    def _schema(self) -> dict[str, SqlType]:
        schema = {name: field.type for name, field in self._fields.items() if name != TIME}
        if REQUEST in schema:
            schema |= dict.fromkeys(_PARTS, SqlType.STRING) | {_MALFORMED: SqlType.BOOLEAN}
        if REQUEST in schema or URI in schema:
            schema |= dict.fromkeys(self._of_uri, SqlType.STRING)
        return schema


class _Columns:
    """Makes columns of the places of values in a block."""

    def __init__(self, kernels: Kernels, block: bytes, rows: int, fields: Mapping[str, Field], has_cells: bool) -> None:
        self._kernels = kernels
        self._block = block
        self._rows = rows
        self._fields = fields
        self._has_cells = has_cells
        self.malformed: pl.Series | None = None
        self.mistyped: dict[str, UnfitValues] = {}

    def series(self, name: str, kind: SqlType, found: Mapping[str, Spans]) -> pl.Series:
        """Make a column of a type; null where no layout has it."""
        if name == _MALFORMED and self.malformed is not None:
            return self.malformed if kind is SqlType.BOOLEAN else self.malformed.cast(kind.dtype, strict=False)
        if name not in found:
            return pl.Series(name, [None], dtype=kind.dtype).new_from_index(0, self._rows)
        field = self._fields.get(name)
        if field is not None and field.cell and field.kind is Kind.TEXT:
            typed = of_type(self._texts(name, found[name]), kind)
            if typed.unfit.any():
                self._note(name, found[name], typed.unfit)
            return typed.column
        if kind is SqlType.STRING or field is None or field.type is SqlType.STRING:
            column, unfit = self._texts(name, found[name]), 0
        else:
            column, unfit = self._numbers(name, field, found[name])
        if column.dtype != kind.dtype:
            # A job's own types come before the format's, also those of an earlier release.
            wide, column = column, column.cast(kind.dtype, strict=False)
            unfit += column.null_count() - wide.null_count()
        if unfit:
            self._note(name, found[name], column.is_null().to_numpy() & (found[name][:, 0] >= 0))
        return column

    def _note(self, name: str, spans: Spans, unfit: npt.NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(unfit)
        self.mistyped[name] = UnfitValues(rows, self._texts(name, spans[rows]))

    def _numbers(self, name: str, field: Field, spans: Spans) -> tuple[pl.Series, int]:
        """Make a column of numbers; returns it and how many values are beyond what it can hold."""
        valid = arrow.bitmap(self._rows)
        if field.type is SqlType.DOUBLE:
            doubles = np.empty(self._rows, np.float64)
            unfit = self._kernels.decimals(self._block, spans, field.kind is Kind.DURATION, doubles, valid)
            return arrow.numbers(name, arrow.FLOAT64, doubles, valid), unfit
        integers = np.empty(self._rows, np.int64)
        unfit = self._kernels.integers(self._block, spans, integers, valid)
        return arrow.numbers(name, arrow.INT64, integers, valid), unfit

    def _texts(self, name: str, spans: Spans) -> pl.Series:
        texts, data = arrow.texts_and_bytes(name, len(spans), partial(self._kernels.gather, self._block, spans))
        # A value that is not between quotes has none.
        return texts.str.replace_all('""', '"', literal=True) if self._has_cells and b'""' in data else texts


def _texts_of(kernels: Kernels, block: bytes, spans: Spans) -> pl.Series:
    return arrow.texts("", len(spans), partial(kernels.gather, block, spans))


def _fill(found: dict[str, Spans], parts: Mapping[str, Spans]) -> None:
    """Add what was derived; where a line has a field of that name, it keeps its value."""
    for name, spans in parts.items():
        known = found.get(name)
        found[name] = spans if known is None else np.where(known[:, :1] >= 0, known, spans)


def _names(layout: Layout) -> set[str]:
    return {field.column for field in layout.fields()}


def _united(layouts: Sequence[Layout]) -> dict[str, Field]:
    """Return the fields of all layouts by column."""
    fields: dict[str, Field] = {}
    for layout in layouts:
        # In a part that may be missing it would be none of every line.
        if not any(isinstance(token, Field) and token.column == TIME for token in layout.tokens):
            raise ConfigError("the log format has no time of the event; add [$time_local] (nginx) or %t (Apache) to it")
        for field in layout.fields():
            known = fields.setdefault(field.column, field) if field.column else field
            if known.type is not field.type:
                raise ConfigError(f"column {field.column!r} has several types in the log format; give it two names")
    return fields


def _alternatives(layout: Layout) -> list[Layout]:
    """Return a layout for each sort of notations that its event time may have, with or without a zone and a year."""
    time = next((field for field in layout.fields() if field.column == TIME), None)
    if time is None:
        return [layout]
    sorts: dict[tuple[bool, bool], list[Notation]] = {}
    for notation in time.notations:
        sorts.setdefault((notation.needs_zone, notation.needs_year), []).append(notation)
    if len(sorts) == 1:
        return [layout]

    def of_sort(notations: tuple[Notation, ...]) -> Layout:
        return layout.changed(lambda field: field._replace(notations=notations) if field.column == TIME else field)

    return [of_sort(tuple(each)) for each in sorts.values()]
