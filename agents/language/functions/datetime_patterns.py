"""Java's date patterns (`yyyy-MM-dd HH:mm:ss`), for writing and for reading."""

from __future__ import annotations

import calendar
import functools
import itertools
import re
from collections.abc import Callable

import polars as pl
from sqlglot import exp

from elf.agents.language.casts import known_time
from elf.agents.language.dialect import refused
from elf.agents.language.time_texts import (
    by_column,
    clock_seconds,
    days_of,
    instant_of,
    micros_of_fraction,
    offset_seconds,
)

_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if number}
_WRITE = {
    "yyyy": "%Y", "yy": "yy", "y": "y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m", "dd": "%d", "d": "%-d",
    "DDD": "%j", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S",
    "SSS": "%3f", "SSSSSS": "%6f", "a": "%p", "EEEE": "%A", "EEE": "%a", "EE": "%a", "E": "%a",
    "XXX": "Z", "X": "Z", "Z": "+0000", "xxx": "+00:00",
}  # fmt: skip
#: What Polars writes otherwise than Java outside the years 0 to 9999.
_YEARS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "y": lambda year: year.cast(pl.String),
    "yy": lambda year: (year.abs() % 100).cast(pl.String).str.zfill(2),
}
_READ = {
    "yyyy": r"(?P<year>[0-9]{4}|\+[0-9]{5,6}|-[0-9]{4,6})",
    "MM": r"(?P<month>[0-9]{2})",
    "M": r"(?P<month>[0-9]{1,19})",
    "MMM": r"(?P<name>MONTHS)",
    "dd": r"(?P<day>[0-9]{2})",
    "d": r"(?P<day>[0-9]{1,19})",
    "HH": r"(?P<hour>[0-9]{2})",
    "H": r"(?P<hour>[0-9]{1,19})",
    "mm": r"(?P<minute>[0-9]{2})",
    "ss": r"(?P<second>[0-9]{2})",
    # Writers leave zeros out at the end, so Spark takes fewer digits than letters, too.
    **{"S" * digits: rf"(?P<fraction>[0-9]{{1,{digits}}})" for digits in range(1, 10)},
    "Z": r"(?P<zone>[+-][0-9]{4})",
    "XXX": r"(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})",
}
_NUMBERS = frozenset(_READ) - {"MMM", "Z", "XXX"}
#: Beyond ASCII, what is the same as one of its letters where case does not count.
_ALIKE = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
#: Of these Java reads as many digits as there are, of fractions as many as there are letters.
_OF_ANY_LENGTH = frozenset(("M", "d", "H"))
_FRACTIONS = frozenset("S" * digits for digits in range(2, 10))


def write(timestamp: pl.Expr, pattern: str, node: exp.Expr) -> pl.Expr:
    """Format a timestamp.

    Raises:
        JobSpecError: the pattern has a letter outside the job language.
    """
    pieces = _split(pattern, node)
    known = known_time(timestamp)
    written: list[pl.Expr] = []
    for is_year, group in itertools.groupby(pieces, lambda piece: not piece[1] and piece[0] in _YEARS):
        parts = [text.replace("%", "%%") if plain else _letters(text, _WRITE, node) for text, plain in group]
        if is_year:
            written += [_YEARS[text](known.dt.year()) for text in parts]
        else:
            written.append(known.dt.strftime("".join(parts)))
    return pl.concat_str(written) if written else known.dt.strftime("")


def read(text: pl.Expr, pattern: str, node: exp.Expr) -> pl.Expr:
    """Read a timestamp; NULL where the text does not fit the pattern from end to end.

    Raises:
        JobSpecError: the pattern has a letter outside the job language.
    """
    pieces = _split(pattern, node)
    parts = [_any_case(piece) if plain else _letters(piece, _READ, node) for piece, plain in pieces]
    parts = [part.replace("MONTHS", "|".join(map(_any_case, _MONTHS))) for part in parts]
    for one, other in itertools.pairwise(pieces):
        if not _is_told_apart(*one, *other):
            message = f"in the pattern {pattern!r} nothing tells where {one[0]} ends and {other[0]} begins"
            raise refused(node, message, "write something in between, or two letters")
    names = re.findall(r"\?P<(\w+)>", "".join(parts))
    if len(set(names)) != len(names) or {"month", "name"} <= set(names):
        raise refused(node, f"the pattern {pattern!r} reads something twice")
    if "year" not in names:
        raise refused(node, f"the pattern {pattern!r} reads no year (yyyy)")
    return by_column(functools.partial(_read, rf"\A{''.join(parts)}\z", frozenset(names)), text, pl.Datetime("us"))


def _read(pattern: str, names: frozenset[str], texts: pl.Series) -> pl.Series:
    fields = texts.str.extract_groups(pattern).struct.unnest()

    def number(name: str, default: int) -> pl.Expr:
        return pl.col(name).cast(pl.Int64, strict=False) if name in names else pl.lit(default, dtype=pl.Int64)

    year = pl.col("year").str.strip_prefix("+").cast(pl.Int64)
    month = number("month", 1)
    if "name" in names:
        month = pl.col("name").str.to_uppercase().replace_strict(_MONTHS, default=None, return_dtype=pl.Int64)
    zone = pl.col("zone")
    offset = offset_seconds(zone.str.slice(0, 1), zone.str.slice(1, 2), zone.str.slice(-2), pl.lit(None, pl.String))
    parts = fields.select(
        # There is no minus zero.
        pl.when(~pl.col("year").str.contains("^-0+$")).then(days_of(year, month, number("day", 1))).alias("day"),
        clock_seconds(number("hour", 0), number("minute", 0), number("second", 0)).alias("clock"),
        (micros_of_fraction(pl.col("fraction")) if "fraction" in names else pl.lit(0, pl.Int64)).alias("micros"),
        (pl.when(zone.str.len_bytes() > 1).then(offset).otherwise(0) if "zone" in names else pl.lit(0)).alias("offset"),
    )
    return parts.select_seq(instant_of(*map(pl.col, parts.columns))).to_series().alias(texts.name)


def _is_told_apart(before: str, is_text: bool, after: str, is_text_after: bool) -> bool:
    """Tell whether Java, which never goes back, and a regular expression end a number at the same place."""
    begins_with_digit = after[:1].isdigit() if is_text_after else after in _NUMBERS
    if is_text or before not in _NUMBERS or not begins_with_digit:
        return True
    is_open = before in _OF_ANY_LENGTH | _FRACTIONS or (before == "yyyy" and is_text_after)
    return not is_open and (is_text_after or after not in _OF_ANY_LENGTH)


@functools.lru_cache(maxsize=64)
def _alike(char: str) -> str:
    """Return all characters that are the same as one for Java where case does not count."""
    if char.isascii():
        return char.upper() + char.lower() + _ALIKE.get(char.lower(), "")

    def folded(each: str) -> set[str]:
        return {changed for changed in (each.upper(), each.lower()) if len(changed) == 1} | {each}

    own = folded(char)
    return "".join(each for each in map(chr, range(0x10000)) if not own.isdisjoint(folded(each)))


def _any_case(text: str) -> str:
    """Return a regular expression of a text in whatever case, as Java compares characters."""
    parts = (f"[{re.escape(_alike(char))}]" if char.isalpha() else re.escape(char) for char in text)
    return "".join(parts)


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
