r"""Access logs to frames: `combined`, `common`, and any pasted layout.

Each line meets a strict pattern first, in which every field ends at the first character that can end it; that is what
nearly all lines are like, and such a pattern is matched in one pass, five times as fast. Lines that do not match meet
the exact pattern (a user name may hold a space). Where the strict one matches, both give the same.

Values are as logged: `\xHH` and `\"` stay escaped. "-" is null, except for `bytes`, where it means 0. A line whose
*request* is garbage is kept, with `request_malformed` set and `method`, `uri`, `path`, `query` and `protocol` null.
A line beyond `LINE_BYTES_MAX` is kept, too, with what its front holds, if that includes the time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import event_time
from elf.agents.sources.counters import Counters, Oddities, Parsed, Rejects
from elf.agents.sources.kept import Kept
from elf.agents.sources.layout_patterns import Patterns, extract
from elf.agents.sources.lines import bounds, clean, split
from elf.agents.sources.log_format import (
    COMBINED,
    COMMON,
    SKIPPED,
    TIME_ISO,
    TIME_LOCAL,
    TIMES,
    Field,
    Token,
    parse_layout,
)
from elf.agents.sources.prefilter import Prefilter

_METHOD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PROTOCOL = r"HTTP/[0-9](?:\.[0-9])?"
_REQUEST_STRICT = f"^({_METHOD}) ([^ ]+) ({_PROTOCOL})$"
_REQUEST_EXACT = f"^({_METHOD}) (.+) ({_PROTOCOL})$"
_FROM_REQUEST = ("method", "uri", "path", "query", "protocol", "request_malformed")


#: Bytes of lines that are taken apart at a time.
_BLOCK_BYTES = 6 << 20

#: The formats that are asked for by name.
NAMED = {"combined": COMBINED, "common": COMMON}


class AccessLog:
    """A format with a fixed layout of literals and fields."""

    def __init__(self, name: str, text: str) -> None:
        """Compile the format `text`, which the configuration called `name`.

        Raises:
            ConfigError: the text is no usable format.
        """
        self.name = name
        self._tokens = parse_layout(text)
        self._patterns = Patterns(self._tokens)
        self._fields = _columns(self._tokens)
        self.columns: Mapping[str, SqlType] = _schema(self._fields)

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = ()) -> Kept:
        """Keep the lines that some job may want; see `elf.agents.sources.format.Format`."""
        prefilter = Prefilter(literals, escape=None)  # values are as logged
        return prefilter.keep(clean(chunk, prefilter.word))

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`."""
        rejects, oddities = Rejects(), lines.oddities
        parts = []
        for block in _blocks(lines):
            events, bad_encoding = self._block(block, wanted, rejects)
            parts.append(events)
            oddities += Oddities(bad_encoding=bad_encoding)
        if lines.huge:
            huge = pl.Series("raw", [line.decode() for line in lines.huge], dtype=pl.String)
            fronts = extract(huge, self._patterns.front, self._patterns.front)
            parts.append(self._events(huge, fronts, wanted, rejects))
        events = parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=True)
        counters = Counters(lines.count + lines.filtered, events.height, rejects.count, lines.filtered)
        return Parsed(events, counters, rejects.sample(), oddities)

    def _block(self, block: bytes, wanted: Mapping[str, SqlType], rejects: Rejects) -> tuple[pl.DataFrame, int]:
        """Make events of some lines; also returns how many had invalid UTF-8. All that it makes besides is let go."""
        raw, bad_encoding = split(block)
        fields = extract(raw, self._patterns.strict, self._patterns.exact)
        return self._events(raw, fields, wanted, rejects), bad_encoding

    def _events(
        self, raw: pl.Series, fields: pl.DataFrame, wanted: Mapping[str, SqlType], rejects: Rejects
    ) -> pl.DataFrame:
        """Make events of the fields of some lines; lines that are none are rejected."""
        fields.columns = self._fields
        fields = fields.select(self._needed(wanted))
        events = _events(fields, wanted)
        good = events["ts"].is_not_null()
        if good.all():
            return events
        _reject(raw.filter(~good), fields.filter(~good), rejects)
        return events.filter(good)

    def _needed(self, wanted: Mapping[str, SqlType]) -> list[str]:
        """Name the fields of the line that the wanted columns are made from."""
        sources = set(wanted) | {"request" for name in wanted if name in _FROM_REQUEST}
        sources |= {"uri" for name in wanted if name in ("path", "query")}
        return [field for field in self._fields if field in sources or field in TIMES]


