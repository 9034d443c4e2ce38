"""The `window` parameter of a query: its three forms and their exact meaning. Pure.

A window is half-open, [start_ms, end_ms), in event time. Whether a job can answer it (whole intervals, still
retained) is the master's to say; here only the text is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from agents.http.service import BadRequestError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LENGTH = re.compile(r"(\d{1,15})\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)", re.IGNORECASE | re.ASCII)
_FORMS = "write latest, START/END (ISO-8601 or epoch milliseconds), or a length such as 300s"
_TEXT_CHARS_MAX = 100


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest window the master has published."""


@dataclass(frozen=True, slots=True)
class Last:
    """The `length_ms` before the newest closed interval's end."""

    length_ms: int


@dataclass(frozen=True, slots=True)
class Span:
    """Exactly [start_ms, end_ms)."""

    start_ms: int
    end_ms: int


def parse_window(text: str) -> Latest | Last | Span:
    """Read a window as a person writes it.

    >>> parse_window("300s")
    Last(length_ms=300000)
    >>> parse_window("1970-01-01T00:00:30Z/60000")
    Span(start_ms=30000, end_ms=60000)

    Raises:
        BadRequestError: it has none of the three forms.
    """
    word = text.strip()
    if len(word) > _TEXT_CHARS_MAX:
        raise BadRequestError(f"window is longer than {_TEXT_CHARS_MAX} characters; {_FORMS}")
    if word.lower() == "latest":
        return Latest()
    if match := _LENGTH.fullmatch(word):
        number, unit = int(match[1]), match[2].lower()
        length_ms = number * _UNITS_MS["ms" if unit == "ms" else unit[0]]
        if length_ms == 0:
            raise BadRequestError(f"window = {text!r} has no length; {_FORMS}")
        return Last(length_ms)
    start, slash, end = word.partition("/")
    if not slash:
        raise BadRequestError(f"window = {text!r} is not a window; {_FORMS}")
    span = Span(_instant_ms(start), _instant_ms(end))
    if span.start_ms >= span.end_ms:
        raise BadRequestError(f"window = {text!r} ends before it starts; {_FORMS}")
    return span


def _instant_ms(text: str) -> int:
    """Read ISO-8601 (UTC unless it names an offset) or epoch milliseconds."""
    word = text.strip()
    if word.isascii() and word.isdigit():
        return int(word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise BadRequestError(
            f"{text!r} is not a time; write ISO-8601 such as 2026-11-20T12:00:00Z, or epoch milliseconds"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
