"""JSON lines to frames: a strict typed decoder for blocks of lines, an exact fall-back for blocks where it refuses.

The fast road is msgspec's decoder, which checks a whole line but builds only the wanted fields (4 M lines a second and
core); it runs over blocks of some 200 lines, so the GIL is never held for long and one bad line costs one block. It
knows lines only as white space, so a block takes the fast road only if every line begins with `{` and ends with `}`
and gives one row: then no object can span lines and no line can hold two.

Rules for values: an absent field or JSON null is null; in a STRING column other values keep their JSON text; a quoted
number fits a number column; a value that does not fit its type is null, counted in `oddities.mistyped`, and the
event is kept. Of duplicate names the last counts. A line without valid time is rejected (reason `time`). Invalid UTF-8
is repaired and counted where a wanted value, or a line that needs a closer look, holds it; elsewhere nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from agents.jobs.types import SqlType
from agents.sources import event_time
from agents.sources.counters import Counters, Oddities, Parsed, Rejects
from agents.sources.json_values import MalformedError, RawLine, Value, convert
from agents.sources.lines import clean, line_ends, valid_utf8
from agents.sources.prefilter import Prefilter, json_escape

#: Bytes decoded at a time: some 200 lines, 50 microseconds.
_BLOCK_BYTES = 64 << 10

_TIME = "time_"
_SCALAR = str | int | float | bool | None
_FAST: dict[SqlType | None, Any] = {
    SqlType.BOOLEAN: bool | None,
    SqlType.INT: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None,
    SqlType.BIGINT: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None,
    SqlType.DOUBLE: float | None,
    SqlType.STRING: str | None,
    SqlType.DATE: _SCALAR,
    SqlType.TIMESTAMP: _SCALAR,
}


class JsonLines:
    """The format `json`: one JSON object a line; event time in the field `time`."""

    name = "json"
    columns: Mapping[str, SqlType] | None = None

    def __init__(self, time: str = "ts") -> None:
        self.time = time

    def parse(self, chunk: bytes, wanted: Mapping[str, SqlType], literals: Sequence[Sequence[str]] = ()) -> Parsed:
        """Parse a chunk of whole lines into `ts` and the wanted columns; see `agents.sources.format.Format`."""
        lines = clean(chunk)
        rejects = Rejects()
        for line in lines.huge:
            rejects.add(line, "line_too_long")
        data, filtered, bad_encoding = lines.data, 0, 0
        prefilter = Prefilter(literals, json_escape(data, literals))
        if prefilter.active:
            data, filtered, bad_encoding = prefilter.keep(data)
        decoder = _decoder(self.time, tuple((name, kind) for name, kind in wanted.items() if name != "ts"))
        decoded = decoder.decode(data, rejects)
        return Parsed(
            events=decoded.events,
            counters=Counters(
                read=decoded.line_count + filtered + len(lines.huge),
                parsed=decoded.events.height,
                rejected=rejects.count,
                filtered=filtered,
            ),
            rejects=rejects.sample(),
            oddities=lines.oddities + decoded.oddities + Oddities(bad_encoding=bad_encoding),
        )


@dataclass(frozen=True, slots=True)
class _Decoded:
    events: pl.DataFrame
    line_count: int
    oddities: Oddities


@lru_cache(maxsize=64)
def _decoder(time: str, wanted: tuple[tuple[str, SqlType], ...]) -> _Decoder:
    """Build the decoders for a set of columns once, not once a chunk."""
    return _Decoder(time, dict(wanted))


class _Decoder:
    """Decodes lines into the event time and the wanted columns; immutable, so threads may share it."""

    def __init__(self, time: str, wanted: Mapping[str, SqlType]) -> None:
        self._wanted = wanted
        # JSON names can be anything, attribute names cannot. The time field can be a wanted column too: one attribute.
        fields = {f"f{index}": name for index, name in enumerate(dict.fromkeys([time, *wanted]))}
        row = msgspec.defstruct(
            "Row",
            [(a, _FAST.get(wanted.get(name), _SCALAR), None) for a, name in fields.items()],
            rename=fields,
            gc=False,
        )
        self._fast = msgspec.json.Decoder(row)
        self._raw = RawLine(fields)
        attributes = {name: index for index, name in enumerate(fields.values())}
        self._outputs: list[tuple[int, SqlType | None]] = [(0, None)]
        self._outputs += [(attributes[name], kind) for name, kind in wanted.items()]
        self._getters: list[Callable[[Any], Value]] = [attrgetter(f"f{index}") for index, _ in self._outputs]

    def decode(self, data: bytes, rejects: Rejects) -> _Decoded:
        """Decode clean lines; those that are no events go to `rejects`."""
        columns: list[list[Value]] = [[] for _ in self._outputs]
        refused: list[int] = []
        oddities = Oddities()
        line_count = 0
        for block, lines_in_block, regular in _blocks(data):
            rows = self._fast_rows(block) if regular else None
            if rows is not None and len(rows) == lines_in_block:
                for column, getter in zip(columns, self._getters, strict=True):
                    column.extend(map(getter, rows))
            else:
                oddities += self._exactly(bytes(block), line_count, columns, refused, rejects)
            line_count += lines_in_block
        frame, valid, unfit = self._frame(columns)
        if not valid.all():
            _reject_without_time(data, line_count, refused, valid, rejects)
            frame = frame.filter(pl.Series(valid))
        return _Decoded(frame, line_count, oddities + Oddities(mistyped=unfit))

    def _fast_rows(self, block: memoryview) -> list[Any] | None:
        try:
            return self._fast.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def _exactly(
        self, block: bytes, first: int, columns: list[list[Value]], refused: list[int], rejects: Rejects
    ) -> Oddities:
        """Decode a block line by line."""
        mistyped = 0
        block, bad_encoding = valid_utf8(block)
        for index, line in enumerate(block.split(b"\n")[:-1], first):
            try:
                texts = self._raw.texts(line)
            except MalformedError as error:
                rejects.add(line, str(error))
                refused.append(index)
                continue
            for column, (attribute, kind) in zip(columns, self._outputs, strict=True):
                value, fits = convert(texts[attribute], kind)
                column.append(value)
                mistyped += kind is not None and not fits
        return Oddities(bad_encoding=bad_encoding, mistyped=mistyped)

    def _frame(self, columns: list[list[Value]]) -> tuple[pl.DataFrame, npt.NDArray[np.bool_], int]:
        """Build the typed columns; returns them, which rows have a valid time, and how many values did not fit."""
        times, valid = event_time.from_values(columns[0])
        series = [pl.Series("ts", times, dtype=pl.Int64).cast(pl.Datetime("ms"))]
        unfit = 0
        for (name, kind), values in zip(self._wanted.items(), columns[1:], strict=True):
            column, missing = _column(name, kind, values)
            series.append(column)
            unfit += missing
        return pl.DataFrame(series), valid, unfit


def _blocks(data: bytes) -> Iterator[tuple[memoryview, int, bool]]:
    """Cut clean lines into blocks; with each its lines, and whether every line begins with `{` and ends with `}`."""
    if not data:
        return
    view, text = memoryview(data), np.frombuffer(data, np.uint8)
    ends = line_ends(data)
    begins = np.empty_like(ends)
    begins[0], begins[1:] = 0, ends[:-1] + 1
    odd = np.flatnonzero((text[begins] != 123) | (text[ends - 1] != 125))
    # A block is cut after the line in which each next 64 KiB begin.
    cuts = np.unique(np.append(np.searchsorted(ends, np.arange(_BLOCK_BYTES, len(data), _BLOCK_BYTES)) + 1, len(ends)))
    odd_before = np.searchsorted(odd, cuts)
    first = offset = odds = 0
    for cut, end, odd_here in zip(cuts.tolist(), ends[cuts - 1].tolist(), odd_before.tolist(), strict=True):
        yield view[offset : end + 1], cut - first, odd_here == odds
        first, offset, odds = cut, end + 1, odd_here


def _column(name: str, kind: SqlType, values: list[Value]) -> tuple[pl.Series, int]:
    """Make a column of decoded values; returns it and how many values do not fit its type."""
    if kind not in (SqlType.DATE, SqlType.TIMESTAMP):
        return pl.Series(name, values, dtype=kind.dtype), 0
    present = len(values) - values.count(None)
    if kind is SqlType.DATE:
        texts = pl.Series(name, [value if isinstance(value, str) else None for value in values], dtype=pl.String)
        exact = texts.str.contains(r"^\d{4}-\d{2}-\d{2}$")
        column = texts.set(~exact, None).str.to_date("%Y-%m-%d", strict=False)
    else:
        times, valid = event_time.from_values(values, unit=1_000_000)
        column = pl.Series(name, times).set(pl.Series(~valid), None).cast(kind.dtype)
    return column, present - (column.len() - column.null_count())


def _reject_without_time(
    data: bytes, line_count: int, refused: list[int], valid: npt.NDArray[np.bool_], rejects: Rejects
) -> None:
    """Count the lines without a valid time, and keep the first of them."""
    decoded = np.delete(np.arange(line_count), refused)
    without = decoded[~valid]
    lines = data.split(b"\n")
    for index in without[: rejects.room]:
        rejects.add(lines[index], "time")
    rejects.add_count(len(without) - len(without[: rejects.room]))
