"""What lines stand in: logs of containers, the journal, syslog. Each takes the texts out, and what is around them.

CRI cuts long lines into parts, of which the last has an F; Docker's json-file cuts at 16 KiB, and a text without a
final newline goes on in the next one of its stream. Docker and the journal write objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Parsed
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.kept import Kept
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.lines import Ends, valid_utf8
from elf.agents.sources.objects.values import without_lone_surrogates
from elf.agents.sources.times.notations import NOTATIONS, is_whole_time
from elf.agents.sources.wrapped.begun import BegunParts, Part
from elf.agents.sources.wrapped.records import Bools

MESSAGE, PART, STREAM = "message", "part", "stream"
_STREAMS = ("stdout", "stderr")


class Unwrapped(NamedTuple):
    """The lines that fit the wrapper.

    Attributes:
        parsed: its events, with the columns that are around the texts; those that do not fit are rejected there.
        texts: of each event what stands in it, none of them null.
        is_end: whether each text ends its record; None: all do.
        rejected: lines that fit, and hold no text.
    """

    parsed: Parsed
    texts: pl.Series
    is_end: Bools | None
    rejected: list[bytes]


class Wrapper(Protocol):
    """A format that others stand in.

    Attributes:
        columns: what is around the texts, beside the time.
        carrier: knows which lines have begun a record; None: each line is one.
        ends_itself: a record that has begun is whole if nothing comes behind it.
        has_nulls: no text, or a hyphen, is null.
    """

    columns: Mapping[str, SqlType]
    carrier: BegunParts | None
    ends_itself: bool
    has_nulls: bool

    def unwrap(self, lines: Kept) -> Unwrapped:
        """Take the texts out."""

    def has_parts(self, data: bytes) -> bool:
        """Whether lines may be parts of records."""


class LayoutWrapper:
    """A wrapper that is a layout whose last field is the text; see `Wrapper`.

    Args:
        reader: of the wrapper's lines.
        has_part: lines may be parts, as a column says.
    """

    ends_itself = False
    has_nulls = True

    def __init__(self, reader: LayoutLines, *, has_part: bool) -> None:
        self._reader = reader
        self._has_part = has_part
        around = {name: kind for name, kind in reader.columns.items() if name not in (MESSAGE, PART)}
        self.columns: Mapping[str, SqlType] = around
        self.carrier = BegunParts(b" %s ", _cri_part, self.has_parts) if has_part else None
        #: The lines that were looked at last, and the answer: who reads a file asks, and who reads its lines does.
        self._looked_at = (b"", False)

    def has_parts(self, data: bytes) -> bool:
        """Whether lines may be parts of records."""
        if not self._has_part:
            return False
        if self._looked_at[0] is not data:
            # A NUL may stand in the mark, and is taken out of lines.
            self._looked_at = (data, b" P " in data or b"\0" in data)
        return self._looked_at[1]

    def unwrap(self, lines: Kept) -> Unwrapped:
        """Take the texts out."""
        numbers: list[Ends] = []
        texts_of = {name: SqlType.STRING for name in (MESSAGE, PART) if name in self._reader.columns}
        wanted = {**texts_of, **self.columns}
        parsed = self._reader.parse(lines, wanted, numbers)
        events, texts = parsed.events, parsed.events[MESSAGE]
        if texts.null_count():
            # No text, or a hyphen, which a layout takes for none: of a part it may be the end of something.
            last = np.frombuffer(lines.data, np.uint8)[np.maximum(lines.ends[np.concatenate(numbers)] - 1, 0)]
            texts = texts.zip_with(texts.is_not_null(), pl.Series(np.where(last == ord("-"), "-", "")))
        is_end = (events[PART] == "F").fill_null(False).to_numpy() if self._has_part else None
        return Unwrapped(parsed, texts, is_end, [])


class _Docker(msgspec.Struct):
    log: msgspec.Raw = msgspec.Raw(b"null")
    stream: str = ""
    time: msgspec.Raw = msgspec.Raw(b"null")


#: As JSON may write the letters of a stream's name, and nobody does who means well.
_ESCAPED_LETTERS = (rb"\u006", rb"\u007")
_DOCKER = msgspec.json.Decoder(_Docker)


class ObjectWrapper:
    """A wrapper of objects; see `Wrapper`.

    Args:
        reader: of the objects, by their time.
        text: the field with the text.
        fields: of each column around it the field.
        has_parts: a text without a final newline goes on in the next one of its stream.
    """

    ends_itself = True
    has_nulls = False

    def __init__(self, reader: JsonLines, text: str, fields: Mapping[str, str], *, has_parts: bool) -> None:
        self._reader = reader
        self._text = text
        self._fields = fields
        self._has_parts = has_parts
        self.columns: Mapping[str, SqlType] = dict.fromkeys(fields, SqlType.STRING)
        self.carrier = BegunParts(b'"%s"', self._part, self.has_parts, _ESCAPED_LETTERS) if has_parts else None

    def has_parts(self, data: bytes) -> bool:
        """Whether lines may be parts of records."""
        return self._has_parts

    def unwrap(self, lines: Kept) -> Unwrapped:
        """Take the texts out."""
        numbers: list[Ends] = []
        wanted = dict.fromkeys((self._text, *self._fields.values()), SqlType.STRING)
        parsed = self._reader.parse(lines, wanted, numbers)
        events = parsed.events.rename({field: column for column, field in self._fields.items()})
        texts = events[self._text].alias(MESSAGE)
        rejected: list[bytes] = []
        has_text = texts.is_not_null()
        if self._has_parts:
            has_text &= events[STREAM].is_in(_STREAMS).fill_null(False)
        if not has_text.all():
            without = np.concatenate(numbers)[(~has_text).to_numpy()]
            rejected = [lines.line(number) for number in without.tolist()]
            events, texts = events.filter(has_text), texts.filter(has_text)
        is_end = texts.str.ends_with("\n").to_numpy() if self._has_parts else None
        texts = texts.str.strip_chars_end("\r\n")
        return Unwrapped(msgspec.structs.replace(parsed, events=events), texts, is_end, rejected)

    def _part(self, line: bytes) -> Part | None:
        # As lines of JSON are read: what is no UTF-8, or half a character, is replaced, what is no text is its JSON.
        text = without_lone_surrogates(valid_utf8(line)[0])
        try:
            read = _DOCKER.decode(text)
            raw = bytes(read.log)
            log = msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
        except (msgspec.DecodeError, RecursionError):
            return None
        time = bytes(read.time)
        # As Docker writes it, which takes a tenth of the time to see, or any other.
        has_time = is_whole_time(_ISO, time[1:-1]) is not None or self._reader.is_time(time)
        if raw == b"null" or not has_time:
            return None  # what is no line of the wrapper ends nothing
        return Part(read.stream.encode(), log.endswith("\n"), len(log.rstrip("\r\n").encode()))


_CRI = re.compile(rb"([^\n]{1,64}?) (stdout|stderr) ([PF]) ([^\n]*)")  # times may have a space
_ISO = NOTATIONS["iso"]


def _cri_part(line: bytes) -> Part | None:
    found = _CRI.match(line)
    if found is None or is_whole_time(_ISO, found[1]) is None:
        return None  # what is no line of the wrapper ends nothing
    return Part(found[2], found[3] == b"F", len(found[4]))
