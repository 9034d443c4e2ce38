"""Headers of CSV: a line of names, with commas or tabs between them; each row has a value for each. Pure.

A header is told by the name of the time among its values, none of which is a time itself, so that no row that is an
event is ever taken for one. It need not be the first line, and another one may follow: programs write theirs whenever
they start.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carried
from elf.agents.sources.headed.heading import LaidOut
from elf.agents.sources.headed.records import Records, between_huge, ended, records
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import TIME, Field, Layout, Token, checked
from elf.agents.sources.lines import PIECE_BYTES, Ends, clean, cuts, line_ends, rows
from elf.agents.sources.times.notations import NOTATIONS, Notation, is_whole_time

_BOM = b"\xef\xbb\xbf"
#: What is longer is no header: each name costs, and the kernel's programs have at most 32,767 fields.
HEADER_BYTES_MAX = 64 << 10
#: Names have a letter and no address in them: the values of a torn row, which become columns, do not pass for some. A
#: column without a name is read over: tables are written with their row numbers first, or a comma last.
_IS_NAME = re.compile(r"^$|^(?![0-9a-fA-F.:]*[.:][0-9a-fA-F.:]*$).*[^\W\d_]", re.S)
#: As most rows have it and no header does: a value in front of all quotes that is a number, or like one. Told so, rows
#: that have the name of the time as a value, which whoever is logged may send, take a tenth of the time.
_HAS_NUMBER = r"^(?:[^\"\t]*,)?[0-9.:]+,[^\t]*$|^(?:[^\"]*\t)?[0-9.:]+\t"
#: So little text is searched as it is.
_FEW_BYTES = 4096
_TAB, _COMMA = "\t", ","
_ADDRESSES = frozenset({Kind.IP})


class Known(NamedTuple):
    """Columns that a format names itself.

    Attributes:
        time: the field of the event time.
        notation: of its times.
        fields: column and kind of each other field that is known.
    """

    time: str
    notation: str
    fields: Mapping[str, tuple[str, Kind]]


GCS = Known(
    "time_micros",
    "epoch",
    {
        "c_ip": ("remote_addr", Kind.IP),
        "cs_method": ("method", Kind.METHOD),
        "cs_uri": ("uri", Kind.URI),
        "sc_status": ("status", Kind.STATUS),
        "cs_bytes": ("bytes_received", Kind.INT),
        "sc_bytes": ("bytes", Kind.INT),
        "time_taken_micros": ("request_time_us", Kind.INT),
        "cs_host": ("host", Kind.WORD),
        "cs_referer": ("referer", Kind.WORD),
        "cs_user_agent": ("user_agent", Kind.WORD),
        "cs_operation": ("operation", Kind.WORD),
        "cs_bucket": ("bucket", Kind.WORD),
        "cs_object": ("key", Kind.WORD),
    },
)


class Table:
    """The headers of CSV; see `elf.agents.sources.headed.heading.Heading`.

    Args:
        times: fields of which the first that a header has holds the event time.
        notations: what times may be.
        known: the columns and their kinds; None: each field is a column of texts.
    """

    goes_on = False
    #: A quote between quotes.
    escape: str | None = '""'

    def __init__(
        self, times: Sequence[str], notations: Sequence[Notation], known: Mapping[str, tuple[str, Kind]] | None = None
    ) -> None:
        self._times = tuple(times)
        self._notations = tuple(notations)
        self._known = known
        fields = [Field(column, kind) for column, kind in (known or {}).values()]
        self.columns: Mapping[str, SqlType] | None = None
        if known is not None:
            of_uri = dict.fromkeys(("path", "query"), SqlType.STRING)
            self.columns = {field.column: field.type for field in fields} | of_uri
        self.addresses = frozenset(field.column for field in fields if field.kind in _ADDRESSES)
        #: The lines that were asked for last, what else the answer depends on, and the answer.
        self._looked_at: tuple[bytes, bytes, bool, LaidOut] | None = None
        # A name among other values, between quotes or not. Anchors make the search five times as slow.
        names = "|".join(map(re.escape, self._times))
        self._any_time = rf"(?:^|[,\t\"\x{{FEFF}}])(?:{names})(?:[,\t\r\n\"]|$)"
        self._behind_others = rf"[,\t\n\"\x{{FEFF}}](?:{names})[,\t\r\n\"]"
        self._perhaps = re.compile(
            rb"(?m:^|(?<=[,\t\"]))(?:\xef\xbb\xbf)?(?:" + names.encode() + rb")(?=[,\t\r\n\"]|$)"
        )

    def behind(self, carried: Sequence[Carried], text: bytes, at: int) -> tuple[Carried, ...]:
        """Return the last header, and behind it the lines of a row that has begun and has no end yet."""
        waiting = self.waiting(carried)
        header = carried[: len(carried) - len(waiting)]
        current = self.clean(header[0].line) if header else b""
        whole = b"".join([*(each.line for each in waiting), text])
        lengths = [len(each.line) for each in waiting]
        places = dict(zip(accumulate(lengths, initial=0), (each.at for each in waiting), strict=False))
        at -= sum(lengths)
        waiting = ()
        for begin, end in self.pieces(whole):
            piece = whole[begin:end]
            lines = clean(piece)
            laid = self.laid_out(lines.data, lines.ends, current, is_over=end < len(whole))
            if not laid.headers and laid.begun == len(lines.ends):
                continue
            bounds = [0, *(line_ends(piece if piece.endswith(b"\n") else piece + b"\n") + 1).tolist()]
            numbers = [*laid.headers[-1:], *range(laid.begun, len(lines.ends))]
            starts = [(begin + bounds[each], piece[bounds[each] : bounds[each + 1]]) for each in numbers]
            found = [Carried(places.get(place, at + place), line) for place, line in starts]
            if laid.headers:
                header = (found.pop(0),)
                current = self.clean(header[0].line)
            waiting = found
        return (*header, *waiting)

    def waiting(self, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Return the lines of a row that has begun."""
        has_header = bool(carried) and self._is_header(carried[0].line, b"")
        return carried[has_header:]

    def parted(self, carried: Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
        """Return the header of what is carried, empty if there is none, and the lines of a row that has begun."""
        has_header = bool(carried) and self._is_header(carried[0], b"")
        return (carried[0] if has_header else b""), carried[has_header:]

    def pieces(self, text: bytes) -> Sequence[tuple[int, int]]:
        """Return where the pieces of a text begin and end that no row goes beyond."""
        return between_huge(text)

    def laid_out(self, data: bytes, ends: Ends, current: bytes, *, is_over: bool) -> LaidOut:
        """Tell rows from headers; see `elf.agents.sources.headed.heading.Heading`.

        The same lines are asked for twice, by who reads a file and by who reads them.
        """
        looked_at = self._looked_at
        self._looked_at = None
        if looked_at is not None and looked_at[0] is data and looked_at[1:3] == (current, is_over):
            return looked_at[3]
        found = self._look_at(data, ends, current, is_over)
        self._looked_at = (data, current, is_over, found)
        return found

    def names_columns(self, line: bytes) -> bool:
        """Whether a header names the columns, as all do."""
        return True

    def layouts(self, header: bytes) -> Sequence[Layout]:
        """Return the layout of rows; see `elf.agents.sources.headed.heading.Heading`."""
        names = self.names(header)
        time = self._time_of(names)
        if time is None:
            raise ConfigError(f"it lacks {self._times[0]}, the time of the event")
        separator = _separator(header).encode()
        tokens: list[Token] = []
        last = {name: place for place, name in enumerate(names)}
        for place, name in enumerate(names):
            # Of fields with one name the last counts.
            is_read = last[name] == place
            if name == time:
                field = Field(TIME, Kind.TIME, self._notations, cell=True)
                field = field if is_read else Field("", Kind.TEXT, cell=True)
            else:
                field = self._field(name if is_read else "")
            tokens += [separator, field._replace(ends=separator)]
        return [checked(Layout(tuple(tokens[1:])))]

    def names(self, header: bytes) -> list[str]:
        """Return the names in a header; none if it is not CSV."""
        text = header.decode(errors="replace")
        try:
            return next(csv.reader([text], delimiter=_separator(header), strict=True), [])
        except csv.Error:
            return []

    def clean(self, line: bytes) -> bytes:
        """Return a line as it is once it is clean."""
        return line.replace(b"\0", b"").removeprefix(_BOM).rstrip(b"\r\n")

    def _field(self, name: str) -> Field:
        if self._known is not None:
            column, kind = self._known.get(name, ("", Kind.TEXT))
            return Field(column, kind, cell=True)
        return Field("" if name == TIME else name, Kind.TEXT, cell=True)

    def _time_of(self, names: Sequence[str]) -> str | None:
        return next((name for name in self._times if name in names), None)

    def _is_header(self, line: bytes, current: bytes) -> bool:
        cleaned = self.clean(line)
        if current and cleaned == current:
            return True
        if len(cleaned) > HEADER_BYTES_MAX:
            return False
        names = self.names(cleaned)
        if self._time_of(names) is None or not all(map(_IS_NAME.search, names)):
            return False
        return not any(map(self._is_time, names))

    def _is_time(self, text: str) -> bool:
        data = text.removeprefix("[").removesuffix("]").encode()
        return any(is_whole_time(notation, data) is not None for notation in self._notations)

    def _look_at(self, data: bytes, ends: Ends, current: bytes, is_over: bool) -> LaidOut:
        headers, lasts, first = list[int](), list[Ends](), 0
        own = _records_from(first, data, ends, current, is_over)
        for number in self._lines_with_time(data, ends):
            record = int(np.searchsorted(own.lasts, number))
            # Within a row that goes on, a line is none, whatever it looks like.
            if record == len(own.lasts) or own.lasts[record] != number:
                continue
            if number != (own.lasts[record - 1] + 1 if record else first):
                continue
            line = data[int(ends[number - 1]) + 1 if number else 0 : int(ends[number])]
            if not self._is_header(line, current):
                continue
            headers.append(number)
            before, current = current, line
            if not before or _separator(before) != _separator(current):
                lasts.append(own.lasts[: record + 1])
                first = number + 1
                own = _records_from(first, data, ends, current, is_over)
        lasts.append(own.lasts)
        every = np.concatenate(lasts) if len(lasts) > 1 else own.lasts
        return LaidOut(headers, None if len(every) == len(ends) else every, own.begun)

    def _lines_with_time(self, data: bytes, ends: Ends) -> Iterator[int]:
        """Yield the numbers of the lines that have a name of the time as a value.

        Nearly always none has, which is found out of large pieces at 2 GB/s; only in pieces that have, lines are looked
        at one by one.
        """
        # Of few lines this takes less time than columns do.
        if not len(ends) or (len(data) <= _FEW_BYTES and not self._perhaps.search(data)):
            return
        firsts = cuts(ends, PIECE_BYTES)
        begins = np.append(0, ends + 1)
        has_time = _texts(data, begins[firsts]).str.contains(self._behind_others).to_numpy()
        for piece, (first, until) in enumerate(pairwise(firsts.tolist())):
            if has_time[piece] or self._perhaps.match(data, int(begins[first])):
                own = begins[first : until + 1]
                lines = _texts(data[own[0] : own[-1]], own - own[0])
                are_likely = lines.str.contains(self._any_time) & ~lines.str.contains(_HAS_NUMBER)
                yield from (np.flatnonzero(are_likely.to_numpy()) + first).tolist()


def _records_from(first: int, data: bytes, ends: Ends, header: bytes, is_over: bool) -> Records:
    """Find the records from a line on; without a header each line is one."""
    begin = int(ends[first - 1]) + 1 if first else 0
    if not header or first == len(ends):
        return Records(np.arange(first, len(ends)), len(ends))
    find = ended if is_over else records
    found = find(data[begin:], ends[first:] - begin, _separator(header).encode())
    return Records(found.lasts + first, found.begun + first)


def _texts(data: bytes, bounds: Ends) -> pl.Series:
    """Return the texts from each bound to the next."""
    pieces = rows(data, bounds, pl.Binary())
    try:
        return pieces.cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series([piece.decode(errors="replace") for piece in pieces], dtype=pl.String)


def notations_for(has_zone: bool) -> list[Notation]:
    """Return what times may be: with a zone of those that do not say theirs, all that tell themselves apart."""
    return [
        notation
        for name, notation in NOTATIONS.items()
        if name != "epoch-hex" and (has_zone or not notation.needs_zone)
    ]


def _separator(header: bytes) -> str:
    return _TAB if b"\t" in header else _COMMA