def _blocks(lines: Kept) -> Iterator[bytes]:
    """Yield lines in blocks, at least one: what is made of one on the way to events is several times its size."""
    if not len(lines.ends):
        yield b""
        return
    for begin, end in itertools.pairwise(bounds(lines.ends, _BLOCK_BYTES).tolist()):
        yield lines.data[begin:end]


def _columns(tokens: Sequence[Token]) -> list[str]:
    """Name the groups of the pattern; skipped fields get names that no column can have."""
    fields = [token for token in tokens if isinstance(token, Field)]
    return [field.column or f"{SKIPPED} {index}" for index, field in enumerate(fields)]


def _schema(fields: Sequence[str]) -> dict[str, SqlType]:
    """List the columns of a layout with those derived from the request."""
    schema = {name: Field(name).kind for name in fields if name not in TIMES and not name.startswith(" ")}
    if "request" in schema:
        schema |= {name: SqlType.STRING for name in _FROM_REQUEST} | {"request_malformed": SqlType.BOOLEAN}
    elif "uri" in schema:
        schema |= {name: SqlType.STRING for name in ("path", "query")}
    return schema


def _events(frame: pl.DataFrame, wanted: Mapping[str, SqlType]) -> pl.DataFrame:
    """Type the fields, derive the columns made from the request, and put the event time first."""
    if "request" in frame.columns and any(name in _FROM_REQUEST for name in wanted):
        parts = extract(frame["request"], _REQUEST_STRICT, _REQUEST_EXACT)
        parts.columns = ["method", "uri", "protocol"]
        frame = frame.with_columns(*parts, parts["method"].is_null().alias("request_malformed"))
    if "uri" in frame.columns and ("path" in wanted or "query" in wanted):
        halves = pl.col("uri").str.splitn("?", 2)
        frame = frame.with_columns(halves.struct.field("field_0").alias("path"))
        if "query" not in frame.columns:
            frame = frame.with_columns(halves.struct.field("field_1").alias("query"))
    return frame.select(
        _event_time(frame), *(_typed(frame, name, kind) for name, kind in wanted.items() if name != "ts")
    )


def _typed(frame: pl.DataFrame, name: str, kind: SqlType) -> pl.Expr:
    """Make one column of its type; "-" is null, as a byte count 0."""
    if name not in frame.columns:
        return pl.lit(None, dtype=kind.dtype).alias(name)
    column = pl.col(name)
    if name == "request_malformed":
        return column
    column = column.replace("-", "0") if name == "bytes" else pl.when(column != "-").then(column).alias(name)
    return column.cast(kind.dtype, strict=False) if kind is not SqlType.STRING else column


def _event_time(frame: pl.DataFrame) -> pl.Series:
    """Make the event time from whichever notation the layout has; null where it is no time."""
    column = next(name for name in TIMES if name in frame.columns)
    texts = frame[column].fill_null("").to_list()
    if column == TIME_LOCAL:
        times = event_time.web_server(texts)
    elif column == TIME_ISO:
        times = event_time.iso(texts)
    else:
        times = event_time.epoch(frame[column].cast(pl.Float64, strict=False).to_list())
    return pl.Series("ts", times).set(pl.Series(times == event_time.NONE), None).cast(pl.Datetime("ms"))


def _reject(raw: pl.Series, fields: pl.DataFrame, rejects: Rejects) -> None:
    """Count the lines that are no events: those that do not fit the layout, and those without a valid time."""
    kept = raw.head(rejects.room).to_list()
    for line, fits in zip(kept, fields.select(pl.any_horizontal(pl.all().is_not_null())).to_series(), strict=False):
        rejects.add(line.encode(), "time" if fits else "format")
    rejects.add_count(raw.len() - len(kept))
