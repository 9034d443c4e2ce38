"""JSON lines to frames: a strict typed decoder for blocks of lines, an exact fall-back for blocks where it refuses.

The fast road is msgspec's decoder, which checks a whole line but builds only the wanted fields (4 M lines a second and
core); it runs over blocks of some 800 lines, so the GIL is never held for long and one bad line costs one block. It
knows lines only as white space, so a block takes the fast road only if every line begins with `{` and ends with `}`
and gives one row: then no object can span lines and no line can hold two. Where all lines of a block begin with the
event time, that is read without the decoder (`fronts`).

Rules for values: an absent field or JSON null is null; in a STRING column other values keep their JSON text; a quoted
number fits a number column; a value that does not fit its type is null, counted in `oddities.mistyped`, and the
event is kept. Of duplicate names the last counts. A line without valid time is rejected (reason `time`). Invalid UTF-8
is repaired and counted where a wanted value, or a line that needs a closer look, holds it; elsewhere nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from agents.jobs.types import SqlType
from agents.sources import event_time
from agents.sources.counters import Counters, Oddities, Parsed, Rejects
from agents.sources.fronts import FrontReader, Fronts
from agents.sources.json_values import MalformedError, RawLine, Value, convert
from agents.sources.lines import Ends, clean, valid_utf8
from agents.sources.prefilter import Prefilter, json_escape

#: Bytes decoded at a time: some 800 lines, 0.2 ms.
_BLOCK_BYTES = 256 << 10

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
#: Fits no value at all, so a line that has the field is refused.
_NEVER = Annotated[str, msgspec.Meta(pattern="(?!)")]


class JsonLines:
    """The format `json`: one JSON object a line; event time in the field `time`."""

    name = "json"
    columns: Mapping[str, SqlType] | None = None

    def __init__(self, time: str = "ts") -> None:
        self.time = time

    def parse(self, chunk: bytes, wanted: Mapping[str, SqlType], literals: Sequence[Sequence[str]] = ()) -> Parsed:
        """Parse a chunk of whole lines into `ts` and the wanted columns; see `agents.sources.format.Format`."""
        prefilter = Prefilter(literals, json_escape(chunk, literals))
        lines = clean(chunk, prefilter.word)
        if lines.data is not chunk:  # a NUL may have stood in an escape; no word was found then
            prefilter = Prefilter(literals, json_escape(lines.data, literals))
        rejects = Rejects()
        for line in lines.huge:
            rejects.add(line, "line_too_long")
        data, ends, filtered, bad_encoding = lines.data, lines.ends, 0, 0
        if prefilter.active:
            data, ends, filtered, bad_encoding = prefilter.keep(lines)
        decoder = _decoder(self.time, tuple((name, kind) for name, kind in wanted.items() if name != "ts"))
        decoded = decoder.decode(data, ends, rejects)
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


class _Decoded(msgspec.Struct, frozen=True):
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
        kinds = {a: _FAST.get(wanted.get(name), _SCALAR) for a, name in fields.items()}
        self._fast = _row_decoder(fields, kinds)
        # The same for lines whose time is read from their front, so that it must not come once more.
        self._front = FrontReader(time, wanted) if time not in wanted else None
        self._fast_behind = _row_decoder(fields, {**kinds, "f0": _NEVER})
        self._raw = RawLine(fields)
        attributes = {name: index for index, name in enumerate(fields.values())}
        self._outputs: list[tuple[int, SqlType | None]] = [(0, None)]
        self._outputs += [(attributes[name], kind) for name, kind in wanted.items()]
        self._getters: list[Callable[[Any], Value]] = [attrgetter(f"f{index}") for index, _ in self._outputs]

    def decode(self, data: bytes, ends: Ends, rejects: Rejects) -> _Decoded:
        """Decode clean lines with newlines at `ends`; those that are no events go to `rejects`."""
        if not data:
            return _Decoded(self._frame(np.empty(0, np.int64), [[] for _ in self._wanted])[0], 0, Oddities())
        begins = np.empty_like(ends)
        begins[0], begins[1:] = 0, ends[:-1] + 1
        fronts = self._front.read(data, begins) if self._front else None
        columns: list[list[Value]] = [[] for _ in self._outputs]
        times: list[npt.NDArray[np.int64]] = []
        refused: list[int] = []
        oddities = Oddities()
        for block in _blocks(data, begins, ends, fronts):
            rows = self._fast_rows(block) if block.regular else None
            if rows is None or len(rows) != len(block.begins):
                before = len(columns[0])
                oddities += self._exactly(bytes(block.text), block.first, columns, refused, rejects)
                times.append(np.full(len(columns[0]) - before, event_time.NONE))
            else:
                times.append(np.full(len(rows), event_time.NONE) if block.times is None else block.times)
                for index, (column, getter) in enumerate(zip(columns, self._getters, strict=True)):
                    if index or block.times is None:
                        column.extend(map(getter, rows))
        at = np.concatenate(times)
        if columns[0]:
            at[at == event_time.NONE], _ = event_time.from_values(columns[0])
        valid = at != event_time.NONE
        frame, unfit = self._frame(at, columns[1:])
        if not valid.all():
            _reject_without_time(data, len(ends), refused, valid, rejects)
            frame = frame.filter(pl.Series(valid))
        return _Decoded(frame, len(ends), oddities + Oddities(mistyped=unfit))

    def _fast_rows(self, block: _Block) -> list[Any] | None:
        decoder, text = self._fast, block.text
        if block.times is not None and self._front is not None:
            decoder, copy = self._fast_behind, np.array(np.frombuffer(text, np.uint8))
            copy[block.begins + (block.letter_at - block.offset)] = self._front.letter
            text = copy.data
        try:
            return decoder.decode_lines(text)
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

    def _frame(self, times: npt.NDArray[np.int64], columns: list[list[Value]]) -> tuple[pl.DataFrame, int]:
        """Build the typed columns; returns them, and how many values did not fit."""
        series = [pl.Series("ts", times, dtype=pl.Int64).cast(pl.Datetime("ms"))]
        unfit = 0
        for (name, kind), values in zip(self._wanted.items(), columns, strict=True):
            column, missing = _column(name, kind, values)
            series.append(column)
            unfit += missing
        return pl.DataFrame(series), unfit


def _row_decoder(fields: Mapping[str, str], kinds: Mapping[str, Any]) -> msgspec.json.Decoder[Any]:
    """Make a decoder of objects; attribute names come with their JSON names and with their types."""
    row = msgspec.defstruct("Row", [(a, kinds[a], None) for a in fields], rename=dict(fields), gc=False)
    return msgspec.json.Decoder(row)


class _Block(NamedTuple):
    """Some neighbouring lines."""

    #: Their bytes, the offset of these in the chunk, and the index of the first line.
    text: memoryview
    offset: int
    first: int
    #: Where in the chunk each line begins.
    begins: npt.NDArray[np.int64]
    #: Whether every line begins with `{` and ends with `}`.
    regular: bool
    #: The event times, if all were read from the fronts; None if one was not.
    times: npt.NDArray[np.int64] | None
    letter_at: int


def _blocks(
    data: bytes, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], fronts: Fronts | None
) -> Iterator[_Block]:
    """Cut clean lines, at least one, into blocks."""
    view, text = memoryview(data), np.frombuffer(data, np.uint8)
    # A block is cut after the line in which each next `_BLOCK_BYTES` begin.
    cuts = np.append(np.searchsorted(ends, np.arange(_BLOCK_BYTES, len(data), _BLOCK_BYTES)) + 1, len(ends))
    cuts = cuts[np.diff(cuts, append=0) != 0]  # np.unique would load numpy.ma
    odd = _count_before((text[begins] != 123) | (text[ends - 1] != 125), cuts)
    other = _count_before(fronts.times == event_time.NONE, cuts) if fronts else [0] * len(cuts)
    first = offset = odds = others = 0
    for cut, end, odd_here, other_here in zip(cuts.tolist(), ends[cuts - 1].tolist(), odd, other, strict=True):
        times = fronts.times[first:cut] if fronts and other_here == others else None
        letter_at = fronts.letter_at if fronts else 0
        yield _Block(view[offset : end + 1], offset, first, begins[first:cut], odd_here == odds, times, letter_at)
        first, offset, odds, others = cut, end + 1, odd_here, other_here


def _count_before(flags: npt.NDArray[np.bool_], cuts: npt.NDArray[np.int64]) -> list[int]:
    """Count the flags before each cut."""
    counts: list[int] = np.searchsorted(np.flatnonzero(flags), cuts).tolist()
    return counts


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
