"""When the machines of one node want to be asked again: one timer for all of them.

Owns deadlines by application and the timer for the earliest; what is done then is the caller's. Shell. A node with
nothing due does nothing: many trees cost one timer, and deadlines that lie close together are one wake-up, so that what
the machines then say to one peer travels in one frame.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

#: Wake-ups are at least this far apart, which bounds both how late a deadline is noticed and how often an agent wakes.
GRAIN_MS = 50
#: Deadlines kept that were replaced by others, beside as many as there are.
STALE_MAX = 16


class Alarm:
    """Deadlines of one node.

    Args:
        clock: milliseconds that never step back.
        wake: called on the loop with the applications that are due, in the order of their deadlines.
    """

    def __init__(self, clock: Callable[[], int], wake: Callable[[list[bytes]], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._due: dict[bytes, int] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._set_for_ms = 0
        self._woken_ms = 0
        self._stopped = False

    def set(self, app: bytes, due_ms: int) -> None:
        """Say when an application is due; replaces what was said before. O(log n) when it changes."""
        if self._due.get(app) == due_ms or self._stopped:
            return
        self._due[app] = due_ms
        heapq.heappush(self._heap, (due_ms, app))
        if len(self._heap) > 2 * len(self._due) + STALE_MAX:
            self._heap = [(at_ms, app) for app, at_ms in self._due.items()]
            heapq.heapify(self._heap)
        self._arm()

    def forget(self, app: bytes) -> None:
        """Forget an application."""
        self._due.pop(app, None)

    def stop(self) -> None:
        """Never wake anybody again."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        """Set the timer for the earliest deadline, unless it rings before that anyhow."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        at_ms = max(self._heap[0][0], self._woken_ms + GRAIN_MS)
        if self._timer is not None:
            if self._set_for_ms <= at_ms:
                return
            self._timer.cancel()
        self._set_for_ms = at_ms
        wait_ms = max(at_ms - self._clock(), 0)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._woken_ms = self._clock()
        due: list[bytes] = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, app = heapq.heappop(self._heap)
            if self._due.get(app) == at_ms:
                del self._due[app]
                due.append(app)
        if due:
            self._wake(due)
        self._arm()
