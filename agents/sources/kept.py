"""Lines of a log that some job may want, between the pre-filter and the parser, with an account of the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from elf.agents.sources.counters import Oddities
from elf.agents.sources.lines import Ends, cuts, line_ends, valid_utf8


class Kept(msgspec.Struct, frozen=True):
    """Whole lines to be parsed, and apart from them the huge ones.

    Attributes:
        data: the lines, each with its newline.
        ends: where in the data each line's newline is.
        huge: the huge ones, cut to `LINE_BYTES_MAX`.
        filtered: how many others no job can want.
        oddities: what was repaired in any of them.
        is_utf8: the lines are known to be valid UTF-8.
    """

    data: bytes
    ends: Ends
    huge: tuple[bytes, ...] = ()
    filtered: int = 0
    oddities: Oddities = Oddities()
    is_utf8: bool = False

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
    def memory_bytes(self) -> int:
        """Bytes of these lines."""
        return len(self.data) + sum(map(len, self.huge))

    def parts(self, size: int) -> Iterator[tuple[int, Ends]]:
        """Yield the lines in parts, at least one, of so many bytes and the rest of a line.

        Returns:
            Of each part where its first line begins, and where its newlines are.
        """
        places = cuts(self.ends, size).tolist() if len(self.ends) else [0, 0]
        for first, last in itertools.pairwise(places):
            yield int(self.ends[first - 1]) + 1 if first else 0, self.ends[first:last]

    def repaired(self) -> Kept:
        """Return the same lines in valid UTF-8; what was none is counted."""
        data, bad_encoding = (self.data, 0) if self.is_utf8 else valid_utf8(self.data)
        if not bad_encoding:
            return self
        odd = self.oddities + Oddities(bad_encoding=bad_encoding)
        return Kept(data, line_ends(data), self.huge, self.filtered, odd, is_utf8=True)

    def halves(self) -> tuple[Kept, Kept]:
        """Divide the lines, of which there are at least two; what is said of the others goes with the first half."""
        middle = self.count // 2
        lines = min(middle, len(self.ends))
        at = int(self.ends[lines - 1]) + 1 if lines else 0
        huge = middle - lines
        return (
            Kept(self.data[:at], self.ends[:lines], self.huge[:huge], self.filtered, self.oddities),
            Kept(self.data[at:], self.ends[lines:] - at, self.huge[huge:]),
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
        is_utf8=all(part.is_utf8 for part in parts),
    )
