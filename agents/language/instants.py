"""Event times as messages write them for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(at_ms: int) -> str:
    """Write a time in UTC, with milliseconds where it has some; one that calendars do not have as its number.

    >>> instant(1_767_225_650_000)
    '2026-01-01T00:00:50Z'
    """
    try:
        moment = datetime.fromtimestamp(at_ms // 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{at_ms % 1_000:03d}" if at_ms % 1_000 else "") + "Z"
