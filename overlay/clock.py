"""The clock of the shells; decisions get `now_ms` as an argument.

Monotonic, so that leases survive a step of the wall clock, and near the epoch's milliseconds, so that values that must
rise over a restart (edge epochs) do.
"""

from __future__ import annotations

import time

_OFFSET_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def now_ms() -> int:
    """Return milliseconds that never step back within one process."""
    return time.monotonic_ns() // 1_000_000 + _OFFSET_MS
