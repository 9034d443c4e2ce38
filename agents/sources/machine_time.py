"""What this machine says of time, for lines that do not say all of theirs."""

from __future__ import annotations

import datetime
import time
import zoneinfo

from elf.agents.sources.times.zones import UTC


def wall_clock_ms() -> int:
    """Return the time of day in ms."""
    return time.time_ns() // 1_000_000


def machine_zone() -> zoneinfo.ZoneInfo | None:
    """Return UTC if that is this machine's zone; None if it is another."""
    return None if datetime.datetime.now().astimezone().utcoffset() else UTC
