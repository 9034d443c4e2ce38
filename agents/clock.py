"""The agent's clock: the time of day, but it never steps back.

Intervals are closed by the time of day where no event tells it, and a closed interval stays closed. So when the clock
of the machine is set back, this one goes on, at half its pace, until the other has caught up: what the web server logs
meanwhile is late, and still sent, never later than at half the usual pace. Set forward, it follows once that has lasted
for a while: an agent that closed intervals by a clock that slipped would have spoken for them before their events came.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Steps forward that are followed at once: a clock that is kept right makes such. Larger ones have to last so long.
STEP_MS_MAX, BELIEVED_MS = 1_000, 30_000


def wall_clock_ms() -> int:
    """Return the time of day in ms since the epoch."""
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Clock:
    """Call it for the time in ms since the epoch; any thread may.

    Args:
        wall_ms: the machine's time of day.
        monotonic_ms: a clock that nobody sets; any origin.
    """

    def __init__(
        self, wall_ms: Callable[[], int] = wall_clock_ms, monotonic_ms: Callable[[], int] = _monotonic_ms
    ) -> None:
        self._wall_ms, self._monotonic_ms = wall_ms, monotonic_ms
        self._lock = threading.Lock()
        self._shown_ms, self._at_ms = wall_ms(), monotonic_ms()
        #: How far the time of day may be ahead of the other clock, small steps aside; and since when it is ahead of
        #: that, and how far.
        self._offset_ms = self._shown_ms - self._at_ms
        self._ahead: tuple[int, int] | None = None

    def __call__(self) -> int:
        """Return the time."""
        return self._read()[0]

    def ahead_ms(self) -> int:
        """Return how far this clock is ahead of the machine's, which was set back."""
        shown_ms, wall_ms = self._read()
        return max(0, shown_ms - wall_ms)

    def advance_to(self, at_ms: int) -> None:
        """Show this time at least: up to it intervals were closed by a former run."""
        with self._lock:
            self._shown_ms = max(self._shown_ms, at_ms)

    def _read(self) -> tuple[int, int]:
        with self._lock:
            wall_ms, now_ms = self._wall_ms(), self._monotonic_ms()
            if self._is_believed(wall_ms - now_ms, now_ms):
                self._step_to(wall_ms, now_ms)
            else:
                self._shown_ms, self._at_ms = self._shown_ms + now_ms - self._at_ms, now_ms
            return self._shown_ms, wall_ms

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
