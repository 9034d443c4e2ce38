"""The agent's clock: the time of day, but it never steps back.

Intervals are closed by the time of day where no event tells it, and a closed interval stays closed. So when the clock
of the machine is set back, this one goes on, at half its pace, until the other has caught up: what the web server logs
meanwhile is late, and still sent, never later than at half the usual pace. Set forward, it follows at once: what was
closed too early is late, too, when that turns out to be a mistake.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


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

    def __call__(self) -> int:
        """Return the time."""
        return self._read()[0]

    def ahead_ms(self) -> int:
        """Return how far this clock is ahead of the machine's, which was set back."""
        shown_ms, wall_ms = self._read()
        return shown_ms - wall_ms

    def advance_to(self, at_ms: int) -> None:
        """Show this time at least: up to it intervals were closed by a former run."""
        with self._lock:
            self._shown_ms = max(self._shown_ms, at_ms)

    def _read(self) -> tuple[int, int]:
        with self._lock:
            wall_ms, now_ms = self._wall_ms(), self._monotonic_ms()
            half_ms = (now_ms - self._at_ms) // 2
            slow_ms = self._shown_ms + half_ms
            # What half a millisecond leaves over must not be lost, or a clock that is asked often stands still.
            self._at_ms = now_ms if wall_ms >= slow_ms else self._at_ms + 2 * half_ms
            self._shown_ms = max(wall_ms, slow_ms)
            return self._shown_ms, wall_ms
