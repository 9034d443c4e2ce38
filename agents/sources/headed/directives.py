"""Headers of W3C's extended log format: `#Fields: date time c-ip ...`, which may change within a file. Pure.

Each row has the date and the time, in UTC, and the fields that the last such line named; fields that are not known
here are read over, whatever they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carried
from elf.agents.sources.headed.heading import LaidOut
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import TIME, Field, Layout, Token, checked
from elf.agents.sources.lines import Ends
from elf.agents.sources.times.notations import Notation

_FIELDS = b"#Fields:"
#: What is longer is refused: each field costs, and the kernel's programs have at most 32,767 of them.
_HEADER_BYTES_MAX = 64 << 10
#: As lines begin that have it; a NUL, and a byte order mark in front of it, are no part of a line.
_FIELDS_LINE = re.compile(
    rb"^\0*(?:\xef\0*\xbb\0*\xbf\0*)?" + rb"\0*".join(re.escape(bytes([byte])) for byte in _FIELDS) + rb".*\n?", re.M
)
_DATE, _TIME = "date", "time"
_ADDRESSES = frozenset({Kind.IP})

_COMMON = {
    "c-ip": ("remote_addr", Kind.IP),
    "cs-username": ("remote_user", Kind.TEXT),
    "s-ip": ("server_addr", Kind.IP),
    "s-port": ("server_port", Kind.INT),
    "cs-method": ("method", Kind.METHOD),
    "cs-uri-stem": ("uri", Kind.URI),
    "cs-uri-query": ("query", Kind.TEXT),
    "sc-status": ("status", Kind.STATUS),
    "sc-bytes": ("bytes", Kind.INT),
    "cs-bytes": ("bytes_received", Kind.INT),
    "cs(User-Agent)": ("user_agent", Kind.TEXT),
    "cs(Referer)": ("referer", Kind.TEXT),
}


class Dialect(NamedTuple):
    """How a server writes it.

    Attributes:
        name: for people.
        separators: between fields; the first that fits a line is its own.
        signature: a field that there has to be; empty: none.
        fields: column and kind of each field that is known.
    """

    name: str
    separators: tuple[bytes, ...]
    signature: str
    fields: Mapping[str, tuple[str, Kind]]


W3C = Dialect(
    "w3c",
    (b" ", b"\t"),
    "",
    _COMMON
    | {
        "time-taken": ("request_time_ms", Kind.INT),
        "cs-host": ("host", Kind.TEXT),
        "cs-version": ("protocol", Kind.PROTOCOL),
    },
)
CLOUDFRONT = Dialect(
    "cloudfront",
    (b"\t",),
    "x-edge-location",
    _COMMON
    | {
        "x-host-header": ("host", Kind.TEXT),
        "x-edge-location": ("edge", Kind.TEXT),
        "x-edge-result-type": ("result", Kind.TEXT),
        "x-edge-request-id": ("request_id", Kind.TEXT),
        "time-taken": ("request_time", Kind.NUMBER),
        "cs-protocol-version": ("protocol", Kind.PROTOCOL),
        "cs-protocol": ("scheme", Kind.TEXT),
        "ssl-protocol": ("ssl_protocol", Kind.TEXT),
        "x-forwarded-for": ("http_x_forwarded_for", Kind.TEXT),
    },
)


class Directives:
    """The headers of a dialect; see `elf.agents.sources.headed.heading.Heading`."""

    goes_on = False
    escape: str | None = None  # values are as logged

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        fields = [Field(column, kind) for column, kind in dialect.fields.values()]
        self.columns: Mapping[str, SqlType] = {field.column: field.type for field in fields} | dict.fromkeys(
            ("path", "query"), SqlType.STRING
        )
        self.addresses = frozenset(field.column for field in fields if field.kind in _ADDRESSES)

    def behind(self, carried: Sequence[Carried], text: bytes, at: int) -> tuple[Carried, ...]:
        """Return the last line that names the fields."""
        # Most chunks have none at all; that there is no such byte is found out at the speed of memory.
        may_have = b"#" in text and (_FIELDS in text or b"\0" in text)
        found = list(_FIELDS_LINE.finditer(text)) if may_have else []
        return (Carried(at + found[-1].start(), found[-1][0]),) if found else tuple(carried)

    def waiting(self, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Return none: each row is a line."""
        return ()

    def parted(self, carried: Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
        """Return the last directive, and no rows."""
        return (carried[-1] if carried else b""), ()

    def pieces(self, text: bytes) -> Sequence[tuple[int, int]]:
        """Return a text as it is."""
        return ((0, len(text)),)

    def laid_out(self, data: bytes, ends: Ends, current: bytes, *, is_over: bool) -> LaidOut:
        """Find the directives, which begin with a hash."""
        if b"#" not in data:
            return LaidOut([], None, len(ends))
        begins = np.append(0, ends[:-1] + 1)
        found = np.flatnonzero(np.frombuffer(data, np.uint8)[begins] == ord("#")).tolist()
        return LaidOut(found, None, len(ends))

    def names_columns(self, line: bytes) -> bool:
        """Whether a directive names the fields."""
        return line.startswith(_FIELDS)

    def layouts(self, header: bytes) -> Sequence[Layout]:
        """Return the layouts of rows; see `elf.agents.sources.headed.heading.Heading`."""
        if len(header) > _HEADER_BYTES_MAX:
            raise ConfigError(f"its #Fields are longer than {_HEADER_BYTES_MAX} bytes")
        names = header[len(_FIELDS) :].decode(errors="replace").split()
        if self._dialect.signature not in ("", *names):
            raise ConfigError(f"its #Fields lack {self._dialect.signature}, which {self._dialect.name} has")
        if (_DATE, _TIME) not in pairwise(names):
            raise ConfigError("its #Fields lack date and time side by side, which are the time of the event")
        return [self._layout(names, separator) for separator in self._dialect.separators]

    def _layout(self, names: Sequence[str], separator: bytes) -> Layout:
        at = next(place for place, pair in enumerate(pairwise(names)) if pair == (_DATE, _TIME))
        between = separator.decode()
        notation = Notation("w3c", f"%Y-%m-%d{between}%H:%M:%S%f", f"2026-11-26{between}09:00:00")
        tokens: list[Token] = []
        known: set[str] = set()
        for place, name in enumerate(names):
            if place == at + 1:
                continue
            column, kind = self._dialect.fields.get(name, ("", Kind.TEXT))
            # Of a field that is named twice the first counts.
            field = Field("" if column in known else column, kind, ends=separator)
            known.add(column)
            tokens += [separator, Field(TIME, Kind.TIME, (notation,), ends=separator) if place == at else field]
        return checked(Layout(tuple(tokens[1:])))
