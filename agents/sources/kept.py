"""Lines of a log that some job may want, between the pre-filter and the parser, with an account of the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from elf.agents.language.instants import LATEST_MS
from elf.agents.sources.counters import Oddities
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.lines import Ends, cuts, valid_lines


class Section(NamedTuple):
    """Lines that follow each other below one header.

    Attributes:
        header: theirs, clean; empty if there is none.
        lines: how many they are.
    """

    header: bytes
    lines: int


class Kept(msgspec.Struct, frozen=True):
    """Whole lines to be parsed, and apart from them the huge ones.

    Attributes:
        data: the lines, each with its newline.
        ends: where in the data each line's newline is.
        huge: the huge ones, cut to `LINE_BYTES_MAX`.
        filtered: how many others no job can want.
        oddities: what was repaired in any of them.
        headers: how many others are headers.
        rests: how many others are the rest of rows that have several lines.
        sections: of formats with headers: which of the lines are below which; all of them are in one.
        is_utf8: the lines are known to be valid UTF-8.
        latest_ms: lines with a later event time are rejected.
        dictionaries: what columns of texts are numbered by; None: they stay texts.
    """

    data: bytes
    ends: Ends
    huge: tuple[bytes, ...] = ()
    filtered: int = 0
    oddities: Oddities = Oddities()
    headers: int = 0
    rests: int = 0
    sections: tuple[Section, ...] = ()
    is_utf8: bool = False
    latest_ms: int = LATEST_MS
    dictionaries: Dictionaries | None = None

    @classmethod
    def whole(cls, line: bytes) -> Kept:
        """Keep one line as it is."""
        data = line if line.endswith(b"\n") else line + b"\n"
        return cls(data, np.array([len(data) - 1]))

    @property
    def count(self) -> int:
        """How many lines are to be parsed."""
        return len(self.ends) + len(self.huge)

    @property
    def read(self) -> int:
        """How many lines were read."""
        return self.count + self.filtered + self.headers + self.rests

    @property
    def memory_bytes(self) -> int:
        """Bytes of these lines."""
        return len(self.data) + sum(map(len, self.huge))

    def line(self, number: int) -> bytes:
        """Return a line, without its newline."""
        return self.data[int(self.ends[number - 1]) + 1 if number else 0 : int(self.ends[number])]

    def parts(self, size: int) -> Iterator[tuple[int, Ends]]:
        """Yield the lines in parts, at least one, of so many bytes and the rest of a line.

        Returns:
            Of each part where its first line begins, and where its newlines are.
        """
        places = cuts(self.ends, size).tolist() if len(self.ends) else [0, 0]
        for first, last in itertools.pairwise(places):
            yield int(self.ends[first - 1]) + 1 if first else 0, self.ends[first:last]

    def blocks(self, size: int) -> Iterator[tuple[bytes, Ends]]:
        """Yield the lines in blocks of their own, as `parts` does, and where in each its newlines are. O(bytes)."""
        for begin, places in self.parts(size):
            yield self.data[begin : int(places[-1]) + 1 if len(places) else 0], places - begin

    def repaired(self) -> Kept:
        """Return the same lines in valid UTF-8; what was none is counted."""
        data, ends, bad_encoding = (self.data, self.ends, 0) if self.is_utf8 else valid_lines(self.data, self.ends)
        if not bad_encoding:
            return self
        odd = self.oddities + Oddities(bad_encoding=bad_encoding)
        return Kept(
            data,
            ends,
            self.huge,
            self.filtered,
            odd,
            is_utf8=True,
            latest_ms=self.latest_ms,
            dictionaries=self.dictionaries,
        )

    def halves(self) -> tuple[Kept, Kept]:
        """Divide the lines, of which there are at least two; what is said of the others goes with the first half.

        Texts stay texts: who divides lines does so because something has failed.
        """
        middle = self.count // 2
        lines = min(middle, len(self.ends))
        at = int(self.ends[lines - 1]) + 1 if lines else 0
        huge = middle - lines
        first, second = _cut(self.sections, lines)
        return (
            Kept(
                self.data[:at],
                self.ends[:lines],
                self.huge[:huge],
                self.filtered,
                self.oddities,
                self.headers,
                self.rests,
                first,
                latest_ms=self.latest_ms,
            ),
            Kept(self.data[at:], self.ends[lines:] - at, self.huge[huge:], sections=second, latest_ms=self.latest_ms),
        )


def joined(parts: Sequence[Kept]) -> Kept:
    """Put lines that follow each other together, at least one part of them. O(bytes)."""
    if len(parts) == 1:
        return parts[0]
    begins = itertools.accumulate((len(part.data) for part in parts), initial=0)
    return Kept(
        data=b"".join(part.data for part in parts),
        ends=np.concatenate([part.ends + at for part, at in zip(parts, begins, strict=False)]),
        huge=tuple(line for part in parts for line in part.huge),
        filtered=sum(part.filtered for part in parts),
        oddities=sum((part.oddities for part in parts), Oddities()),
        headers=sum(part.headers for part in parts),
        rests=sum(part.rests for part in parts),
        sections=_merged(section for part in parts for section in part.sections or (Section(b"", len(part.ends)),))
        if any(part.sections for part in parts)
        else (),
        is_utf8=all(part.is_utf8 for part in parts),
        latest_ms=parts[0].latest_ms,
    )


def _cut(sections: Sequence[Section], lines: int) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """Divide sections behind so many lines."""
    first, second, left = list[Section](), list[Section](), lines
    for section in sections:
        count = min(left, section.lines)
        left -= count
        first.append(section._replace(lines=count))
        second.append(section._replace(lines=section.lines - count))
    return _merged(first), _merged(second)


def _merged(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Join neighbours below the same header, and leave empty ones out, unless all are."""
    found: list[Section] = []
    for section in sections:
        if found and (found[-1].header == section.header or not section.lines):
            found[-1] = found[-1]._replace(lines=found[-1].lines + section.lines)
        elif found and not found[-1].lines:
            found[-1] = section
        else:
            found.append(section)
    return tuple(found)
