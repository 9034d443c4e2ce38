"""Which windows have to be computed, and which of them together. Pure.

Windows that wait are spans of their starts, half-open and in multiples of the slide; that of a job without windows is
`TOTAL`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from elf.agents.archive.removed import Span, join_spans
from elf.agents.language.query import Window
from elf.offline.grid import Grid

#: A job without windows has one result, which waits or does not.
TOTAL: Span = (0, 1)
#: 1970 to 9999: times that all readers of a table can write down.
YEARS_MS: Span = (0, 253_402_300_800_000)
#: Spans of starts that are kept apart; beyond, the nearest become one, and windows between them are computed in vain.
SPANS_MAX = 20_000


@dataclasses.dataclass(frozen=True)
class Pass:
    """Windows that Spark computes at once: a grid, or the total (None); its event time, and the starts it settles."""

    grid: Grid | None
    since_ms: int | None
    until_ms: int | None
    starts: Span

    @property
    def count(self) -> int:
        """How many windows; 1 for a total."""
        return 1 if self.grid is None else len(self.grid.starts)


@dataclasses.dataclass(frozen=True)
class Schedule:
    """When windows of a job are due.

    Attributes:
        window: the job's; None for a total.
        since_ms: windows that begin before wait for a run that wants them; of a total, event time it counts from.
    """

    window: Window | None
    since_ms: int | None = None

    def touched(self, spans: Iterable[Span]) -> list[Span]:
        """Return the starts of all windows with a moment of these event times."""
        if self.window is None:
            since_ms = self.since_ms
            return [TOTAL] if any(since_ms is None or end > since_ms for _, end in spans) else []
        size, slide = self.window
        starts = []
        for start_ms, end_ms in spans:
            first = max((start_ms - size) // slide + 1, -(-YEARS_MS[0] // slide))
            last = min((end_ms - 1) // slide, (YEARS_MS[1] - size) // slide)
            if first <= last:
                starts.append((first * slide, (last + 1) * slide))
        return join_spans(starts, SPANS_MAX)

    def next(self, waiting: Sequence[Span], ended_ms: int, windows_max: int) -> Pass | None:
        """Choose the oldest windows that wait and end by `ended_ms`: a run of them without a gap."""
        if self.window is None:
            return Pass(None, self.since_ms, None, TOTAL) if waiting else None
        slide = self.window.slide_ms
        for first, end in self._due(waiting, ended_ms):
            last = min(end - slide, first + (windows_max - 1) * slide)
            grid = Grid(first, last, self.window.size_ms, slide)
            return Pass(grid, first, grid.end_ms, (first, last + slide))
        return None

    def count(self, waiting: Sequence[Span], ended_ms: int) -> int:
        """Return how many windows are due."""
        if self.window is None:
            return len(waiting)
        slide = self.window.slide_ms
        return sum((end - first) // slide for first, end in self._due(waiting, ended_ms))

    def _due(self, waiting: Sequence[Span], ended_ms: int) -> Iterable[Span]:
        assert self.window is not None
        size, slide = self.window
        since = 0 if self.since_ms is None else -(-self.since_ms // slide) * slide
        until = (ended_ms - size) // slide * slide + slide
        for first, end in waiting:
            first, end = max(first, since), min(end, until)
            if first < end:
                yield first, end


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Return what of ascending spans lies in none of the others."""
    left = list(spans)
    for start, end in others:
        left = [
            part
            for first, last in left
            for part in ((first, min(last, start)), (max(first, end), last))
            if part[0] < part[1]
        ]
    return left
