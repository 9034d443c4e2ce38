"""Windows that follow each other at one distance, and which of them each event falls into, as Spark columns.

An event of a sliding window is repeated once for each window that it is in, so that one pass over the archive serves
all windows; Spark reduces before it shuffles, which makes the repeats cheap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: [start_ms, end_ms) of event time.
Window = tuple[int, int]
#: The column with the start of an event's window, BIGINT in ms.
START = "__start"
#: Windows that one pass over the archive computes: what has to be in memory, and planned, at a time.
PASS_WINDOWS_MAX = 1_000


@dataclasses.dataclass(frozen=True)
class Grid:
    """Windows of `size_ms` that begin at `first_ms` and every `slide_ms` from there, the last one at `last_ms`.

    The slide is no longer than the size, so there is no event between two windows.
    """

    first_ms: int
    last_ms: int
    size_ms: int
    slide_ms: int

    def __post_init__(self) -> None:
        assert self.first_ms <= self.last_ms and (self.last_ms - self.first_ms) % self.slide_ms == 0
        assert 0 < self.slide_ms <= self.size_ms

    @property
    def starts(self) -> range:
        """The windows' starts."""
        return range(self.first_ms, self.last_ms + 1, self.slide_ms)

    @property
    def end_ms(self) -> int:
        """The end of the last window."""
        return self.last_ms + self.size_ms

    def place(self, events: DataFrame, starts: bool) -> DataFrame:
        """Keep the events of the grid; with `starts`, each once for each window around it, with its start."""
        from pyspark.sql import functions as F

        since, until = (F.timestamp_millis(F.lit(bound_ms)) for bound_ms in (self.first_ms, self.end_ms))
        events = events.filter((F.col("ts") >= since) & (F.col("ts") < until))
        if not starts:
            return events
        at_ms, first, slide = F.unix_millis("ts"), F.lit(self.first_ms), F.lit(self.slide_ms)
        newest = at_ms - F.pmod(at_ms - first, slide)
        if self.size_ms == self.slide_ms:
            return events.withColumn(START, newest)
        # Windows begin at first + k * slide; the oldest one around the event ends after it.
        oldest = newest - (F.floor((F.lit(self.size_ms - 1) - (at_ms - newest)) / slide)) * slide
        bounded = F.greatest(oldest, first), F.least(newest, F.lit(self.last_ms))
        return events.withColumn(START, F.explode(F.sequence(*bounded, slide)))


def grids(windows: Iterable[Window], slide_ms: int, windows_max: int) -> list[Grid]:
    """Put windows together to grids, each of windows of one length that follow each other at one slide.

    Args:
        windows: in ascending order of their starts.
        slide_ms: the distance of windows that may share a grid, if they are at least as long.
        windows_max: most windows of a grid.
    """
    found: list[Grid] = []
    for start_ms, end_ms in windows:
        size_ms, last = end_ms - start_ms, found[-1] if found else None
        follows = last is not None and last.size_ms == size_ms and start_ms == last.last_ms + slide_ms
        if last is not None and follows and slide_ms <= size_ms and len(last.starts) < windows_max:
            found[-1] = Grid(last.first_ms, start_ms, size_ms, slide_ms)
        else:
            found.append(Grid(start_ms, start_ms, size_ms, min(slide_ms, size_ms)))
    return found
