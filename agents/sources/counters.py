"""The bookkeeping of one source: where every line that was read ended up, and what was odd about some of them.

Owns the conservation law read = parsed + rejected + filtered + headers + parts. It does not own *why* a line was
rejected; the formats decide that and hand the reason along in `Parsed.rejects`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.instants import LATEST_MS

#: Rejected lines kept as a sample, per chunk, and of each line; enough to see what is wrong, too little to fill a disk.
REJECTS_MAX = 100
REJECT_BYTES_MAX = 4096


class _Tally(msgspec.Struct, frozen=True):
    """A record of integers that adds up field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Counters(_Tally, frozen=True):
    """Lines by their end; each line read is in exactly one of the others.

    `headers` say what the lines behind them are made of, and are no events themselves; `parts` are lines of which
    others are the rest, whose end they share. `ahead` says how many of the rejected are events too far in the future.
    """

    read: int = 0
    parsed: int = 0
    rejected: int = 0
    filtered: int = 0
    headers: int = 0
    parts: int = 0
    ahead: int = 0

    @property
    def balanced(self) -> bool:
        """Tell whether every line read has exactly one end."""
        return self.read == self.parsed + self.rejected + self.filtered + self.headers + self.parts


class Oddities(_Tally, frozen=True):
    """What was repaired or lost *inside* lines; says nothing about how the lines ended.

    `mistyped` counts values (not lines) of events that do not fit their column's type, by column; each became null.
    `time_ambiguous` counts local times of an hour that came twice; they were taken for the earlier one.
    """

    truncated: int = 0
    bad_encoding: int = 0
    nul_bytes: int = 0
    mistyped: Mapping[str, int] = {}
    time_ambiguous: int = 0

    def __add__(self, other: Self) -> Self:
        columns = {**self.mistyped, **other.mistyped}  # of nearly all lines none
        mistyped = {name: self.mistyped.get(name, 0) + other.mistyped.get(name, 0) for name in columns}
        counts = (self.truncated, self.bad_encoding, self.nul_bytes, self.time_ambiguous)
        others = (other.truncated, other.bad_encoding, other.nul_bytes, other.time_ambiguous)
        truncated, bad_encoding, nul_bytes, ambiguous = map(operator.add, counts, others)
        return type(self)(truncated, bad_encoding, nul_bytes, mistyped, ambiguous)


#: Column -> event times, in ms, of the events that have a value there which does not fit; none of them empty.
Mistyped: TypeAlias = Mapping[str, npt.NDArray[np.int64]]


class Parsed(msgspec.Struct, frozen=True):
    """One chunk after parsing: a row per event in `events`, and an account of every line.

    `rejects` is a sample: at most `REJECTS_MAX` lines of at most `REJECT_BYTES_MAX` bytes, each with its reason.
    """

    events: pl.DataFrame
    counters: Counters
    rejects: tuple[tuple[bytes, str], ...] = ()
    oddities: Oddities = Oddities()
    #: When the events are whose values `oddities.mistyped` counts: labels name the intervals that lack them.
    mistyped: Mistyped = {}


class Rejects:
    """Counts rejected lines and keeps the first few of them with their reasons.

    Args:
        latest_ms: lines with a later event time are to be rejected.
    """

    def __init__(self, latest_ms: int = LATEST_MS) -> None:
        self.count = 0
        self.latest_ms = latest_ms
        #: Of those counted.
        self.ahead = 0
        self._sample: list[tuple[bytes, str]] = []

    def add(self, line: bytes, reason: str) -> None:
        """Count one line and keep it while there is room."""
        self.count += 1
        if len(self._sample) < REJECTS_MAX:
            self._sample.append((line[:REJECT_BYTES_MAX], reason))

    @property
    def room(self) -> int:
        """How many more lines will be kept."""
        return REJECTS_MAX - len(self._sample)

    def add_all(self, sample: Sequence[tuple[bytes, str]], count: int, ahead: int = 0) -> None:
        """Count lines, of which some are `ahead`, that others have rejected; keep the first while there is room."""
        self.count += count
        self.ahead += ahead
        self._sample += [(line[:REJECT_BYTES_MAX], reason) for line, reason in sample[: self.room]]

    def sample(self) -> tuple[tuple[bytes, str], ...]:
        """Return the kept lines, in the order of their arrival."""
        return tuple(self._sample)
