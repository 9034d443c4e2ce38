"""Event time from text and numbers, a column at a time: ISO-8601, epoch numbers, and the log time of web servers.

Exact by construction: digits, separators, ranges and the calendar are checked for every value; what is not a time of
the years 1 to 9999 is null, never a guess. A time without offset is UTC, as everywhere in elf.
"""

from __future__ import annotations

import calendar
import functools
import operator
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.instants import EARLIEST_MS, LATEST_MS
from elf.agents.sources.times.notations import NO_TIME

#: An epoch below this is in seconds, from here on in milliseconds (1e11 s is the year 5138, 1e11 ms is March 1973).
EPOCH_MS_FROM = 100_000_000_000
#: One of fourteen digits may be a date and a time of day, and is left to those who know: as ms, it is after 2286.
_DATE_FROM, _DATE_BELOW = 10**13, 10**14
_DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

#: The three letters of each month as one number, after one that none has.
_MONTHS = np.array([-1, *(int.from_bytes(name.encode(), "big") for name in calendar.month_abbr if name)])


#: Value of two digits by their bytes read as one little-endian number; -1 where they are no digits.
_PAIRS = np.full(1 << 16, -1, dtype=np.int64)
_PAIRS[[ord(f"{tens}") | ord(f"{ones}") << 8 for tens in range(10) for ones in range(10)]] = range(100)

#: Bytes of a time without fraction and offset.
_SHORTEST = 19

Bytes2 = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def from_values(values: Sequence[object], unit: int = 1_000) -> tuple[npt.NDArray[np.int64], Flags]:
    """Turn JSON values into epoch times of `unit` parts of a second, with a mask of those that are valid.

    Texts are ISO-8601; numbers are epoch seconds or milliseconds; everything else is invalid.
    """
    try:
        times = iso(cast(Sequence[str], values), unit)
    except TypeError:  # not all are texts
        if set(map(type, values)) <= {int, float, type(None)}:
            times = epoch(cast(Sequence[float | None], values), unit)
        else:
            times = _mixed(values, unit)
    return times, times != NO_TIME


def of_events(values: Sequence[object]) -> Ints:
    """Turn JSON values into event times in ms, as `from_values`; a negative epoch is none, and so `NO_TIME`."""
    times, _ = from_values(values)
    for row in np.flatnonzero(times <= 0).tolist():
        value = values[row]
        if isinstance(value, int | float) and value < 0:
            times[row] = NO_TIME
    return times


def _mixed(values: Sequence[object], unit: int) -> Ints:
    """Texts, numbers and others in one column: texts in one pass, numbers in another."""
    texts = [value if isinstance(value, str) else "" for value in values]
    numbers = [value if type(value) in (int, float) else None for value in values]
    return np.maximum(iso(texts, unit), epoch(cast(Sequence[float | None], numbers), unit))


