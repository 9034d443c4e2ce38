r"""The formats of log lines that are literals and fields: access and error logs, and every layout that people paste.

A line fits its layout, every byte of it, or it is rejected with the field and the byte at which it stops to fit.
Values are as logged: `\xHH` and `\"` stay escaped. "-" is null, except for `bytes`, where it means 0. A line whose
*request* is garbage is kept, with `request_malformed` set and `method`, `uri`, `path`, `query` and `protocol` null.
"""

from __future__ import annotations

import contextlib
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from elf.agents.language.types import SqlType
from elf.agents.sources.blocks import Found, block_events, timely, whole
from elf.agents.sources.counters import Oddities, Parsed, Rejects
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.kept import Kept
from elf.agents.sources.layouts.frames import Block, Reader
from elf.agents.sources.layouts.layout import Field, Layout
from elf.agents.sources.layouts.line import read_line
from elf.agents.sources.layouts.misfit import Misfit, reason
from elf.agents.sources.lines import Ends, clean, valid_lines
from elf.agents.sources.prefilter import Prefilter
from elf.agents.sources.times.notations import NO_TIME
from elf.agents.sources.times.zones import UTC, to_utc, with_years

#: Bytes of lines that are taken apart at a time: what is made of them stays near the processor.
BLOCK_BYTES = 4 << 20


class Times(NamedTuple):
    """How times are understood that do not say all.

    Attributes:
        now_ms: the clock, by which years are told that the lines do not have.
        zone: of times that do not say theirs.
    """

    now_ms: Callable[[], int]
    zone: zoneinfo.ZoneInfo = UTC


class LayoutLines:
    """A format with fixed layouts; see `elf.agents.sources.format.Format`.

    Args:
        name: what the configuration calls it.
        layouts: the first that fits a line is its own.
        times: what to make of times that lack something.
        absolute: requests may name scheme and host.

    Raises:
        ConfigError: a layout has no time, and the like.
    """

    carrier = None

    def __init__(self, name: str, layouts: Sequence[Layout], times: Times, *, absolute: bool = False) -> None:
        self.name = name
        self._reader = Reader(layouts, absolute=absolute)
        self._times = times
        #: Which layouts have times without a zone, and without a year.
        self._zoneless = np.array([each[0].needs_zone for each in self._reader.notations], np.bool_)
        self._yearless = np.array([each[0].needs_year for each in self._reader.notations], np.bool_)

    @property
    def columns(self) -> Mapping[str, SqlType]:
        """Every column but `ts`."""
        return self._reader.columns

    @property
    def addresses(self) -> frozenset[str]:
        """The columns that hold addresses, by their kinds."""
        return self._reader.addresses

    @property
    def derives_all(self) -> bool:
        """Whether the parts of a request are all made of it."""
        return self._reader.derives_all

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines that some job may want; see `elf.agents.sources.format.Format`."""
        prefilter = Prefilter(literals, escape=None)  # values are as logged
        return prefilter.keep(clean(chunk, prefilter.word))

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`.

        If there are `numbers`, those of the lines that are events go there.
        """
        rejects, parts, first = Rejects(lines.latest_ms), list[Parsed](), 0
        for block, ends in lines.blocks(BLOCK_BYTES):
            part, own = self._events(block, ends, wanted, rejects, lines.dictionaries)
            parts.append(part)
            if numbers is not None:
                numbers.append(own + first)
            first += len(ends)
        return whole(lines, parts, wanted, rejects)

    def times_of(self, block: bytes, ends: Ends) -> tuple[npt.NDArray[np.int64], int]:
        """Return the event time of each line, `NO_TIME` of one that does not fit; and how many came twice in UTC."""
        found = self._reader.read(block, ends, {})
        ms = np.full(len(ends), NO_TIME)
        fitting = np.ones(len(ends), np.bool_)
        fitting[found.misfits[:, 0]] = False
        ms[fitting], ambiguous = self._utc(found)
        return ms, ambiguous

    def taken_apart(self, line: bytes, carried: Sequence[bytes] = ()) -> list[tuple[Field, int, int]]:
        """Return the columns of a line that fits, in the line's order, and where the value of each begins and ends."""
        for program in self._reader.programs:
            with contextlib.suppress(Misfit):
                spans = read_line(program, line)
                found = [(field, *span) for field, span in zip(program.slots, spans, strict=True) if span is not None]
                return sorted(found, key=lambda each: each[1])
        return []

    def misfit(self, line: bytes, carried: Sequence[bytes] = ()) -> Misfit | None:
        """Say where a line stops to fit the layout that it fits furthest; None if it fits one."""
        worst: Misfit | None = None
        for program in self._reader.programs:
            try:
                read_line(program, line)
            except Misfit as misfit:
                worst = misfit if worst is None or misfit.at > worst.at else worst
            else:
                return None
        return worst

    def _events(
        self,
        block: bytes,
        ends: Ends,
        wanted: Mapping[str, SqlType],
        rejects: Rejects,
        dictionaries: Dictionaries | None,
    ) -> tuple[Parsed, Ends]:
        """Make events of some lines, and return which they are; lines that are none are rejected."""
        bad_encoding = 0
        if not block.isascii():
            block, ends, bad_encoding = valid_lines(block, ends)
        read = self._reader.read(block, ends, wanted, dictionaries)
        ms, ambiguous = self._utc(read)
        found = Found(block, 0, ends, read.misfits, ms, timely(ms, rejects), read.columns, read.mistyped)
        part = block_events(found, rejects, self._why)
        odd = Oddities(bad_encoding=bad_encoding, time_ambiguous=ambiguous)
        return msgspec.structs.replace(part, oddities=part.oddities + odd), found.fitting[found.are_events]

    def _why(self, misfit: Sequence[int]) -> str:
        layout, step, at = misfit
        return reason(self._reader.programs[layout].steps[step].place, at)

    def _utc(self, found: Block) -> tuple[npt.NDArray[np.int64], int]:
        """Return event times in UTC, and how many were in an hour that came twice."""
        ms, ambiguous = found.times, 0
        yearless = self._yearless[found.layouts]
        if yearless.any():
            ms = ms.copy()
            ms[yearless] = with_years(ms[yearless], self._times.now_ms())
        zoneless = self._zoneless[found.layouts] & (ms != NO_TIME)
        if self._times.zone is not UTC and zoneless.any():
            ms = ms.copy()
            ms[zoneless], ambiguous = to_utc(ms[zoneless], self._times.zone)
        return ms, ambiguous
