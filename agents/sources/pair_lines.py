"""The formats whose lines are pairs of names and values: LTSV and logfmt; each line names its own columns.

Values are texts, typed as those of JSON are. A line that has no valid time is rejected (`time`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import arrow
from elf.agents.sources.blocks import Found, block_events, timely, whole
from elf.agents.sources.counters import Oddities, Parsed, Rejects
from elf.agents.sources.kept import Kept
from elf.agents.sources.layout_lines import BLOCK_BYTES, LayoutLines
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import TIME, Field
from elf.agents.sources.layouts.misfit import Misfit, reason
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.lines import Ends, clean, line_ends, valid_utf8
from elf.agents.sources.native import Spans, built
from elf.agents.sources.pairs.line import Style, read_pairs
from elf.agents.sources.prefilter import Prefilter, keep_escaped
from elf.agents.sources.raw_texts import UnfitValues
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
        if self._style is Style.LOGFMT:
            return keep_escaped(chunk, literals)
        prefilter = Prefilter(literals, escape=None)  # values are as logged
        return prefilter.keep(clean(chunk, prefilter.word))

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`.

        If there are `numbers`, those of the lines that are events go there.
        """
        rejects = Rejects(lines.latest_ms)
        parts, first = list[Parsed](), 0
        for block, ends in lines.blocks(BLOCK_BYTES):
            part, own = self._events(block, ends, wanted, rejects)
            parts.append(part)
            if numbers is not None:
                numbers.append(own + first)
            first += len(ends)
        return whole(lines, parts, wanted, rejects)

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
        columns, mistyped = list[pl.Series](), dict[str, UnfitValues]()
        for name, kind in wanted.items():
            if name == TIME:
                continue
            texts = self._texts(name, block, found[name])
            column, bad = of_type(texts, kind)
            columns.append(column)
            if bad.any():
                misfitting = np.flatnonzero(bad)
                mistyped[name] = UnfitValues(misfitting, texts.gather(misfitting))
        taken = Found(block, 0, ends, misfits[:unfit], ms, timely(ms, rejects), columns, mistyped)
        part = block_events(taken, rejects, lambda misfit: reason(self.name, misfit[0]))
        odd = Oddities(bad_encoding=bad_encoding, time_ambiguous=ambiguous)
        return msgspec.structs.replace(part, oddities=part.oddities + odd), taken.fitting[taken.are_events]

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
