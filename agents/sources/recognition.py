"""Which format lines have: every format counts how many fit it, and the one that nine of ten fit is theirs. Pure.

LINES section 4. A format that fits lines by chance as well as another does is ambiguous, unless it is declared to be
the other's twin; what few lines fit is nobody's.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.catalogue import EXPORTED, HEADED, JOURNAL, LAYOUTS, OBJECT_WRAPPERS, PAIRS, SIGNED, WRAPPERS
from elf.agents.sources.counters import Parsed
from elf.agents.sources.exported_lines import ExportedLines
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.headed_lines import HeadedLines
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.lines import clean, valid_utf8
from elf.agents.sources.objects.named import OBJECTS
from elf.agents.sources.times.fields import TIME_FIELD, TIME_FIELDS
from elf.agents.sources.times.zones import UTC
from elf.agents.sources.wrapped.exported import entries
from elf.agents.sources.wrapped.wrappers import MESSAGE

#: So much of a file is looked at, and so many lines of it.
SAMPLE_BYTES, _LINES_MAX = 256 << 10, 1_000
#: Layouts of one file are at most so many.
_COVER_MAX = 3
#: Why lines do not fit a format that they were recognised as: that takes times without a zone for UTC.
NO_ZONE = "their times have no zone, and this machine's is not UTC; write theirs as time_zone"
#: Formats whose lines name their columns: others are meant where these fit, too.
_GENERAL = ("json", "csv", "ltsv", "logfmt")
JSON = "json"
#: Entries of the journal begin with their place in it.
_EXPORTED = re.compile(rb"\n*__CURSOR=")
#: Tables of measurements, of prices and of people look like logs: what they call time, or date, may be a number, or a
#: year. Logs are of these years.
_TABLES, _VAGUE = ("csv", "ltsv", "logfmt"), ("time", "date")
_LIKELY = datetime.datetime(1990, 1, 1), datetime.datetime(2100, 1, 1)


class Guess(NamedTuple):
    """A format, and how many lines fit it.

    Attributes:
        names: of the format; several if lines of one file have several.
        fits: how many lines fit.
        lines: of so many.
        time: of objects: the field with the event time.
    """

    names: tuple[str, ...]
    fits: int
    lines: int
    time: str = ""

    @property
    def shown(self) -> str:
        """What to write as a format."""
        return ", ".join(self.names)

    @property
    def is_good(self) -> bool:
        """Whether nine of ten lines fit."""
        return bool(self.fits) and self.fits * 10 >= self.lines * 9


class Recognised(NamedTuple):
    """What lines are.

    Attributes:
        format: theirs; None if none fits, or several do.
        guesses: the formats that fit, or nearly fit, the best first.
    """

    format: Guess | None
    guesses: tuple[Guess, ...]

    @property
    def candidates(self) -> str:
        """The formats that fit, where several do; empty if none does."""
        return " or ".join(guess.shown for guess in self.guesses if guess.is_good)

    @property
    def why_open(self) -> str:
        """Why lines have no format: they may have several, or none."""
        if self.candidates:
            return f"its lines may be {self.candidates}"
        said = "its lines are of no format that has a name"
        if not self.guesses:
            return said
        near = self.guesses[0]
        return f"{said}; the nearest is {near.shown}, which {near.fits} of {near.lines} lines fit"


def recognise(sample: bytes, time: str | None = None) -> Recognised:
    """Find the format of lines. O(formats * bytes).

    Args:
        sample: whole lines; the last one may lack its newline.
        time: the field of objects that has the event time; None: any that is known for that.
    """
    if _EXPORTED.match(sample) is not None:
        return _exported(recognise(entries(sample[: sample.rfind(b"\n") + 1], is_over=False).objects, time))
    lines = _lines(sample)
    if not lines:
        return Recognised(None, ())
    objects = _object_guess(lines, TIME_FIELDS if time is None else (time,))
    guesses = [objects, *(_guess(name, lines, time) for name in _names(lines))]
    good = sorted((guess for guess in guesses if guess.is_good), key=_rank, reverse=True)
    if good and (within := _within(good[0].names[0], lines)) is not None:
        return Recognised(within, (within, *good))
    if good:
        tied = [guess for guess in good if _rank(guess) == _rank(good[0])]
        own = [guess for guess in tied if not _is_twin(guess)] or tied
        return Recognised(own[0] if len(own) == 1 else None, tuple([*own, *(g for g in good if g not in own)]))
    several = _cover(lines)
    if several is not None:
        return Recognised(several, (several,))
    near = sorted((guess for guess in guesses if guess.fits), key=lambda each: (each.fits, _rank(each)), reverse=True)
    return Recognised(None, tuple(near[:_COVER_MAX]))


def _exported(objects: Recognised) -> Recognised:
    """Return what entries of the journal are, given what they are as objects."""
    found = objects.format
    if found is None or any(name.partition("+")[0] != JOURNAL for name in found.names):
        return Recognised(None, ())
    guess = found._replace(names=tuple(name.replace(JOURNAL, EXPORTED, 1) for name in found.names))
    return Recognised(guess, (guess,))


def best_of(line: bytes) -> Sequence[Guess]:
    """Return the formats that fit a line, of those the ones that say the most of it; or of whose headers it is one."""
    good = [guess for guess in recognise(line).guesses if guess.is_good and not _is_twin(guess)]
    if good:
        return [guess for guess in good if _rank(guess) == _rank(good[0])]
    # What has to be in a header tells them apart.
    headed = (name for name in (*SIGNED, *HEADED) if _is_header(make_format(name, zone=UTC), line))
    return [Guess((name,), 0, 1) for name in headed][:1]


def _is_header(format: Format, line: bytes) -> bool:
    assert isinstance(format, HeadedLines)
    return bool(format.keep(line).headers) and not format.fault(line.rstrip(b"\r\n"))


def fitting(format: Format, sample: bytes) -> Guess:
    """Return how many lines fit a format."""
    if isinstance(format, ExportedLines):
        return fitting(format.of_objects, format.objects_in(sample))
    lines = _lines(sample)
    return _guessed(format, lines) if lines else Guess((format.name,), 0, 0)


def are_objects(sample: bytes) -> bool:
    """Tell whether nine of ten lines are meant to be objects, though none may have a time, or be whole."""
    lines = _lines(sample)
    return sum(line.lstrip().startswith(b"{") for line in lines) * 10 >= max(len(lines), 1) * 9


def _lines(sample: bytes) -> list[bytes]:
    """Return the first whole lines of a sample, clean, without those that are empty."""
    whole = sample[:SAMPLE_BYTES]
    if len(whole) < len(sample) or not whole.endswith(b"\n"):
        whole = whole[: whole.rfind(b"\n") + 1] or whole
    text, _ = valid_utf8(clean(whole).data)
    return [line for line in text.split(b"\n") if line][:_LINES_MAX]


def _names(lines: Sequence[bytes]) -> list[str]:
    """Name every format that lines may have but JSON, in every wrapper, too."""
    are_objects = _are_objects(lines)
    wrappers = [*WRAPPERS, *(OBJECT_WRAPPERS if are_objects else ())]
    inner = [*(name for name, each in LAYOUTS.items() if not each.twin), *PAIRS]
    inner += [JSON] if any(b"{" in line for line in lines) else []
    named = [*(OBJECTS if are_objects else ()), *LAYOUTS]
    return [*named, *(f"{wrapper}+{name}" for wrapper in wrappers for name in inner), *wrappers, *HEADED, *PAIRS]


def _parsed(format: Format, lines: Sequence[bytes], time: str = "") -> Parsed:
    """Parse lines; what names its time as other numbers are named, too, is no event at an unlikely one."""
    parsed = parse_chunk(format, b"".join(line + b"\n" for line in lines), {})
    if format.name not in _TABLES and time not in _VAGUE:
        return parsed
    likely = int(parsed.events["ts"].is_between(*_LIKELY).sum())
    return msgspec.structs.replace(parsed, counters=msgspec.structs.replace(parsed.counters, parsed=likely))


def _guess(name: str, lines: Sequence[bytes], time: str | None = None) -> Guess:
    sign = LAYOUTS[name].sign if name in LAYOUTS else b""
    if sum(re.search(sign, line) is None for line in lines) * 10 > len(lines):
        return Guess((name,), 0, len(lines))
    if not name.endswith(f"+{JSON}"):
        return _guessed(make_format(name, time=time or TIME_FIELD, zone=UTC), lines)._replace(names=(name,))
    fields = TIME_FIELDS if time is None else (time,)
    guesses = (
        _guessed(make_format(name, time=each, zone=UTC), lines)._replace(names=(name,), time=each) for each in fields
    )
    return max(guesses, key=lambda guess: guess.fits)


def _are_objects(lines: Sequence[bytes]) -> bool:
    return any(line.lstrip().startswith(b"{") for line in lines)


def _guessed(format: Format, lines: Sequence[bytes]) -> Guess:
    """Return how many of the lines that stand for themselves fit."""
    ends = _parsed(format, lines).counters
    return Guess((format.name,), ends.parsed, ends.read - ends.headers - ends.parts)


def _object_guess(lines: Sequence[bytes], fields: Sequence[str]) -> Guess:
    """Return how many lines are objects with an event time, in the field that has it in most of them."""
    if not _are_objects(lines):
        return Guess((JSON,), 0, len(lines))
    guesses = [
        Guess((JSON,), _parsed(make_format(JSON, time=name, zone=UTC), lines, name).counters.parsed, len(lines), name)
        for name in fields
    ]
    return max(guesses, key=lambda guess: guess.fits)


def _rank(guess: Guess) -> tuple[int, float]:
    """Rank by how much a format says of its lines, then by the share of them that fit.

    A line in a wrapper is more than a line, a line more than an object, or a wrapper whatever is in it: these fit the
    few lines, too, that a program says beside what it logs, and would make all others texts.
    """
    share = guess.fits / max(guess.lines, 1)
    name, _, inner = guess.names[0].partition("+")
    if name in SIGNED:
        return 5, share
    if inner:
        return (3 if inner in _GENERAL else 4), share
    if name in _GENERAL:
        return 0, share
    return (1 if name in (*WRAPPERS, *OBJECT_WRAPPERS) else 2), share


def _is_twin(guess: Guess) -> bool:
    return guess.names[0] in LAYOUTS and bool(LAYOUTS[guess.names[0]].twin)


def _within(wrapper: str, lines: Sequence[bytes]) -> Guess | None:
    """Return the few layouts that together fit nine of ten lines in a wrapper; None if there are none."""
    if wrapper not in (*WRAPPERS, *OBJECT_WRAPPERS):
        return None
    texts = _texts_in(make_format(wrapper, zone=UTC), lines)
    inner = _cover([text.encode() for text in texts if text])
    if inner is None or len(inner.names) < 2:
        return None
    names = tuple(f"{wrapper}+{name}" for name in inner.names)
    found = _guessed(make_format(names, zone=UTC), lines)._replace(names=names)
    return found if found.is_good else None


def _texts_in(format: Format, lines: Sequence[bytes]) -> Sequence[str | None]:
    """Return the texts that stand in lines of a wrapper."""
    chunk = b"".join(line + b"\n" for line in lines)
    return parse_chunk(format, chunk, {MESSAGE: SqlType.STRING}).events[MESSAGE].to_list()


def _cover(lines: Sequence[bytes]) -> Guess | None:
    """Return the few layouts that together fit nine of ten lines; None if there are none."""
    left, names = list(lines), list[str]()
    while left and len(names) < _COVER_MAX:
        best = max((name for name in LAYOUTS if not LAYOUTS[name].twin), key=lambda name: _guess(name, left).fits)
        format = make_format(best, zone=UTC)
        assert isinstance(format, LayoutLines)
        unfit = [line for line in left if format.misfit(line) is not None]
        if len(unfit) == len(left):
            break
        names.append(best)
        left = unfit
    found = Guess(tuple(names), len(lines) - len(left), len(lines))
    try:
        make_format(names, zone=UTC)
    except ConfigError:
        return None  # they cannot be read together
    return found if found.is_good else None
