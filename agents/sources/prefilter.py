"""The raw pre-filter: lines that no job can want are skipped before they are parsed (DESIGN section 3, step 2).

Exact in one direction: a line that is skipped lacks, for every job, some text that the job's events must contain. Lines
that are kept are judged by the job's own filter, after parsing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

import numpy as np
import polars as pl

from elf.agents.sources.counters import Oddities
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import Ends, Lines, clean, rows, valid_lines

_BACKSLASHES_MAX = 4_096
#: Texts of so many characters are looked for before lines are taken apart. Shorter ones may be all over the lines.
_RARE_CHARS = 3


class Prefilter:
    """Skips lines by what all jobs on a source demand.

    Args:
        literals: one entry a job: texts that all must occur in a line for that job to want it. No entry, or one without
            a text: every line is wanted.
        escape: beginning of an escape in which a text can hide: lines that have one are kept. None: there is none.
    """

    def __init__(self, literals: Sequence[Sequence[str]], escape: str | None) -> None:
        jobs = [[word for word in words if word] for words in literals]
        self.active = bool(jobs) and all(jobs)
        # No line holds a newline, so a text with one is only ever found in an escape.
        self._jobs = [words for words in jobs if not any("\n" in word for word in words)]
        if escape is not None:
            self._jobs.append([escape])

    @property
    def word(self) -> str:
        """The text of every wanted line, to be looked for before all else; empty if there is none that is long."""
        longest = max(self._jobs[0], key=len) if self.active and len(self._jobs) == 1 else ""
        return longest if len(longest) >= _RARE_CHARS and longest.isprintable() else ""

    def keep(self, lines: Lines) -> Kept:
        """Keep the lines that some job may want. Where others are skipped, invalid UTF-8 is found, and repaired."""
        if not self.active:
            return Kept(lines.data, lines.ends, lines.huge, oddities=lines.oddities, is_utf8=lines.is_utf8)
        # The longest text of each job is likely its rarest. The others are looked for in what that leaves.
        longest = [max(words, key=len) for words in self._jobs]
        if lines.having is not None:
            wanted, bad_encoding = _chosen(lines.data, lines.ends, lines.having), 0
        else:
            wanted, bad_encoding = _texts(lines.data, lines.ends)
            wanted = _filtered(wanted, [[word] for word in longest])
        if len(self._jobs) == 1:
            others = [[word for word in self._jobs[0] if word != longest[0]]]
        else:
            others = self._jobs if any(len(words) > 1 for words in self._jobs) else [[]]
        if all(others):
            wanted = _filtered(wanted, others)
        return Kept(
            # As bytes right away: a Python text in between would be decoded and encoded again.
            data=wanted.str.join("").cast(pl.Binary).item() if wanted.len() else b"",
            ends=np.cumsum(wanted.str.len_bytes().to_numpy(), dtype=np.int64) - 1,
            huge=lines.huge,
            filtered=lines.ends.size - wanted.len(),
            oddities=lines.oddities + Oddities(bad_encoding=bad_encoding),
            is_utf8=True,
        )


def keep_escaped(chunk: bytes, literals: Sequence[Sequence[str]], *, nested: bool = False) -> Kept:
    """Keep the lines of a chunk, in which texts may have the escapes of JSON, that some job may want.

    Args:
        chunk: whole lines.
        literals: as for `Prefilter`.
        nested: as for `json_escape`.
    """
    prefilter = Prefilter(literals, json_escape(chunk, literals, nested=nested))
    lines = clean(chunk, prefilter.word)
    if lines.data is not chunk:  # a NUL may have stood in an escape; no word was found then
        prefilter = Prefilter(literals, json_escape(lines.data, literals, nested=nested))
    return prefilter.keep(lines)


def _texts(data: bytes, ends: Ends) -> tuple[pl.Series, int]:
    """Return all lines with their newlines, and how many had invalid UTF-8 (now repaired)."""
    try:
        return rows(data, np.append(0, ends + 1), pl.Binary()).cast(pl.String), 0
    except pl.exceptions.ComputeError:
        data, ends, bad_encoding = valid_lines(data, ends)
        return rows(data, np.append(0, ends + 1)), bad_encoding


def _chosen(data: bytes, ends: Ends, numbers: Ends) -> pl.Series:
    """Return the lines of these numbers, which ascend and may repeat."""
    numbers = numbers[np.diff(numbers, prepend=-1) != 0]
    # Each line after what lies between it and the one before.
    bounds = np.zeros(2 * numbers.size + 2, dtype=np.int64)
    bounds[1:-1:2] = np.where(numbers > 0, ends[numbers - 1] + 1, 0)
    bounds[2:-1:2] = ends[numbers] + 1
    bounds[-1] = len(data)
    return rows(data, bounds).gather_every(2, 1)


def _filtered(lines: pl.Series, jobs: Sequence[Sequence[str]]) -> pl.Series:
    """Keep the lines that have all texts of some job."""
    # A mask and a series' own filter: a frame's is a query, and its threads cost more than they gain.
    mask = lines.to_frame().select_seq(_any(lines.name, jobs)).to_series()
    return lines.filter(mask) if mask.len() == lines.len() else lines.clear()  # no job at all: one False


def _any(column: str, jobs: Sequence[Sequence[str]]) -> pl.Expr:
    """Tell which lines have all texts of some job."""
    contains = pl.col(column).str.contains
    return reduce(
        or_, (reduce(and_, (contains(word, literal=True) for word in words)) for words in jobs), pl.lit(False)
    )


def json_escape(data: bytes, literals: Sequence[Sequence[str]], *, nested: bool = False) -> str | None:
    """Return the beginning of the escapes in which one of these texts can hide in JSON lines, None if there are none.

    Every character can be written as a number; some have, or need, a short escape.

    Args:
        data: the lines.
        literals: as for `Prefilter`.
        nested: the texts may stand in objects that are texts themselves, where backslashes are escaped, too.
    """
    if not all(map(any, literals)) or b"\\" not in data:  # a job that wants every line needs no look
        return None
    letters = set("".join(word for words in literals for word in words))
    if letters & set('"\\/\b\f\n\r\t'):
        return "\\"
    if nested:
        return "\\u" if b"\\u" in data else None
    # Going from backslash to backslash is ten times faster than looking for two bytes, while there are few of them.
    place = -2
    for _ in range(_BACKSLASHES_MAX):
        place = data.find(b"\\", place + 2)
        if place < 0:
            return None
        if data[place + 1 : place + 2] == b"u":
            break
    return "\\u"
