"""A frame of parsed events, and what all workers ask of its times, answered once. Pure."""

from __future__ import annotations

import polars as pl

from elf.agents.jobs.plan import Plan
from elf.agents.worker.sharing.parse import Parsing


def framed(events: pl.DataFrame, known: EventFrame | None = None) -> EventFrame | None:
    """Return events as a frame, the one that is known if they are its; None if there are none."""
    if known is not None and events is known.events:
        return known
    return EventFrame(events) if events.height else None


class EventFrame:
    """Events that came together; at least one.

    Attributes:
        events: the frame, with `ts` and the columns that jobs read.
        parsing: how they were parsed; None where all plans have the same types.
        times: event times, ms.
        first_ms: the earliest.
        last_ms: the latest.
    """

    def __init__(self, events: pl.DataFrame, parsing: Parsing | None = None) -> None:
        self.events = events
        self.parsing = parsing
        # Casts between equal representations are free; calls of the `dt` namespace cost a query each.
        self.times = events["ts"].cast(pl.Datetime("ms")).cast(pl.Int64)
        first, last = self.times.min(), self.times.max()
        assert isinstance(first, int) and isinstance(last, int), "a frame of events has some"
        self.first_ms = first
        self.last_ms = last
        self._before: tuple[int, pl.Series] | None = None

    def is_for(self, plan: Plan) -> bool:
        """Whether they have the types that a plan reads."""
        return self.parsing is None or self.parsing.is_for(plan)

    def before(self, at_ms: int) -> pl.Series:
        """Return the times before one, in the order of the events; workers that seal together ask the same."""
        if self._before is None or self._before[0] != at_ms:
            found = self.times.filter(self.times < at_ms) if self.first_ms < at_ms else self.times.clear()
            self._before = at_ms, found
        return self._before[1]
