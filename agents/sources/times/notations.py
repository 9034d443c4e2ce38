"""Notations of times: how each is written, and what one time of it is in ms. Pure.

A notation is a pattern of literals and of these, each of which knows where it ends:

    %Y %m %d %H %M %S   year of four digits; month, day, hour, minute, second of two
    %e                  day of two characters, the first of which may be a space
    %b %a               name of a month, of a weekday: three letters of English
    %j %y               day of the year; year of two digits, from 1970 on
    %I %p               hour up to 12; AM or PM
    %f                  nothing, or a point or comma and one to nine digits: a part of a second
    %3 %6 %9            so many digits, a part of a second
    %t                  T or a space
    %z                  Z, or an offset: +hh:mm, +hhmm, +hh
    %_ %u               a space, or nothing; a space and a name of a zone that an offset said before, or nothing: where
                        words may follow the time, it is UTC behind a space, an offset and a space, and else a word
    %G                  GMT or UTC
    %s %Q               seconds since 1970; those, or ms, us or ns, told apart by the number of digits, with a fraction,
                        but no digits of a date and a time of day
    %X                  seconds since 1970 as eight hexadecimal digits

The second 60 of a leap second is the next minute's first. Years are 1 to 9999 (LINES section 5).
"""

from __future__ import annotations

import datetime
import re
from typing import Final, NamedTuple

from elf.agents.language.instants import EARLIEST_MS, LATEST_MS

