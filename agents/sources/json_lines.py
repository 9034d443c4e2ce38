"""JSON lines to frames: a strict typed decoder for blocks of lines, an exact fall-back for blocks where it refuses.

The fast road is msgspec's decoder, which checks a whole line but builds only the wanted fields (4 M lines a second and
core); it runs over blocks of some lines, so the GIL is never held for long and one bad line costs one block. It
knows lines only as white space, so a block takes the fast road only if every line begins with `{` and ends with `}`
and gives one row: then no object can span lines and no line can hold two. Where all lines of a block begin with the
event time, that is read without the decoder (`fronts`).

Rules for values: an absent field or JSON null is null; in a STRING column other values keep their JSON text; a quoted
number fits a number column, and a whole one an integer column however it is written (`2.0`, `2e3`; with a point or an
exponent it is a double: exact up to 2^52); a value that does not fit its type is null, counted by column in
`oddities.mistyped`, and the event is kept. Of duplicate names the last counts. A line without valid time is rejected
(reason `time`). Invalid UTF-8 is repaired and counted where a wanted value, or a line that needs a closer look, holds
it; elsewhere nobody reads it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import event_time
from elf.agents.sources.counters import Counters, Mistyped, Oddities, Parsed, Rejects
from elf.agents.sources.fronts import Bytes, FrontReader, Shape
from elf.agents.sources.json_values import MalformedError, RawLine, Value, convert
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import Ends, clean, cuts, valid_utf8
from elf.agents.sources.prefilter import Prefilter, json_escape
from elf.agents.sources.times.notations import NO_TIME

#: Bytes decoded at a time where all lines have the same front: some 3,000 lines, 0.8 ms.
_FRONT_BLOCK_BYTES = 1 << 20
#: Bytes decoded at a time where one of these has not, or is refused: some 800 lines.
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
#: Types whose values a column of them is made of at once: each by itself is only unpacked before.
_AT_ONCE = (SqlType.DATE, SqlType.TIMESTAMP)
#: Reads event times, in ms, `NO_TIME` where a value is none.
TimesOf = Callable[[Sequence[object]], npt.NDArray[np.int64]]
#: Fits no value at all, so a line that has the field is refused.
_NEVER = Annotated[str, msgspec.Meta(pattern="(?!)")]


def iso_times(values: Sequence[object]) -> npt.NDArray[np.int64]:
    """Read ISO-8601 texts and epoch numbers only."""
    return event_time.from_values(values)[0]


class JsonLines:
    """The format `json`: one JSON object a line; event time in the field `time`.

    Args:
        time: the field.
        times_of: reads the values of the field, as `elf.agents.sources.times.values.event_times` does.
    """

    name = "json"
    columns: Mapping[str, SqlType] | None = None
    addresses: Collection[str] = ()
    derives_all = False
    carrier = None

    def __init__(self, time: str = "ts", times_of: TimesOf = iso_times) -> None:
        self.time = time
        self._times_of = times_of

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines that some job may want; see `elf.agents.sources.format.Format`."""
        prefilter = Prefilter(literals, json_escape(chunk, literals))
        lines = clean(chunk, prefilter.word)
        if lines.data is not chunk:  # a NUL may have stood in an escape; no word was found then
            prefilter = Prefilter(literals, json_escape(lines.data, literals))
        return prefilter.keep(lines)

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`."""
        rejects = Rejects()
        for line in lines.huge:
            rejects.add(line, "line_too_long")
        decoder = _decoder(self.time, tuple((name, kind) for name, kind in wanted.items() if name != "ts"))
        decoded = decoder.decode(lines.data, lines.ends, rejects, self._times_of)
        return Parsed(
            events=decoded.events,
            counters=Counters(
                read=lines.count + lines.filtered,
                parsed=decoded.events.height,
                rejected=rejects.count,
                filtered=lines.filtered,
            ),
            rejects=rejects.sample(),
            oddities=lines.oddities + decoded.oddities,
            mistyped=decoded.mistyped,
        )


class _Decoded(msgspec.Struct, frozen=True):
    events: pl.DataFrame
    oddities: Oddities
    mistyped: Mistyped


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
        self._names = [time, *wanted]
        self._getters: list[Callable[[Any], Value]] = [attrgetter(f"f{index}") for index, _ in self._outputs]

    def decode(self, data: bytes, ends: Ends, rejects: Rejects, times_of: TimesOf) -> _Decoded:
        """Decode clean lines with newlines at `ends`; those that are no events go to `rejects`."""
        if not data:
            return _Decoded(self._frame(np.empty(0, np.int64), [[] for _ in self._wanted], {}), Oddities(), {})
        blocks = _cut(_whole(data, ends), _FRONT_BLOCK_BYTES)
        shape = self._front.shape(data) if self._front else None
        parts = self._behind_fronts(blocks, shape) if shape else [None] * len(blocks)
        columns: list[list[Value]] = [[] for _ in self._outputs]
        times: list[npt.NDArray[np.int64]] = []
        refused: list[int] = []
        bad_encoding, unfit = 0, dict[str, list[int]]()
        for block, part in zip(blocks, parts, strict=True):
            for piece in [block] if part else _cut(block, _BLOCK_BYTES):
                before = len(columns[0])
                values = part.columns if part else self._fast_columns(self._fast, piece)
                if values is None:
                    bad_encoding += self._exactly(piece, columns, unfit, refused, rejects)
                else:
                    for column, own in zip(columns, values, strict=True):
                        column += own
                times.append(part.times if part else np.full(len(columns[0]) - before, NO_TIME))
        at = np.concatenate(times)
        if columns[0]:
            at[at == NO_TIME] = times_of(columns[0])
        valid = at != NO_TIME
        frame = self._frame(at, columns[1:], unfit)
        if not valid.all():
            _reject_without_time(data, len(ends), refused, valid, rejects)
            frame = frame.filter(pl.Series(valid))
        times_of_unfit = ((name, at[rows][valid[rows]]) for name, rows in unfit.items())
        mistyped = {name: found for name, found in times_of_unfit if len(found)}
        counts = {name: len(found) for name, found in mistyped.items()}
        return _Decoded(frame, Oddities(bad_encoding=bad_encoding, mistyped=counts), mistyped)

    def _behind_fronts(self, blocks: Sequence[_Block], shape: Shape) -> list[_Part | None]:
        """Decode those blocks whose lines all have fronts of this shape, with valid times; None for each other one."""
        scratch = np.empty(max(len(block.text) for block in blocks), dtype=np.uint8)
        columns: dict[int, list[list[Value]]] = {}
        fronts: list[Bytes] = []
        for number, block in enumerate(blocks):
            # All looks at the lines at once, while their copy is near the processor.
            copy = scratch[: len(block.text)]
            copy[:] = block.text
            own = shape.fronts(copy, block.begins)
            if own is None:
                continue
            shape.hide(copy, block.begins)
            values = self._fast_columns(self._fast_behind, block._replace(text=copy), first=1)
            if values is not None:
                columns[number] = values
                fronts.append(own)
        parts: list[_Part | None] = [None] * len(blocks)
        for (number, values), times in zip(columns.items(), shape.times(fronts), strict=True):
            if (times != NO_TIME).all():
                parts[number] = _Part(values, times)
        return parts

    def _fast_columns(
        self, decoder: msgspec.json.Decoder[Any], block: _Block, first: int = 0
    ) -> list[list[Value]] | None:
        """Decode lines into columns, from the first one on; None if they need a closer look."""
        lines, begins = block.text, block.begins
        if not ((lines[begins] == 123).all() and (lines[block.lasts] == 125).all()):
            return None
        try:
            rows = decoder.decode_lines(lines.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if len(rows) != len(begins):
            return None
        return [[] for _ in range(first)] + [list(map(getter, rows)) for getter in self._getters[first:]]

    def _exactly(
        self,
        block: _Block,
        columns: list[list[Value]],
        unfit: dict[str, list[int]],
        refused: list[int],
        rejects: Rejects,
    ) -> int:
        """Decode a block line by line, and note the rows of values that do not fit; returns how many are no UTF-8."""
        lines, bad_encoding = valid_utf8(block.text.tobytes())
        for index, line in enumerate(lines.split(b"\n")[:-1], block.first):
            try:
                texts = self._raw.texts(line)
            except MalformedError as error:
                rejects.add(line, str(error))
                refused.append(index)
                continue
            for name, column, (attribute, kind) in zip(self._names, columns, self._outputs, strict=True):
                value, fits = convert(texts[attribute], kind)
                if kind is not None and not fits:
                    unfit.setdefault(name, []).append(len(column))
                column.append(value)
        return bad_encoding

    def _frame(
        self, times: npt.NDArray[np.int64], columns: list[list[Value]], unfit: dict[str, list[int]]
    ) -> pl.DataFrame:
        """Build the typed columns, and note the rows of further values that do not fit."""
        series = [pl.Series("ts", times, dtype=pl.Int64).cast(pl.Datetime("ms"))]
        for (name, kind), values in zip(self._wanted.items(), columns, strict=True):
            series.append(_column(name, kind, values))
            if kind in _AT_ONCE and series[-1].null_count() > values.count(None):
                nulls = series[-1].is_null().arg_true().to_list()
                unfit.setdefault(name, []).extend(row for row in nulls if values[row] is not None)
        return pl.DataFrame(series)


def _row_decoder(fields: Mapping[str, str], kinds: Mapping[str, Any]) -> msgspec.json.Decoder[Any]:
    """Make a decoder of objects; attribute names come with their JSON names and with their types."""
    row = msgspec.defstruct("Row", [(a, kinds[a], None) for a in fields], rename=dict(fields), gc=False)
    return msgspec.json.Decoder(row)


class _Block(NamedTuple):
    """Some neighbouring lines."""

    #: Their bytes, and the index of the first line.
    text: Bytes
    first: int
    #: Where in the text each line begins, and where the byte before its newline is.
    begins: npt.NDArray[np.int64]
    lasts: npt.NDArray[np.int64]


class _Part(NamedTuple):
    """Decoded lines: their columns, but the first one, which is empty, and in its place their event times."""

    columns: list[list[Value]]
    times: npt.NDArray[np.int64]


def _whole(data: bytes, ends: Ends) -> _Block:
    begins = np.empty_like(ends)
    begins[0], begins[1:] = 0, ends[:-1] + 1
    return _Block(np.frombuffer(data, np.uint8), 0, begins, ends - 1)


def _cut(block: _Block, size: int) -> list[_Block]:
    """Cut lines, at least one, into blocks: after each line in which the next so many bytes begin."""
    text, first, begins, lasts = block
    blocks = []
    for begin, end in itertools.pairwise(cuts(lasts + 1, size).tolist()):
        at, own = int(begins[begin]), slice(begin, end)
        blocks.append(_Block(text[at : lasts[end - 1] + 2], first + begin, begins[own] - at, lasts[own] - at))
    return blocks


def _column(name: str, kind: SqlType, values: list[Value]) -> pl.Series:
    """Make a column of decoded values; of those that are read at once, some may not fit."""
    if kind not in _AT_ONCE:
        return pl.Series(name, values, dtype=kind.dtype)
    if kind is SqlType.DATE:
        texts = pl.Series(name, [value if isinstance(value, str) else None for value in values], dtype=pl.String)
        exact = texts.str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$") & ~texts.str.starts_with("0000")
        return texts.set(~exact, None).str.to_date("%Y-%m-%d", strict=False)
    times, valid = event_time.from_values(values, unit=1_000_000)
    return pl.Series(name, times).set(pl.Series(~valid), None).cast(kind.dtype)


def _reject_without_time(
    data: bytes, line_count: int, refused: list[int], valid: npt.NDArray[np.bool_], rejects: Rejects
) -> None:
    """Count the lines without a valid time, and keep the first of them."""
    decoded = np.delete(np.arange(line_count), refused)
    without = decoded[~valid]
    lines = data.split(b"\n")
    kept = without[: rejects.room]
    for index in kept:
        rejects.add(lines[index], "time")
    rejects.add_count(len(without) - len(kept))
