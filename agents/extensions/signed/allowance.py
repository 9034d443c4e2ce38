"""How long the functions of a job may take. Pure.

A call may take a second, and a little for each event; what is used up comes back slowly. So a function that loops is
found out within a second or two, and one that is only dear cannot keep a source's other jobs waiting all the time. What
counts is a processor's time, and time in which the process waited for nothing that this machine could give it: a
function is not to blame for what else a busy machine does.
"""

from __future__ import annotations

#: What a job's functions may take at once, for each event, and what comes back with time, seconds a second.
BURST_S, EVENT_S, RETURNED = 1.0, 20e-6, 0.1
#: Functions that answer nothing at all are given up after so many failures, others after so many in a row.
FAILURES_FIRST_MAX, FAILURES_MAX = 32, 1_000


class Allowance:
    """What the functions of one job have left.

    Args:
        now_s: a monotonic clock's time.
    """

    def __init__(self, now_s: float) -> None:
        self._left_s = BURST_S
        self._at_s = now_s
        self._answered = False
        self._failures = 0

    def grant(self, rows: int, now_s: float) -> float:
        """Return how many seconds of a processor a call for some rows may take."""
        self._left_s = min(BURST_S, self._left_s + RETURNED * max(0.0, now_s - self._at_s))
        self._at_s = now_s
        return self._left_s + EVENT_S * rows

    def spend(self, rows: int, used_s: float, idle_s: float) -> bool:
        """Note what a call has taken of a processor, and how long it idled; False if that is more than it may."""
        self._left_s -= max(0.0, used_s + idle_s - EVENT_S * rows)
        return self._left_s > 0

    def fail(self, rows: int, failed: int) -> bool:
        """Note on how many rows of a call the function failed; False if it is hopeless."""
        if failed < rows:
            self._answered = True
            self._failures = 0
        else:
            self._failures += failed
        return self._failures < (FAILURES_MAX if self._answered else FAILURES_FIRST_MAX)
