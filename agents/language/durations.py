"""Durations as people write and read them: `300s`, `5 minutes`, `500ms`, and intervals of Spark's `window`."""

from __future__ import annotations

import re

_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000),
}
#: Those that lengths are told in.
_TOLD = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
#: Spark's interval strings know only whole words.
_SPARK_UNITS = {unit for unit in _UNITS_MS if len(unit) > 4 or unit in ("hour", "day", "days", "week")}
_PART = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z]+)\s*")
#: A century: longer is surely a typing error, and int64 microseconds stay far away.
DURATION_MS_MAX = 100 * 366 * 86_400_000


def parse_duration_ms(text: str, *, spark: bool = False) -> int:
    """Read a duration in milliseconds; several parts add up, as in `1 hour 30 minutes`.

    Args:
        text: the duration.
        spark: accept only what Spark's `window` accepts too (`interval` may lead, units are whole words).

    Raises:
        ValueError: no such duration; the text is a sentence for the user.
    """
    units = _SPARK_UNITS if spark else _UNITS_MS.keys()
    rest = re.sub(r"^\s*interval\s", " ", text, flags=re.IGNORECASE) if spark else text
    total, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or part[2].lower() not in units:
            break
        total += int(part[1]) * _UNITS_MS[part[2].lower()]
        at = part.end()
    if at < len(rest) or total <= 0:
        form = "'5 minutes' or '30 seconds'" if spark else "'300s', '5 minutes' or '500ms'"
        raise ValueError(f"{text!r} is not a duration above zero; write it like {form}")
    if total > DURATION_MS_MAX:
        raise ValueError(f"{text!r} is longer than a hundred years")
    return total


def duration(length_ms: int) -> str:
    """Write a length of time in its largest whole unit."""
    for unit_ms, word in _TOLD:
        if length_ms and length_ms % unit_ms == 0:
            count = length_ms // unit_ms
            return f"{count} {word}" + ("s" if count > 1 else "")
    return f"{length_ms} ms"


def rough_duration(length_ms: int) -> str:
    """Write a length of time in its two largest units, with "about" where that is not all of it."""
    parts: list[str] = []
    left_ms = length_ms
    for unit_ms, word in _TOLD:
        count = left_ms // unit_ms
        if count and len(parts) < 2:
            parts.append(f"{count} {word}" + ("s" if count > 1 else ""))
            left_ms -= count * unit_ms
    return ("about " if parts and left_ms else "") + (" ".join(parts) or f"{length_ms} ms")
