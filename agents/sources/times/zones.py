"""Local times to UTC: zones with their summer times, and times that do not say the year. Pure; over whole columns."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elf.agents.errors import ConfigError, did_you_mean, nearest
from elf.agents.language.instants import EARLIEST_MS, LATEST_MS
from elf.agents.sources.times.notations import NO_TIME, YEARLESS, days_of

Times = npt.NDArray[np.int64]
#: Zones change their offsets at such times of day, with few exceptions.
_STEP_MS = 15 * 60_000
DAY_MS = 86_400_000
_EPOCH = datetime.datetime(1970, 1, 1)
UTC = zoneinfo.ZoneInfo("UTC")


class Local(NamedTuple):
    """Times of a zone in UTC.

    Attributes:
        ms: since 1970; `NO_TIME` where clocks were put forward, so that there was no such time, and out of its range.
        ambiguous: how many were in an hour that came twice; they are taken for the earlier one.
    """

    ms: Times
    ambiguous: int


def named_zone(name: str) -> zoneinfo.ZoneInfo:
    """Return a zone by its name, such as `Europe/Berlin`; raises ConfigError."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(nearest(name, zoneinfo.available_timezones()))
        raise ConfigError(f"there is no time zone {name!r}{hint}; write one such as Europe/Berlin, or UTC") from None


def to_utc(local_ms: Times, zone: zoneinfo.ZoneInfo) -> Local:
    """Turn local times, in ms as if they were UTC, into UTC. O(times); looks at the zone twice a quarter of an hour."""
    steps, places = np.unique(local_ms // _STEP_MS, return_inverse=True)
    offsets = np.empty(len(steps), np.int64)
    kinds = np.zeros(len(steps), np.int8)
    changes = np.zeros(len(steps), np.bool_)
    for index, step in enumerate(steps.tolist()):
        offsets[index], kinds[index] = first = _offset_ms(step * _STEP_MS, zone)
        changes[index] = first != _offset_ms((step + 1) * _STEP_MS - 1, zone)
    offset, kind = offsets[places], kinds[places]
    # Clocks were set at one minute past midnight, too (St. John's until 2011): there each time is looked up.
    for row in np.flatnonzero(changes[places]).tolist():
        offset[row], kind[row] = _offset_ms(int(local_ms[row]), zone)
    ms = local_ms - offset
    exists = (kind >= 0) & (ms >= EARLIEST_MS) & (ms <= LATEST_MS)
    return Local(np.where(exists, ms, NO_TIME), int((kind > 0).sum()))


def with_years(yearless_ms: Times, now_ms: int) -> Times:
    """Put times of the year `YEARLESS` into the newest year in which they are at most a day ahead of now."""
    year = (_EPOCH + datetime.timedelta(milliseconds=now_ms + DAY_MS)).year
    base_ms = _year_ms(YEARLESS)
    within_ms = yearless_ms - base_ms
    result = np.empty_like(yearless_ms)
    pending = np.ones(len(yearless_ms), np.bool_)
    # Of the 29th of February the newest leap year may be eight years ago.
    for candidate in range(year, year - 9, -1):
        moved, exists = _in_year(within_ms, candidate)
        fits = pending & exists & (moved <= now_ms + DAY_MS)
        result[fits] = moved[fits]
        pending &= ~fits
    result[pending] = NO_TIME
    return result


def _in_year(within_ms: Times, year: int) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Move times within a leap year into another; also tells which exist there."""
    leap_day_ms = 59 * DAY_MS
    if days_of(year, 2, 29) is not None:
        return within_ms + _year_ms(year), np.ones(len(within_ms), np.bool_)
    is_leap_day = (within_ms >= leap_day_ms) & (within_ms < leap_day_ms + DAY_MS)
    return within_ms + _year_ms(year) - np.where(within_ms >= leap_day_ms, DAY_MS, 0), ~is_leap_day


def _year_ms(year: int) -> int:
    days = days_of(year, 1, 1)
    assert days is not None
    return days * DAY_MS


def _offset_ms(local_ms: int, zone: zoneinfo.ZoneInfo) -> tuple[int, int]:
    """Return a zone's offset at a local time, and whether that comes twice (1), once (0) or never (-1)."""
    local = _EPOCH + datetime.timedelta(milliseconds=local_ms)
    first, second = (_utc_offset(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    # In a gap the offset of before is the smaller one; in what comes twice it is the larger one.
    return first, int(first > second) - int(first < second)


def _utc_offset(local: datetime.datetime) -> int:
    offset = local.utcoffset()
    assert offset is not None
    return offset // datetime.timedelta(milliseconds=1)
