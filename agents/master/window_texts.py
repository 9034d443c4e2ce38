"""The `window` parameter of a query: its three forms and their exact meaning. Pure.

A window is half-open, [start_ms, end_ms), in event time. Whether a job can answer it (whole intervals, still
retained) is the master's to say; here only the text is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from elf.agents.errors import BadRequestError
from elf.agents.language.durations import parse_duration_ms
from elf.agents.language.instants import read_time
from elf.agents.master.results import Span

_FORMS = "write latest, START/END (ISO-8601 or epoch milliseconds), or a length such as 300s"
_TEXT_CHARS_MAX = 100
#: The end of the year 9999, the last that dates can be written of.
_LATEST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest window the master has published."""


@dataclass(frozen=True, slots=True)
class Last:
    """The `length_ms` before the newest closed interval's end."""

    length_ms: int


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
    start, slash, end = word.partition("/")
    if not slash:
        try:
            return Last(parse_duration_ms(word))
        except ValueError:
            raise BadRequestError(f"window = {text!r} is not a window; {_FORMS}") from None
    span = Span(instant_ms(start), instant_ms(end))
    if span.start_ms >= span.end_ms:
        raise BadRequestError(f"window = {text!r} ends before it starts; {_FORMS}")
    return span


def instant_ms(text: str) -> int:
    """Read ISO-8601 (UTC unless it names an offset) or epoch milliseconds.

    Raises:
        BadRequestError: it is neither.
    """
    word = text.strip()
    if word.isascii() and word.isdigit() and int(word) <= _LATEST_MS:
        return int(word)
    try:
        return read_time(word) // 1_000
    except ValueError:
        raise BadRequestError(
            f"{text!r} is not a time; write ISO-8601 such as 2026-11-20T12:00:00Z, or epoch milliseconds"
        ) from None
