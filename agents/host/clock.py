"""The agent's clock: the time of day, but it never steps back.

Intervals are closed by the time of day where no event tells it, and a closed interval stays closed. So when the clock
of the machine is set back, this one goes on, at half its pace, until the other has caught up: what the web server logs
meanwhile is late, and still sent, never later than at half the usual pace. Set forward, it follows once that has lasted
for a while: an agent that closed intervals by a clock that slipped would have spoken for them before their events came.

Nor does it run ahead of the neighbours' (`elf.agents.host.agreement`): while the machine's does, it is theirs. Found to
be ahead it steps back, but not behind what was closed by it.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable

#: Steps forward that are followed at once: a clock that is kept right makes such. Larger ones have to last so long.
STEP_MS_MAX, BELIEVED_MS = 1_000, 30_000
#: How far the machine's clock may be ahead of the neighbours': more than clocks that are kept right are, and as much as
#: a job waits for late lines by default. It is followed again once it is ahead by no more than a step.
AHEAD_MS = 2_000


class Doubt(enum.Enum):
    """What intervals may not be closed by."""

    NONE = enum.auto()
    #: By nothing: the neighbours were not heard yet, and the time may be anything.
    UNHEARD = enum.auto()
    #: By no event: the machine's clock is ahead of the neighbours', or by a step that is not believed yet, and so may
    #: be the times of all that it logs.
    AHEAD = enum.auto()


def wall_clock_ms() -> int:
    """Return the time of day in ms since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return ms by a clock that nobody sets; any origin."""
    return time.monotonic_ns() // 1_000_000


class Clock:
    """Call it for the time in ms since the epoch; any thread may.

    Args:
        wall_ms: the machine's time of day.
        monotonic_ms: a clock that nobody sets; any origin.
    """

    def __init__(
        self, wall_ms: Callable[[], int] = wall_clock_ms, monotonic_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        #: What the machine says, and what time has passed for it.
        self.wall_ms = wall_ms
        self.up_ms = monotonic_ms
        #: No interval may be closed yet: the neighbours were not heard.
        self.is_held = False
        self._lock = threading.Lock()
        self._shown_ms = wall_ms()
        self._at_ms = monotonic_ms()
        #: How far the time of day may be ahead of the other clock, small steps aside; and since when it is ahead of
        #: that, and how far.
        self._offset_ms = self._shown_ms - self._at_ms
        self._ahead: tuple[int, int] | None = None
        #: What the neighbours say, as far ahead of the other clock; whether that counts; what was closed by this clock.
        self._others_ms: int | None = None
        self._is_corrected = False
        self._closed_ms = 0

    def __call__(self) -> int:
        """Return the time."""
        return self._read()[0]

    def ahead_ms(self) -> int:
        """Return how far this clock is ahead of the machine's, which was set back, or was found to be ahead."""
        shown_ms, wall_ms = self._read()
        return max(0, shown_ms - wall_ms)

    def advance_to(self, at_ms: int) -> None:
        """Show this time at least from now on: up to it intervals are closed, perhaps by a former run."""
        with self._lock:
            self._shown_ms = max(self._shown_ms, at_ms)
            self._closed_ms = max(self._closed_ms, at_ms)

    def heed(self, others_ms: int | None) -> None:
        """Take note of what the neighbours say: how far the time is ahead of `up_ms` (None: nobody says anything)."""
        with self._lock:
            self._others_ms = others_ms
        self._read()

    def apart_ms(self) -> int | None:
        """Return how far the machine's clock is ahead of what the neighbours say; None while they say nothing."""
        others_ms = self._others_ms
        return None if others_ms is None else self.wall_ms() - self.up_ms() - others_ms

    def latest_ms(self) -> int:
        """Return the latest time that it may be: as this clock says, or the neighbours do where it is behind."""
        others_ms = self._others_ms
        return self() if others_ms is None else max(self(), self.up_ms() + others_ms)

    def doubt(self) -> Doubt:
        """Return what is known to be wrong with the time shown."""
        self._read()
        if self.is_held:
            return Doubt.UNHEARD
        return Doubt.AHEAD if self._is_corrected or self._ahead is not None else Doubt.NONE

    def _read(self) -> tuple[int, int]:
        """Return the time to be shown, and the machine's, or in its place the neighbours'."""
        with self._lock:
            # In this order: what passes in between makes it look behind, not ahead.
            wall_ms, now_ms = self.wall_ms(), self.up_ms()
            wall_ms = self._corrected(wall_ms, now_ms)
            if self._is_believed(wall_ms - now_ms, now_ms):
                self._step_to(wall_ms, now_ms)
            else:
                self._shown_ms = self._shown_ms + now_ms - self._at_ms
                self._at_ms = now_ms
            return self._shown_ms, wall_ms

    def _corrected(self, wall_ms: int, now_ms: int) -> int:
        """Return the machine's time of day, or the neighbours' if that is far behind it."""
        if self._others_ms is None:
            self._is_corrected = False
            return wall_ms
        theirs_ms, was_corrected = self._others_ms + now_ms, self._is_corrected
        self._is_corrected = wall_ms - theirs_ms > (STEP_MS_MAX if was_corrected else AHEAD_MS)
        if not self._is_corrected:
            return wall_ms
        if not was_corrected:
            # What was shown and closed nothing is taken back.
            if (least_ms := max(self._closed_ms, theirs_ms)) < self._shown_ms:
                self._shown_ms = least_ms
                self._at_ms = now_ms
            self._offset_ms = self._others_ms
            self._ahead = None
        return theirs_ms

    def _is_believed(self, offset_ms: int, now_ms: int) -> bool:
        """Tell whether the time of day is no further ahead of the other clock than before, or has been for a while."""
        if offset_ms <= self._offset_ms + STEP_MS_MAX:
            self._ahead = None
        elif self._ahead is None or abs(offset_ms - self._ahead[1]) > STEP_MS_MAX:
            self._ahead = now_ms, offset_ms  # another step begins it anew
        if self._ahead is not None and now_ms - self._ahead[0] < BELIEVED_MS:
            return False
        self._offset_ms = max(self._offset_ms, offset_ms)
        return True

    def _step_to(self, wall_ms: int, now_ms: int) -> None:
        """Show the time of day, or go on at half the pace while that is behind."""
        half_ms = (now_ms - self._at_ms) // 2
        slow_ms = self._shown_ms + half_ms
        # What half a millisecond leaves over must not be lost, or a clock that is asked often stands still.
        self._at_ms = now_ms if wall_ms >= slow_ms else self._at_ms + 2 * half_ms
        self._shown_ms = max(wall_ms, slow_ms)