#: Offsets of zones are up to so many hours.
_OFFSET_HOURS_MAX = 18
#: Stands for no time in columns of integers.
NO_TIME = -(2**63)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
#: Of a notation without a year: leap years have all days there are.
YEARLESS = 2000
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_DAYS = (b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun")
#: What says a day; one without a year is of the newest year that it can be.
_DAYS_OF_YEAR = (("%m", "%d"), ("%m", "%e"), ("%b", "%d"), ("%b", "%e"), ("%Y", "%j"), ("%y", "%j"))
#: Digits of an epoch number up to which it counts s, ms, us, ns; and how many of it are one ms, 0: it is 1,000 ms.
_EPOCHS = ((11, 0), (14, 1), (17, 1_000), (19, 1_000_000))
#: Codes and their numbers of digits, and between what they lie.
_NUMBERS = {"m": (2, 1, 12), "d": (2, 1, 31), "H": (2, 0, 23), "M": (2, 0, 59), "S": (2, 0, 60), "I": (2, 1, 12)}
_NUMBERS |= {"Y": (4, 1, 9999), "y": (2, 0, 99), "j": (3, 1, 366)}
#: Fourteen digits that are a date and a time of day: as ms they would be after the year 2286.
_DATE_DIGITS = re.compile(rb".{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[01][0-9]|2[0-3])(?:[0-5][0-9]){2}")
_DIGIT = frozenset(b"0123456789")
_UPPER = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Notation(NamedTuple):
    """How a time is written.

    Attributes:
        name: in configurations.
        pattern: see above.
        example: for people.
    """

    name: str
    pattern: str
    example: str

    @property
    def needs_zone(self) -> bool:
        """Whether a time of it does not say in which zone it is."""
        return not re.search(r"%[zGsQX]", self.pattern)

    @property
    def needs_year(self) -> bool:
        """Whether a time of it does not say in which year it is."""
        return not re.search(r"%[YysQX]", self.pattern)

    @property
    def is_whole(self) -> bool:
        """Whether a time of it says a day and an hour, so that it can be the event time."""
        items = set(self.items)
        if not items.isdisjoint(("%s", "%Q", "%X")):
            return True
        return any(map(items.issuperset, _DAYS_OF_YEAR)) and ("%H" in items or {"%I", "%p"} <= items)

    @property
    def items(self) -> tuple[str, ...]:
        """The pattern's literals and codes."""
        return tuple(re.findall(r"%.|[^%]+", self.pattern))


NOTATIONS: Final = {
    notation.name: notation
    for notation in (
        Notation("clf", "%d/%b/%Y:%H:%M:%S%f %z", "26/Nov/2026:09:00:00 +0000"),
        Notation("clf-zoneless", "%d/%b/%Y:%H:%M:%S%f", "26/Nov/2026:09:00:00.395"),
        Notation("clf-space", "%d/%b/%Y %H:%M:%S", "26/Nov/2026 09:00:00"),
        Notation("iso", "%Y-%m-%d%t%H:%M:%S%f%_%z%u", "2026-11-26T09:00:00.123Z"),
        Notation("iso-zoneless", "%Y-%m-%d%t%H:%M:%S%f", "2026-11-26 09:00:00,123"),
        Notation("iso-minutes", "%Y-%m-%d%t%H:%M%z", "2026-11-26T09:00Z"),
        Notation("iso-basic", "%Y%m%dT%H%M%S%f%z", "20261126T090000Z"),
        Notation("iso-named", "%Y-%m-%d%t%H:%M:%S%f %G", "2026-11-26 09:00:00.123 UTC"),
        Notation("iso-digits", "%Y%m%d%H%M%S", "20261126090000"),
        Notation("slashes", "%Y/%m/%d %H:%M:%S%f", "2026/11/26 09:00:00"),
        Notation("slashes-offset", "%Y/%m/%d %H:%M:%S%f%_%z", "2026/11/26 09:00:00 +0000"),
        Notation("day-first", "%d-%b-%Y %H:%M:%S%f", "26-Nov-2026 09:00:00.123"),
        Notation("day-first-space", "%d %b %Y %H:%M:%S%f", "26 Nov 2026 09:00:00.123"),
        Notation("http", "%a, %d %b %Y %H:%M:%S %G", "Thu, 26 Nov 2026 09:00:00 GMT"),
        Notation("mail", "%a, %d %b %Y %H:%M:%S %z", "Thu, 26 Nov 2026 09:00:00 +0000"),
        Notation("ctime", "%a %b %e %H:%M:%S%f %Y", "Thu Nov 26 09:00:00.123 2026"),
        Notation("ctime-named", "%a %b %e %H:%M:%S%f %G %Y", "Thu Nov 26 09:00:00 UTC 2026"),
        Notation("syslog", "%b %e %H:%M:%S%f", "Nov 26 09:00:00"),
        Notation("epoch", "%Q", "1795683600.123"),
        Notation("epoch-hex", "%X", "6a1b2c3d"),
    )
}


def read_time(notation: Notation, line: bytes, at: int, stops: bytes | None = None) -> tuple[int, int] | None:
    """Read a time in a line; None if there is none of this notation.

    Args:
        notation: the time's.
        line: what it stands in.
        at: where it begins.
        stops: bytes of which one, or the line's end, comes after it; None: any.

    Returns:
        The time in ms since 1970, as if in UTC if the notation says no zone, and in the year `YEARLESS` if it says no
        year; and where it ends.
    """
    clock = _Clock(line, at)
    for item in notation.items:
        if item[0] != "%":
            if not line.startswith(item.encode(), clock.at):
                return None
            clock.at += len(item)
        elif not clock.read(item[1], stops):
            return None
    ms = clock.ms()
    return None if ms is None else (ms, clock.at)


def is_whole_time(notation: Notation, text: bytes) -> int | None:
    """Return what a text is in ms, as `read_time` has it; None if it is no time of this notation."""
    found = read_time(notation, text, 0, b"")
    return None if found is None or found[1] != len(text) else found[0]


def days_of(year: int, month: int, day: int) -> int | None:
    """Count days since 1970-01-01 in the Gregorian calendar; None if there is no such day."""
    try:
        return datetime.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


class _Clock:
    """What has been read of one time."""

    def __init__(self, line: bytes, at: int) -> None:
        self.line = line
        self.at = at
        #: By code; the defaults are those of what a pattern does not say.
        self.values = {"Y": YEARLESS, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0}
        self.part_ns = 0
        self.offset_minutes = 0
        self.whole_ms: int | None = None
        self._is_pm: bool | None = None
        self._is_apart = False  # a space stands before the offset

    def read(self, code: str, stops: bytes | None) -> bool:
        """Read what a code stands for; False if it is not there."""
        if code in _NUMBERS:
            digits, least, most = _NUMBERS[code]
            value = self._digits(digits)
            self.values[code] = 0 if value is None else value
            return value is not None and least <= value <= most
        if code in "ba":
            return self._name(code)
        if code in "369":
            value = self._digits(int(code))
            self.part_ns = 0 if value is None else value * 10 ** (9 - int(code))
            return value is not None
        if code in "t_G":
            return self._constant(code)
        read = {"e": self._padded_day, "f": self._fraction, "z": self._offset, "p": self._half}
        read |= {"s": self._seconds, "Q": self._epoch, "X": self._hexadecimal}
        return self._zone_name(stops) if code == "u" else read[code]()

    def ms(self) -> int | None:
        """Return the time in ms; None if there is no such day."""
        if self.whole_ms is None:
            values = self.values
            year = values["Y"] if "y" not in values else values["y"] + (1900 if values["y"] >= 70 else 2000)
            hour = values["H"]
            if "I" in values:
                hour = values["I"] % 12 + (12 if self._is_pm else 0)
            if "j" in values:
                days = days_of(year, 1, 1)
                is_over = values["j"] == 366 and days_of(year, 2, 29) is None
                days = None if days is None or is_over else days + values["j"] - 1
            else:
                days = days_of(year, values["m"], values["d"])
            if days is None:
                return None
            minutes = (days * 24 + hour) * 60 + values["M"] - self.offset_minutes
            self.whole_ms = (minutes * 60 + values["S"]) * 1000
        ms = self.whole_ms + self.part_ns // 1_000_000
        return ms if EARLIEST_MS <= ms <= LATEST_MS else None

    def _digits(self, count: int) -> int | None:
        text = self.line[self.at : self.at + count]
        if len(text) < count or not _DIGIT.issuperset(text):
            return None
        self.at += count
        return int(text)

    def _run(self, most: int) -> bytes:
        """Take all digits that follow, up to one more than the most there may be."""
        end = self.at
        while end < len(self.line) and end - self.at <= most and self.line[end] in _DIGIT:
            end += 1
        text = self.line[self.at : end]
        self.at = end
        return text

    def _name(self, code: str) -> bool:
        names, text = _MONTHS if code == "b" else _DAYS, self.line[self.at : self.at + 3]
        self.at += 3
        if text not in names:
            return False
        if code == "b":
            self.values["m"] = names.index(text) + 1
        return True

    def _padded_day(self) -> bool:
        if self.line[self.at : self.at + 1] == b" ":
            self.at += 1
            value = self._digits(1)
        else:
            value = self._digits(2)
        self.values["d"] = value or 0
        return value is not None and 1 <= value <= 31

    def _fraction(self) -> bool:
        if self.line[self.at : self.at + 1] not in (b".", b",") or self.line[self.at + 1 : self.at + 2] not in _DIGITS:
            return True
        self.at += 1
        text = self._run(9)
        self.part_ns = int(text[:9].ljust(9, b"0"))
        return len(text) <= 9

    def _constant(self, code: str) -> bool:
        text = self.line[self.at : self.at + (3 if code == "G" else 1)]
        is_there = text in {"t": (b"T", b" "), "_": (b" ",), "G": (b"GMT", b"UTC")}[code]
        if code == "_":
            # What follows is an offset: a space behind which there is none is no part of the time.
            is_there = is_there and self.line[self.at + 1 : self.at + 2] in (b"+", b"-", b"Z")
            self._is_apart = is_there
        self.at += len(text) if is_there else 0
        return is_there or code == "_"

    def _offset(self) -> bool:
        sign = self.line[self.at : self.at + 1]
        self.at += 1
        if sign == b"Z":
            return True
        hours = self._digits(2)
        if sign not in (b"+", b"-") or hours is None or hours > _OFFSET_HOURS_MAX:
            return False
        colon = self.line[self.at : self.at + 1] == b":"
        minutes = 0
        if colon or self.line[self.at : self.at + 1] in _DIGITS:
            self.at += colon
            found = self._digits(2)
            if found is None or found > 59:
                return False
            minutes = found
        self.offset_minutes = (hours * 60 + minutes) * (-1 if sign == b"-" else 1)
        return True

    def _zone_name(self, stops: bytes | None) -> bool:
        end = self.at + 1
        while end < len(self.line) and end - self.at <= 5 and self.line[end] in _UPPER:
            end += 1
        is_name = self.line[self.at : self.at + 1] == b" " and 3 <= end - self.at - 1 <= 4
        if stops is None or 32 in stops:
            is_name = is_name and self._is_apart and self.line[self.at : end] == b" UTC"
        if is_name and (stops is None or end == len(self.line) or self.line[end] in stops):
            self.at = end
        return True

    def _half(self) -> bool:
        text = self.line[self.at : self.at + 2].upper()
        self.at += 2
        self._is_pm = text == b"PM"
        return text in (b"AM", b"PM")

    def _seconds(self) -> bool:
        text = self._run(11)
        self.whole_ms = int(text or b"0") * 1000
        return 1 <= len(text) <= 11

    def _epoch(self) -> bool:
        text = self._run(19)
        if not 1 <= len(text) <= 19:
            return False
        if len(text) == 14 and _DATE_DIGITS.fullmatch(text):
            return False
        number, (digits, per_ms) = int(text), next(each for each in _EPOCHS if len(text) <= each[0])
        self.whole_ms = number // per_ms if per_ms else number * 1000
        if digits > 14:
            return True
        known = self.part_ns
        fits = self._fraction()
        if per_ms:
            self.part_ns = known
        return fits

    def _hexadecimal(self) -> bool:
        text = self.line[self.at : self.at + 8]
        self.at += 8
        if len(text) < 8 or not re.fullmatch(rb"[0-9a-fA-F]{8}", text):
            return False
        self.whole_ms = int(text, 16) * 1000
        return True


_DIGITS = tuple(bytes([digit]) for digit in _DIGIT)
