"""Records of CSV: a value between quotes may hold newlines, so that a record has several lines. Pure.

What whoever is logged sends may hold lines that look like rows, or like a header; within a record they are none. A line
with an open quote that no quote closes where a value ends was torn: it stands alone, and so do those behind it. Records
have at most the bytes of a line, and so many lines that whatever is torn does not hold up what follows for long.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from elf.agents.sources.lines import LINE_BYTES_MAX, Ends, line_ends
from elf.agents.sources.native import RecordKernels, built_for_records

#: A record has at most so many lines.
RECORD_LINES_MAX = 1_024
_QUOTE = b'"'
_KERNELS = built_for_records()


class Records(NamedTuple):
    """The records that some lines are.

    Attributes:
        lasts: the number of the line that each ends with.
        begun: the line with which a record begins that has no end yet; the number of lines if none does.
    """

    lasts: Ends
    begun: int


def records(data: bytes, ends: Ends, separator: bytes, kernels: RecordKernels | None = _KERNELS) -> Records:
    """Find the records in clean lines. O(bytes), unless many lines are torn.

    Args:
        data: the lines.
        ends: where they end.
        separator: between values, one byte.
        kernels: who does it; None: the twin of those in C.
    """
    if _QUOTE not in data:
        return Records(np.arange(len(ends)), len(ends))
    if kernels is None:
        return _found(data, ends.tolist(), separator)
    lasts = np.empty(len(ends), np.int64)
    count, begun = kernels.records(data, ends, separator[0], LINE_BYTES_MAX, RECORD_LINES_MAX, lasts)
    return Records(lasts[:count], begun)


def ended(data: bytes, ends: Ends, separator: bytes) -> Records:
    """Find the records in lines that nothing follows: where one has no end, its first line is torn."""
    found = records(data, ends, separator)
    lasts, first = [found.lasts], found.begun
    while first < len(ends):
        lasts.append(np.array([first]))
        first += 1
        begin = int(ends[first - 1]) + 1
        found = records(data[begin:], ends[first:] - begin, separator)
        lasts.append(found.lasts + first)
        first += found.begun
    return Records(np.concatenate(lasts), first)


def between_huge(text: bytes) -> list[tuple[int, int]]:
    """Return where the pieces of a text begin and end that no record goes beyond: a line that is too long is one."""
    if len(text) <= LINE_BYTES_MAX:
        return [(0, len(text))]
    bounds = np.append(0, line_ends(text) + 1)
    huge = np.flatnonzero(np.diff(bounds) > LINE_BYTES_MAX + 1)
    places = np.unique(np.concatenate([[0, len(text)], bounds[huge], bounds[huge + 1]])).tolist()
    return list(pairwise(places))


def _found(data: bytes, ends: list[int], separator: bytes) -> Records:
    lasts, first = list[int](), 0
    while first < len(ends):
        last = _last_line(data, ends, separator, first)
        if last is None:
            break
        lasts.append(last)
        first = last + 1
    return Records(np.array(lasts, np.int64), first)


def _last_line(data: bytes, ends: list[int], separator: bytes, first: int) -> int | None:
    """Return the line with which a record ends that begins with a line, which may be none; None: it is not there."""
    begin = at = ends[first - 1] + 1 if first else 0
    line, end = first, ends[first]
    while True:
        if not data.startswith(_QUOTE, at):
            behind = data.find(separator, at, end)
            if _QUOTE in data[at : end if behind < 0 else behind]:
                return first
            if behind < 0:
                return line
            at = behind + 1
            continue
        quote = _closing(data, at + 1, ends[-1])
        if quote < 0:
            is_short = ends[-1] + 1 - begin <= LINE_BYTES_MAX and len(ends) - first <= RECORD_LINES_MAX
            return None if is_short else first
        while end < quote:
            line += 1
            end = ends[line]
        if end - begin > LINE_BYTES_MAX or line - first >= RECORD_LINES_MAX:
            return first
        if quote + 1 == end:
            return line
        if not data.startswith(separator, quote + 1):
            return first
        at = quote + 2


def _closing(data: bytes, at: int, end: int) -> int:
    """Return the quote that ends a value; -1: none does."""
    while (at := data.find(_QUOTE, at, end)) >= 0:
        if data[at + 1 : at + 2] != _QUOTE:
            return at
        at += 2
    return -1
