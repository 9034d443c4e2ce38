"""What those who follow a job are sent, and when: windows that close, windows that change, windows still open. Pure.

A window is sent when it closes, and again whenever late data has changed it: nothing that was sent as final changes
unsaid. Who has been away for many windows is sent the newest and told of the others. With `emit_every` a window is also
sent while it is open, each time event time passes a multiple of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from elf.agents.language.query import Window
from elf.agents.master.results import Span


class Batch(NamedTuple):
    """Windows to be sent: the newest ones ascending, and how many older ones are not, all within `rest`."""

    spans: list[Span]
    rest: Span | None = None
    rest_count: int = 0


def closed(window: Window, after_ms: int, through_ms: int, most: int) -> Batch:
    """Return the `most` newest windows that closed after one event time and by another, ascending."""
    last, before = _number(window, through_ms), _number(window, after_ms)
    first = max(before, last - most) + 1
    spans = [_numbered(window, each) for each in range(first, last + 1)]
    if first == before + 1:
        return Batch(spans)
    rest = Span(_numbered(window, before + 1).start_ms, _numbered(window, first - 1).end_ms)
    return Batch(spans, rest, first - 1 - before)


def revised(window: Window, runs: Iterable[tuple[int, int]], since_ms: int, until_ms: int, most: int) -> Batch:
    """Return the windows that hold some of these runs of event time, [start_ms, end_ms), newest and older ones.

    Args:
        window: the job's.
        runs: in which something changed.
        since_ms: windows begin no earlier.
        until_ms: windows end no later.
        most: how many to return one by one.
    """
    earliest, latest = _number(window, since_ms + window.size_ms - 1) + 1, _number(window, until_ms)
    # Of windows, by their numbers.
    ends: list[tuple[int, int]] = []
    for start_ms, end_ms in sorted(runs):
        first = max(_number(window, start_ms) + 1, earliest)
        last = min(_number(window, end_ms + window.size_ms - 1), latest)
        if ends and first <= ends[-1][1] + 1:
            ends[-1] = ends[-1][0], max(ends[-1][1], last)
        elif first <= last:
            ends.append((first, last))
    newest: list[int] = []
    while ends and len(newest) < most:
        first, last = ends.pop()
        cut = max(first, last - (most - len(newest)) + 1)
        newest += range(last, cut - 1, -1)
        if cut > first:
            ends.append((first, cut - 1))
    rest = None
    if ends:
        rest = Span(_numbered(window, ends[0][0]).start_ms, _numbered(window, ends[-1][1]).end_ms)
    spans = [_numbered(window, each) for each in reversed(newest)]
    return Batch(spans, rest, sum(last - first + 1 for first, last in ends))


def joined(batches: Sequence[Batch], most: int) -> Batch:
    """Return batches of which each ends before the next one begins to as one of the `most` newest windows."""
    if len(batches) == 1:
        return batches[0]
    spans = [span for batch in batches for span in batch.spans]
    left = spans[: max(0, len(spans) - most)]
    rests = [*(batch.rest for batch in batches if batch.rest is not None), *left]
    count = len(left) + sum(batch.rest_count for batch in batches)
    rest = Span(min(each.start_ms for each in rests), max(each.end_ms for each in rests)) if rests else None
    return Batch(spans[len(left) :], rest, count)


def still_open(window: Window, through_ms: int) -> Span | None:
    """Return the window that closes next, if some of it is committed."""
    span = _numbered(window, _number(window, through_ms) + 1)
    return span if span.start_ms < through_ms else None


def is_due(every_ms: int | None, before_ms: int | None, through_ms: int) -> bool:
    """Tell whether event time has passed a multiple of `every_ms`; without it, that nothing is due early."""
    return every_ms is not None and (before_ms is None or through_ms // every_ms > before_ms // every_ms)


def _number(window: Window, at_ms: int) -> int:
    """Return the number of the last window that ends by a time: windows are numbered by their ends."""
    return (at_ms - window.phase_ms) // window.slide_ms


def _numbered(window: Window, number: int) -> Span:
    end_ms = number * window.slide_ms + window.phase_ms
    return Span(end_ms - window.size_ms, end_ms)