def epoch(values: Sequence[float | None], unit: int = 1_000) -> Ints:
    """Turn epoch numbers (seconds or milliseconds, by size) into `unit` parts of a second, rounded down."""
    try:
        number = np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond every float
        number = np.array([v if v is not None and abs(v) < 1e18 else None for v in values], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        milliseconds = np.where(np.abs(number) < EPOCH_MS_FROM, number * 1_000, number)
        # 1.7e9 seconds with three decimals is not exact in binary: round to the microsecond before cutting.
        micros = np.round(milliseconds * 1_000)
        valid = (micros >= EARLIEST_MS * 1_000) & (micros <= LATEST_MS * 1_000)
        valid &= (np.abs(number) < _DATE_FROM) | (np.abs(number) >= _DATE_BELOW)
    whole = np.where(valid, micros, 0).astype(np.int64)
    return np.where(valid, whole if unit == 1_000_000 else whole // (1_000_000 // unit), NO_TIME)


def iso(values: Sequence[str], unit: int = 1_000) -> Ints:
    """Turn ISO-8601 texts into `unit` parts of a second since the epoch; `NO_TIME` where a text is none.

    Accepted: `YYYY-MM-DD`, then `T` or a space, `hh:mm:ss`, an optional fraction of 1 to 9 digits, and `Z`, `+hh:mm`,
    `+hhmm`, `+hh` or nothing (UTC). Digits beyond the unit are cut off.
    """
    times = np.full(len(values), NO_TIME)
    if not values:
        return times
    # The usual log: one writer, one length. Then a newline after every `length` bytes proves that each text was whole:
    # texts that are times hold no newline, so there are none but those put in here.
    length = len(values[0])
    joined = "\n".join(values)
    if joined.isascii() and len(joined) + 1 == (length + 1) * len(values):
        matrix = np.frombuffer(f"{joined}\n".encode(), np.uint8).reshape(len(values), length + 1)
        _parse_length(times, slice(None), matrix, unit)
        if (matrix[:, length] == 10).all() and (times != NO_TIME).all():
            return times
        times.fill(NO_TIME)
    column = pl.Series(values, dtype=pl.String)
    lengths = column.str.len_bytes()
    for length in lengths.unique():
        rows = np.flatnonzero(lengths.to_numpy() == length)
        text = "".join(f"{value}\n" for value in column.gather(rows)).encode()
        _parse_length(times, rows, np.frombuffer(text, np.uint8).reshape(len(rows), int(length) + 1), unit)
    return times


def fixed(text: Bytes2, unit: int = 1_000) -> Ints:
    """Turn ISO-8601 texts of one length, rows of a matrix, into `unit` parts of a second; `NO_TIME` where one is none.

    Args:
        text: one row a text, with one more byte at its end, which is not looked at.
        unit: parts of a second.
    """
    if text.shape[1] < _SHORTEST + 1 or not len(text):
        return np.full(len(text), NO_TIME)
    heads = _changes(text)
    times = np.full(len(heads), NO_TIME)
    _parse_length(times, slice(None), text[heads], unit)
    return np.repeat(times, np.diff(np.append(heads, len(text))))


def _changes(text: Bytes2) -> npt.NDArray[np.int64]:
    """Return which rows of a matrix differ from the one before, and the first: neighbours in a log often share a time.

    Rows have at least eight bytes.
    """
    width = text.shape[1]
    words = [text[:, place : place + 8].view("<u8")[:, 0] for place in (*range(0, width - 8, 8), width - 8)]
    changed = np.ones(len(text), dtype=np.bool_)
    changed[1:] = functools.reduce(operator.or_, (word[1:] != word[:-1] for word in words))
    return np.flatnonzero(changed)


def web_server(values: Sequence[str], unit: int = 1_000) -> Ints:
    """Turn `10/Oct/2000:13:55:36 -0700` into `unit` parts of a second since 1970; `NO_TIME` where a text is none."""
    if not values:
        return np.empty(0, dtype=np.int64)
    # Texts of another length are none; one of this length in their place keeps the rows in step.
    whole = pl.Series(values, dtype=pl.String).str.len_bytes() == 26
    if not whole.all():
        values = [text if fits else "-" * 26 for text, fits in zip(values, whole, strict=True)]
    joined = "\n".join(values)
    rows = np.frombuffer(f"{joined}\n".encode(), np.uint8).reshape(len(values), 27)
    heads = _changes(rows)
    times = np.full(len(heads), NO_TIME)
    _parse_length(times, slice(None), _as_iso(rows[heads]), unit)
    return np.repeat(times, np.diff(np.append(heads, len(rows))))


def _as_iso(text: Bytes2) -> Bytes2:
    """Rewrite log times, each with a newline after it, in ISO notation; what is none becomes none."""
    iso_text = np.empty((len(text), 25), dtype=np.uint8)
    for place, begin, end in ((0, 7, 11), (8, 0, 2), (11, 12, 20), (19, 21, 27)):
        iso_text[:, place : place + end - begin] = text[:, begin:end]
    codes = text[:, 3:6].astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    month = np.argmax(codes[:, None] == _MONTHS, axis=1)  # 0 where it is none
    iso_text[:, 5], iso_text[:, 6] = 48 + month // 10, 48 + month % 10
    iso_text[:, [4, 7]], iso_text[:, 10] = 45, 84
    separators = (text[:, 2] == 47) & (text[:, 6] == 47) & (text[:, 11] == 58) & (text[:, 20] == 32)
    iso_text[~separators, 0] = 0
    return iso_text


def _parse_length(times: Ints, rows: slice | Ints, text: Bytes2, unit: int) -> None:
    """Parse texts of one length, each with a newline after it, into `times[rows]`, each kind of offset in a pass."""
    length = text.shape[1] - 1
    if not _SHORTEST <= length <= 35:
        return
    zone = _zone_kind(text)
    for kind, size in ((0, 0), (1, 1), (2, 6), (3, 5), (4, 3)):
        among = zone == kind
        if not among.any():
            continue
        whole = bool(among.all())
        part = text if whole else text[among]
        parsed = _parse_part(part, length - size, kind, unit)
        if whole:
            times[rows] = parsed
        else:
            times[np.arange(len(times))[rows][among]] = parsed


def _zone_kind(text: Bytes2) -> npt.NDArray[np.int8]:
    """Tell how each text ends: 0 nothing, 1 `Z`, 2 `+hh:mm`, 3 `+hhmm`, 4 `+hh`."""
    last = text[:, -2]
    if ((last == 90) | (last == 122)).all():
        return np.ones(len(text), dtype=np.int8)

    def sign(place: int) -> Flags:
        return np.isin(text[:, place], (43, 45))

    kinds = np.select([(last == 90) | (last == 122), sign(-7) & (text[:, -4] == 58), sign(-6), sign(-4)], [1, 2, 3, 4])
    return kinds.astype(np.int8)


def _parse_part(text: Bytes2, local_length: int, kind: int, unit: int) -> Ints:
    """Parse texts of one length and one kind of offset; `NO_TIME` where one does not hold a time."""
    fraction_digits = local_length - 20
    if local_length != 19 and not 1 <= fraction_digits <= 9:
        return np.full(len(text), NO_TIME)
    minute_start, valid = _minutes(text)
    second = _number(text, 17, 19, valid)
    valid &= (text[:, 16] == 58) & (second < 60)
    parts = np.zeros(len(text), dtype=np.int64)
    if fraction_digits > 0:
        valid &= text[:, 19] == 46
        unit_digits = len(str(unit)) - 1
        parts = _number(text, 20, 20 + min(fraction_digits, unit_digits), valid)
        parts *= 10 ** max(0, unit_digits - fraction_digits)
        if fraction_digits > unit_digits:
            _number(text, 20 + unit_digits, 20 + fraction_digits, valid)
    seconds = minute_start + second
    if kind >= 2:
        seconds -= _offset_seconds(text[:, local_length:-1], kind, valid)
        # An offset may lead out of the first year, or the last one.
        valid &= (seconds >= EARLIEST_MS // 1_000) & (seconds <= LATEST_MS // 1_000)
    result: Ints = np.where(valid, seconds * unit + parts, NO_TIME)
    return result


def _minutes(text: Bytes2) -> tuple[Ints, Flags]:
    """Parse `YYYY-MM-DDThh:mm` to seconds; neighbours in a log mostly share it, so only changes are parsed."""
    halves = [text[:, place : place + 8].view("<u8")[:, 0] for place in (0, 8)]  # 16 bytes as two words
    changed = np.ones(len(text), dtype=np.bool_)
    changed[1:] = (halves[0][1:] != halves[0][:-1]) | (halves[1][1:] != halves[1][:-1])
    heads = np.flatnonzero(changed)
    head = text[heads]
    valid = np.ones(len(head), dtype=np.bool_)
    year, month, day = (_number(head, begin, end, valid) for begin, end in ((0, 4), (5, 7), (8, 10)))
    hour, minute = (_number(head, begin, end, valid) for begin, end in ((11, 13), (14, 16)))
    valid &= (head[:, 4] == 45) & (head[:, 7] == 45) & (head[:, 13] == 58)
    valid &= (head[:, 10] == 84) | (head[:, 10] == 32) | (head[:, 10] == 116)
    valid &= (hour < 24) & (minute < 60)
    seconds = days(year, month, day, valid) * 86_400 + hour * 3_600 + minute * 60
    counts = np.diff(np.append(heads, len(text)))
    return np.repeat(seconds, counts), np.repeat(valid, counts)


def _offset_seconds(zone: Bytes2, kind: int, valid: Flags) -> Ints:
    """Parse `+hh:mm`, `+hhmm` or `+hh`."""
    hours = _number(zone, 1, 3, valid)
    minutes = _number(zone, *((4, 6) if kind == 2 else (3, 5)), valid) if kind != 4 else np.zeros_like(hours)
    valid &= (hours <= 18) & (minutes < 60)
    seconds: Ints = np.where(zone[:, 0] == 45, -1, 1) * (hours * 3_600 + minutes * 60)
    return seconds


def _number(text: Bytes2, begin: int, end: int, valid: Flags) -> Ints:
    """Read the digits of columns `begin` to `end`; clears `valid` where one is no digit."""
    value = np.zeros(len(text), dtype=np.int64)
    place = begin
    while place < end:
        if end - place >= 2:
            pair = _PAIRS[text[:, place : place + 2].view("<u2")[:, 0]]
            valid &= pair >= 0
            value = value * 100 + pair
            place += 2
        else:
            digit = text[:, place] - np.uint8(48)  # wraps around for bytes below "0"
            valid &= digit < 10
            value = value * 10 + digit
            place += 1
    return value


def days(year: Ints, month: Ints, day: Ints, valid: Flags) -> Ints:
    """Count days since 1970-01-01 in the Gregorian calendar; clears `valid` where there is no such day."""
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    inside = (month >= 1) & (month <= 12)
    longest = _DAYS_IN_MONTH[np.where(inside, month, 0)] + (leap & (month == 2))
    valid &= inside & (day >= 1) & (day <= longest) & (year >= 1)
    # Years begin in March here, so that the leap day is the last of its year.
    shifted = year - (month <= 2)
    era, year_of_era = np.divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    result: Ints = era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468
    return result
