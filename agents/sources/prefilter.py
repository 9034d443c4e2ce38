"""The raw pre-filter: lines that no job can want are skipped before they are parsed (DESIGN section 3, step 2).

Exact in one direction: a line that is skipped lacks, for every job, some text that the job's events must contain. Lines
that are kept are judged by the job's own filter, after parsing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

import polars as pl

from agents.sources.lines import join, split

_BACKSLASHES_MAX = 4_096


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

    def keep(self, data: bytes) -> tuple[bytes, int, int]:
        """Return the lines some job may want, how many were skipped, and how many had invalid UTF-8 (now repaired)."""
        lines, bad_encoding = split(data)
        count = lines.len()
        # The longest text of each job is likely its rarest. The others are looked for in what that leaves.
        longest = [max(words, key=len) for words in self._jobs]
        lines = _filtered(lines, [[word] for word in longest])
        if len(self._jobs) == 1:
            others = [[word for word in self._jobs[0] if word != longest[0]]]
        else:
            others = self._jobs if any(len(words) > 1 for words in self._jobs) else [[]]
        if all(others):
            lines = _filtered(lines, others)
        return join(lines), count - lines.len(), bad_encoding


def _filtered(lines: pl.Series, jobs: Sequence[Sequence[str]]) -> pl.Series:
    """Keep the lines that have all texts of some job."""
    # A mask and a series' own filter: a frame's is a query, and its threads cost more than they gain.
    mask = lines.to_frame().select_seq(_any(jobs)).to_series()
    return lines.filter(mask) if mask.len() == lines.len() else lines.clear()  # no job at all: one False


def _any(jobs: Sequence[Sequence[str]]) -> pl.Expr:
    """Tell which lines have all texts of some job."""
    contains = pl.col("raw").str.contains
    return reduce(
        or_, (reduce(and_, (contains(word, literal=True) for word in words)) for words in jobs), pl.lit(False)
    )


def json_escape(data: bytes, literals: Sequence[Sequence[str]]) -> str | None:
    """Return the beginning of the escapes in which one of these texts can hide in JSON lines, None if there are none.

    Every character can be written as a number; some have, or need, a short escape.
    """
    if b"\\" not in data:
        return None
    letters = set("".join(word for words in literals for word in words))
    if letters & set('"\\/\b\f\n\r\t'):
        return "\\"
    # Going from backslash to backslash is ten times faster than looking for two bytes, while there are few of them.
    place = -2
    for _ in range(_BACKSLASHES_MAX):
        place = data.find(b"\\", place + 2)
        if place < 0:
            return None
        if data[place + 1] == ord("u"):
            break
    return "\\u"
