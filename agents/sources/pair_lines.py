"""The formats whose lines are pairs of names and values: LTSV and logfmt; each line names its own columns.

Values are texts, typed as those of JSON are. A line that has no valid time is rejected (`time`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import arrow
from elf.agents.sources.counters import Counters, Oddities, Parsed, Rejects, together
from elf.agents.sources.kept import Kept
from elf.agents.sources.layout_lines import BLOCK_BYTES, LayoutLines
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import TIME, Field
from elf.agents.sources.layouts.misfit import Misfit, reason
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.lines import Ends, clean, line_ends, valid_utf8
from elf.agents.sources.native import Spans, built
from elf.agents.sources.pairs.reading import Style, read_pairs
from elf.agents.sources.prefilter import Prefilter, json_escape
from elf.agents.sources.times.notations import NO_TIME
from elf.agents.sources.typed_texts import of_type

_QUOTE = ord('"')


class PairLines:
    """A format of pairs; see `elf.agents.sources.format.Format`.

    Args:
        style: how they are written.
        times: names of which the first that a line has holds its time.
        clock: reads times, each of which is a line of its own.
    """

    columns: Mapping[str, SqlType] | None = None
    addresses: Sequence[str] = ()
    derives_all = False
    carrier = None

    def __init__(self, style: Style, times: Sequence[str], clock: LayoutLines) -> None:
        self.name = style.name.lower()
        self._style = style
        self._times = tuple(times)
        self._clock = clock
        self._kernels = built() or Twin()

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines that some job may want; see `elf.agents.sources.format.Format`."""
        # Texts of logfmt have the escapes of JSON.
        escape = json_escape(chunk, literals) if self._style is Style.LOGFMT else None
        prefilter = Prefilter(literals, escape)
        lines = clean(chunk, prefilter.word)
        if escape is None and self._style is Style.LOGFMT and lines.data is not chunk:
            prefilter = Prefilter(literals, json_escape(lines.data, literals))
        return prefilter.keep(lines)

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`.

        If there are `numbers`, those of the lines that are events go there.
        """
        rejects = Rejects()
        parts, first = list[Parsed](), 0
        for block, ends in lines.blocks(BLOCK_BYTES):
            part, own = self._events(block, ends, wanted, rejects)
            parts.append(part)
            if numbers is not None:
                numbers.append(own + first)
            first += len(ends)
        for line in lines.huge:
            rejects.add(line, "line_too_long")
        events, oddities, mistyped = together(parts, wanted)
        counters = Counters(lines.count + lines.filtered, events.height, rejects.count, lines.filtered)
        return Parsed(events, counters, rejects.sample(), oddities + lines.oddities, mistyped)

    def names_in(self, sample: bytes) -> Sequence[str]:
        """Return the names that some lines have, each once."""
        names: dict[str, None] = {}
        for line in valid_utf8(clean(sample).data)[0].split(b"\n"):
            try:
                names |= dict.fromkeys(pair.name.decode() for pair in read_pairs(self._style, line))
            except Misfit:
                continue
        return [name for name in names if name != TIME]

    def taken_apart(self, line: bytes, carried: Sequence[bytes] = ()) -> list[tuple[Field, int, int]]:
        """Return the values of a line that fits, and where each is."""
        pairs = [pair for pair in read_pairs(self._style, line) if pair.begin >= 0]
        names = [pair.name.decode(errors="replace") for pair in pairs]
        time = next((name for name in self._times if name in names), None)
        found = zip(names, pairs, strict=True)
        return [(Field(TIME if name == time else name, Kind.TEXT), pair.begin, pair.end) for name, pair in found]

    def misfit(self, line: bytes, carried: Sequence[bytes] = ()) -> Misfit | None:
        """Say where a line stops to fit; None if it does not."""
        try:
            read_pairs(self._style, line)
        except Misfit as misfit:
            return misfit
        return None

    def _events(self, block: bytes, ends: Ends, wanted: Mapping[str, SqlType], rejects: Rejects) -> tuple[Parsed, Ends]:
        """Make events of some lines, and return which they are; lines that are none are rejected."""
        bad_encoding = 0
        if not block.isascii():
            block, bad_encoding = valid_utf8(block)
            ends = line_ends(block) if bad_encoding else ends
        names = list(dict.fromkeys([*self._times, *(name for name in wanted if name != TIME)]))
        places = [np.empty((len(ends), 2), np.int32) for _ in names]
        misfits = np.empty((len(ends), 2), np.int32)
        encoded = tuple(name.encode() for name in names)
        rows, unfit = self._kernels.pairs(self._style, encoded, block, ends, places, misfits)
        found = {name: each[:rows] for name, each in zip(names, places, strict=True)}
        ms, ambiguous = self._read_times(block, found)
        exists = ms != NO_TIME
        series, mistyped = [pl.Series(TIME, ms).cast(pl.Datetime("ms"))], {}
        for name, kind in wanted.items():
            if name == TIME:
                continue
            column, bad = of_type(self._texts(name, block, found[name]), kind)
            series.append(column)
            times = ms[bad & exists]
            if len(times):
                mistyped[name] = times
        events = pl.DataFrame(series)
        if unfit or not exists.all():
            self._reject(block, ends, misfits[:unfit], exists, rejects)
            events = events.filter(pl.Series(exists))
        counts = {name: len(times) for name, times in mistyped.items()}
        oddities = Oddities(bad_encoding=bad_encoding, mistyped=counts, time_ambiguous=ambiguous)
        own = np.delete(np.arange(len(ends)), misfits[:unfit, 0])[exists]
        return Parsed(events, Counters(), (), oddities, mistyped), own

    def _read_times(self, block: bytes, found: Mapping[str, Spans]) -> tuple[npt.NDArray[np.int64], int]:
        """Read the event times of lines; `NO_TIME` where there is none; also tells how many were ambiguous."""
        spans = found[self._times[0]]
        for name in self._times[1:]:
            if (spans[:, 0] >= 0).all():
                break
            spans = np.where(spans[:, :1] >= 0, spans, found[name])
        has = spans[:, 0] >= 0
        ms = np.full(len(spans), NO_TIME)
        # Each with the byte behind it, which becomes the end of its line.
        offsets, valid = np.empty(len(spans) + 1, np.int64), np.empty((len(spans) + 7) // 8, np.uint8)
        data, _ = self._kernels.gather(
            block, np.where(has[:, None], spans + np.array([0, 1], np.int32), spans), offsets, valid
        )
        texts, ends = np.frombuffer(data, np.uint8).copy(), offsets[1:][has] - 1
        texts[ends] = ord("\n")
        ms[has], ambiguous = self._clock.times_of(texts.tobytes(), ends)
        return ms, ambiguous

    def _texts(self, name: str, block: bytes, spans: Spans) -> pl.Series:
        texts, data = arrow.texts_and_bytes(name, len(spans), partial(self._kernels.gather, block, spans))
        if self._style is not Style.LOGFMT or b"\\" not in data:
            return texts
        # What is between quotes has escapes, what is not has a backslash as it is.
        before = np.frombuffer(block, np.uint8)[np.maximum(spans[:, 0] - 1, 0)]
        escaped = (
            (before == _QUOTE) & (spans[:, 0] >= 0) & texts.str.contains("\\", literal=True).fill_null(False).to_numpy()
        )
        rows = np.flatnonzero(escaped)
        if not len(rows):
            return texts
        return texts.scatter(rows, ('"' + texts.gather(rows) + '"').str.json_decode(pl.String))

    def _reject(
        self, block: bytes, ends: Ends, misfits: Spans, exists: npt.NDArray[np.bool_], rejects: Rejects
    ) -> None:
        """Count the lines that do not fit, and those without a time; keep the first of them."""
        timeless = np.delete(np.arange(len(ends)), misfits[:, 0])[~exists]
        count, room = len(misfits) + len(timeless), rejects.room
        reasons = dict.fromkeys(timeless[:room].tolist(), "time")
        reasons |= {number: reason(self.name, at) for number, at in misfits[:room].tolist()}
        first = sorted(reasons)[:room]
        begins = (int(ends[number - 1]) + 1 if number else 0 for number in first)
        lines = [block[begin : int(ends[number])] for number, begin in zip(first, begins, strict=True)]
        rejects.add_all([(line, reasons[number]) for line, number in zip(lines, first, strict=True)], count)
