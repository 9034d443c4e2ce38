"""How far a source has come in event time: what its lines have shown, and what they cannot show any more. Pure.

While lines wait to be read, time follows the newest event of the log that is furthest behind; at the end of every file
it follows the wall clock, so that an idle source closes its intervals too. DESIGN 3.4 (watermark).
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec
import polars as pl

from elf.agents.intake.decoder import Recognised
from elf.agents.jobs.versions import Versions
from elf.agents.sources.counters import Counters

#: Logs with waiting lines are read in turn; one that was not read for this long has none.
TURN_MS_MAX = 5_000
#: What counts as reading between two reads; what is longer is a pause: of the machine, or as a tree was congested.
PAUSE_MS_MAX = 1_000
#: Event times further ahead than a day are nonsense, not a clock that runs fast.
AHEAD_MS_MAX = 86_400_000


class SourceProgress(msgspec.Struct, frozen=True):
    """What a source's checkpoint holds besides positions."""

    counters: Counters
    newest_ms: int | None
    seen_ms: int | None
    #: No line that was read by then was written later; None before there was such a time.
    read_ms: int | None = None
    #: The newest event time of each log.
    logs: Mapping[str, int] = {}
    #: What its lines were found to be, where the settings leave that open; a checkpoint of an earlier release has none.
    recognised: Recognised | None = None
    #: Logs that lack lines before their first event, as `Tail.begun_late` has them.
    begun_late: tuple[str, ...] = ()


class EventTime:
    """What was seen of event time in a source's lines; times in ms, `now_ms` the wall clock's."""

    def __init__(self, now_ms: int) -> None:
        #: Newest event time that is not ahead of our clock, and newest at all (nonsense aside).
        self.newest_ms: int | None = None
        self.seen_ms: int | None = None
        #: No line that was read by then was written later.
        self.read_ms: int | None = None
        #: Since when all files are at their end; None while lines wait.
        self.idle_since_ms: int | None = None
        #: When all files were at their end last.
        self.rested_ms = 0
        #: Logs read since the last time all were at their end: newest event, and when it was read.
        self._behind: dict[str, tuple[int, int]] = {}
        #: How long reading has gone on, and as of when; a log's turn comes while others are read, not while all rest.
        self._turns_ms = 0
        self._turned_ms = now_ms
        self._behind_since_ms = 0

    def rest(self, at_end: bool, now_ms: int) -> None:
        """Nothing was read; `at_end`: because there is nothing more."""
        self.idle_since_ms = now_ms if at_end else None
        self.rested_ms = now_ms if at_end else self.rested_ms
        self._behind.clear()

    def note(self, stream: str, ts_ms: pl.Series, now_ms: int) -> int | None:
        """Note events of a log; a time ahead of our clock moves nothing, or all that comes after it would be late.

        Returns:
            The newest time among them that is not ahead of our clock.
        """
        seen_ms = ts_ms.filter(ts_ms <= now_ms + AHEAD_MS_MAX).max()
        if isinstance(seen_ms, int):
            self.seen_ms = seen_ms if self.seen_ms is None else max(self.seen_ms, seen_ms)
        newest_ms = ts_ms.filter(ts_ms <= now_ms).max()
        if not isinstance(newest_ms, int):
            return None
        self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)
        if not self._behind:
            self._behind_since_ms = self._turns_ms
        before_ms = self._behind.get(stream, (newest_ms, 0))[0]
        self._behind[stream] = (max(before_ms, newest_ms), self._turns_ms)
        return newest_ms

    def reading(self, now_ms: int) -> None:
        """Note that some lines were read, of whichever log: the others' turns come closer, but not by a pause."""
        self._turns_ms += min(max(now_ms - self._turned_ms, 0), PAUSE_MS_MAX)
        self._turned_ms = now_ms

    def watermark_ms(self, waiting: Set[str]) -> int | None:
        """Return the event time before which no more events are expected; None before there is any sign of it.

        Args:
            waiting: the logs with lines that were not read yet.
        """
        if self.idle_since_ms is not None:
            return self.idle_since_ms
        turns_ms = self._turns_ms
        behind = [newest_ms for newest_ms, read_ms in self._behind.values() if turns_ms - read_ms <= TURN_MS_MAX]
        unread = waiting - self._behind.keys()
        if not behind or (unread and turns_ms - self._behind_since_ms <= TURN_MS_MAX):
            return None
        return min(behind)

    def partial_before(self, versions: Versions, *, passed_over: bool, now_ms: int) -> int:
        """Return the first interval of a job of which whoever is fed from now on gets all events.

        `passed_over`: lines were passed over without a look at their time, or came and went while no job wanted them;
        none was newer than now.
        """
        seen_ms = self.seen_ms
        if seen_ms is None or passed_over:
            seen_ms = max(seen_ms or 0, now_ms)
        return versions.number(seen_ms) + 1

    def unread(self, versions: Versions, *, passed_over: bool, now_ms: int) -> int:
        """Return a job's first interval of which no event was read; lines passed over are no newer than that."""
        return self.partial_before(
            versions, passed_over=passed_over, now_ms=now_ms if self.read_ms is None else self.read_ms
        )
