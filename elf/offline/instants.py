"""Times as the offline half writes them for people."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(at_ms: int) -> str:
    """Write a time in UTC, with milliseconds where it has some."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{at_ms % 1_000:03d}" if at_ms % 1_000 else "") + "Z"
