"""Event times of fields that name themselves (JSON and its like): any notation, which the shape of each text tells.

A text is looked at once: neighbours in a log share it.
"""

from __future__ import annotations

import functools
import re
import zoneinfo
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from elf.agents.sources.native import Spans
from elf.agents.sources.times.notations import NO_TIME, NOTATIONS, is_whole_time
from elf.agents.sources.times.zones import to_utc, with_years

#: The hexadecimal epoch has the shape of too many other things.
_TRIED = tuple(notation for name, notation in NOTATIONS.items() if name != "epoch-hex")
#: Texts of a time are no longer than this.
_LENGTH_MAX = 64
#: Behind a date, which has hyphens itself.
_SAYS_ZONE = re.compile(r"(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)$")
_DATE_LENGTH = 10
#: How far before the end of a text the sign of an offset is: of hours, and of hours and minutes without and with colon.
_SIGNS_BACK = 3, 5, 6
_AROUND = (("[", "]"), ('"', '"'), ("'", "'"))


def event_times(values: Sequence[object], zone: zoneinfo.ZoneInfo | None, now_ms: int) -> npt.NDArray[np.int64]:
    """Return event times in ms; `NO_TIME` where a value is none.

    Args:
        values: texts, and whole numbers; everything else is no time.
        zone: of times that do not say theirs; None: those are none.
        now_ms: the clock, for times that do not say the year.
    """
    times = np.full(len(values), NO_TIME)
    found: dict[tuple[bool, bool], tuple[list[int], list[int]]] = {}
    for row, text in enumerate(values):
        # A number that is neither s nor ms is us or ns, as its digits tell.
        text = str(text) if type(text) is int else text
        if isinstance(text, str) and (read := _read(text)) is not None:
            ms, needs = read
            rows, read_ms = found.setdefault(needs, ([], []))
            rows.append(row)
            read_ms.append(ms)
    for (needs_zone, needs_year), (rows, read_ms) in found.items():
        times[rows] = _completed(np.array(read_ms, np.int64), needs_zone, needs_year, zone, now_ms)
    return times


def in_zone(utc_ms: npt.NDArray[np.int64], values: Sequence[object], zone: zoneinfo.ZoneInfo) -> npt.NDArray[np.int64]:
    """Return times in ISO-8601 that were read as of UTC; those that do not say their zone are of another one."""
    rows = [
        row
        for row in np.flatnonzero(utc_ms != NO_TIME).tolist()
        if isinstance(text := values[row], str) and _SAYS_ZONE.search(text, _DATE_LENGTH) is None
    ]
    times = utc_ms.copy()
    times[rows] = to_utc(utc_ms[rows], zone).ms
    return times


def in_zone_of_texts(
    utc_ms: npt.NDArray[np.int64], block: bytes, spans: Spans, zone: zoneinfo.ZoneInfo
) -> npt.NDArray[np.int64]:
    """Do what `in_zone` does of values of JSON in a block; `NO_TIME` for those with escapes. O(bytes)."""
    data = np.frombuffer(block, np.uint8)
    begin, end = spans[:, 0], spans[:, 1]
    is_text = (utc_ms != NO_TIME) & (data[np.maximum(begin, 0)] == ord('"'))
    times = utc_ms
    if b"\\" in block:
        escapes = np.concatenate([[0], np.cumsum(data == ord("\\"))])
        times = np.where(is_text & (escapes[np.maximum(end, 0)] > escapes[np.maximum(begin, 0)]), NO_TIME, utc_ms)

    def before_end(count: int) -> npt.NDArray[np.uint8]:
        # Of values between quotes; 0 where only a date can be.
        place = end - 1 - count
        return np.where(place > begin + _DATE_LENGTH, data[np.maximum(place, 0)], 0)

    says_zone = np.isin(before_end(1), bytearray(b"Zz"))
    for count in _SIGNS_BACK:
        says_zone |= np.isin(before_end(count), bytearray(b"+-"))
    local = np.flatnonzero(is_text & (times != NO_TIME) & ~says_zone)
    found = times.copy()
    found[local] = to_utc(times[local], zone).ms
    return found


def _completed(
    ms: npt.NDArray[np.int64], needs_zone: bool, needs_year: bool, zone: zoneinfo.ZoneInfo | None, now_ms: int
) -> npt.NDArray[np.int64]:
    if needs_zone and zone is None:
        return np.full(len(ms), NO_TIME)
    if needs_year:
        ms = with_years(ms, now_ms)
    if needs_zone and zone is not None:
        exists = ms != NO_TIME
        ms[exists] = to_utc(ms[exists], zone).ms
    return ms


@functools.lru_cache(maxsize=4_096)
def _read(text: str) -> tuple[int, tuple[bool, bool]] | None:
    """Read a text; returns its ms, and whether they lack a zone and a year."""
    if len(text) > _LENGTH_MAX:
        return None
    for begin, end in _AROUND:
        if len(text) > 1 and text.startswith(begin) and text.endswith(end):
            text = text[1:-1]
    data = text.encode(errors="replace")
    for each in _TRIED:
        ms = is_whole_time(each, data)
        if ms is not None:
            return ms, (each.needs_zone, each.needs_year)
    return None
