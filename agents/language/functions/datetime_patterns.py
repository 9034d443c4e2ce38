"""Java's date patterns (`yyyy-MM-dd HH:mm:ss`), for writing and for reading."""

from __future__ import annotations

import re

import polars as pl
from sqlglot import exp

from elf.agents.language.casts import SECOND_US, date_of, ordinary_time, timestamp_of
from elf.agents.language.dialect import refused

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WRITE = {
    "yyyy": "%Y", "yy": "%y", "y": "%-Y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m", "dd": "%d", "d": "%-d",
    "DDD": "%j", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S",
    "SSS": "%3f", "SSSSSS": "%6f", "a": "%p", "EEEE": "%A", "EEE": "%a", "EE": "%a", "E": "%a",
    "XXX": "Z", "X": "Z", "Z": "+0000", "xxx": "+00:00",
}  # fmt: skip
_READ = {
    "yyyy": r"(?P<year>[0-9]{4})",
    "MM": r"(?P<month>[0-9]{2})",
    "M": r"(?P<month>[0-9]{1,2})",
    "MMM": rf"(?P<name>(?i-u:{'|'.join(_MONTHS)}))",
    "dd": r"(?P<day>[0-9]{2})",
    "d": r"(?P<day>[0-9]{1,2})",
    "HH": r"(?P<hour>[0-9]{2})",
    "H": r"(?P<hour>[0-9]{1,2})",
    "mm": r"(?P<minute>[0-9]{2})",
    "ss": r"(?P<second>[0-9]{2})",
    "SSS": r"(?P<fraction>[0-9]{3})",
    "SSSSSS": r"(?P<fraction>[0-9]{6})",
    "Z": r"(?P<zone>[+-][0-9]{4})",
    "XXX": r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})",
}


def write(timestamp: pl.Expr, pattern: str, node: exp.Expr) -> pl.Expr:
    """Format a timestamp.

    Raises:
        JobSpecError: the pattern has a letter outside the job language.
    """
    parts = [
        text.replace("%", "%%") if plain else _letters(text, _WRITE, node) for text, plain in _split(pattern, node)
    ]
    return ordinary_time(timestamp).dt.strftime("".join(parts))


def read(text: pl.Expr, pattern: str, node: exp.Expr) -> pl.Expr:
    """Read a timestamp; NULL where the text does not fit the pattern from end to end.

    Raises:
        JobSpecError: the pattern has a letter outside the job language.
    """
    parts = [re.escape(piece) if plain else _letters(piece, _READ, node) for piece, plain in _split(pattern, node)]
    names = re.findall(r"\?P<(\w+)>", "".join(parts))
    if len(set(names)) != len(names) or {"month", "name"} <= set(names):
        raise refused(node, f"the pattern {pattern!r} reads something twice")
    if "year" not in names:
        raise refused(node, f"the pattern {pattern!r} reads no year (yyyy)")
    fields = text.str.extract_groups(rf"\A{''.join(parts)}\z").struct

    def part(name: str, default: str) -> pl.Expr:
        return fields.field(name) if name in names else pl.lit(default)

    month = part("month", "01")
    if "name" in names:
        numbers = {name: f"{index:02d}" for index, name in enumerate(_MONTHS, start=1)}
        month = fields.field("name").str.to_lowercase().replace_strict(numbers, default=None, return_dtype=pl.String)
    hour, minute, second = (part(name, "0").cast(pl.Int64) for name in ("hour", "minute", "second"))
    micros = (part("fraction", "0") + "000000").str.head(6).cast(pl.Int64)
    clock = ((hour * 60 + minute) * 60 + second) * SECOND_US + micros
    if "zone" in names:
        clock = clock - _zone_us(fields.field("zone"))
    day = date_of(fields.field("year"), month, part("day", "01")).cast(pl.Datetime("us")).cast(pl.Int64)
    return pl.when((hour < 24) & (minute < 60) & (second < 60)).then(timestamp_of(day + clock))


def _zone_us(zone: pl.Expr) -> pl.Expr:
    digits = zone.str.replace("Z", "+0000", literal=True).str.replace(":", "", literal=True)
    hours, minutes = digits.str.slice(1, 2).cast(pl.Int64), digits.str.slice(3, 2).cast(pl.Int64)
    size = (hours * 60 + minutes) * (60 * SECOND_US)
    signed = pl.when(digits.str.starts_with("-")).then(-size).otherwise(size)
    return pl.when((minutes < 60) & (hours * 60 + minutes <= 18 * 60)).then(signed)


def _split(pattern: str, node: exp.Expr) -> list[tuple[str, bool]]:
    """Take a pattern apart into (text, whether it stands for itself)."""
    pieces: list[tuple[str, bool]] = []
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])|(')", pattern):
        if found[4] or (found[3] and found[3] in "[]{}#"):
            raise refused(node, f"the pattern {pattern!r} has a stray {found[0]!r}", "quote it: '...'")
        if found[2]:
            pieces.append((found[0], False))
        else:
            pieces.append(((found[1] or "'").replace("''", "'") if found[3] is None else found[3], True))
    return pieces


def _letters(letters: str, known: dict[str, str], node: exp.Expr) -> str:
    if letters not in known:
        raise refused(node, f"{letters!r} in a date pattern is not in the job language", f"known: {', '.join(known)}")
    return known[letters]
