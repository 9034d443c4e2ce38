"""Chunks of a source's logs made into events, as many together as are worth it.

To parse a few lines, and to filter, map and insert their events, costs nearly what thousands cost, and of a busy log
most jobs want few lines. So what the pre-filter keeps waits for more of it, and events wait for each other, while more
is read at once. A chunk is let go before the next one is read: memory that was just used is the fastest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import polars as pl

from elf.agents.language.instants import LATEST_MS
from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Parsed
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.format import Format
from elf.agents.sources.kept import Kept, joined
from elf.agents.sources.raw_texts import stacked
from elf.agents.worker.poison import keep_whatever, parse_whatever

#: A log's lines are parsed once they are this part of the most that is read at a time, ...
_PARSED_PART = 1 / 4
#: ... and all are enough once they are nearly twice as much as that, or however few when so many bytes were read:
#: nothing else is done for the source meanwhile.
_ENOUGH_PARTS, _READ_BYTES_MAX = 7 / 4, 64 << 20


class Gathered(NamedTuple):
    """What the lines of a log are.

    Attributes:
        log: the log.
        ways: what they are parsed to by each way to parse them, in the ways' order; at least one part each, the parts
            following each other.
    """

    log: str
    ways: Sequence[Sequence[Parsed]]


class Gathering:
    """Lines of a source's logs, until there are enough.

    Args:
        format: theirs.
        literals: as for `Format.keep`.
        ways: columns that lines are parsed to, of each way to parse them.
        chunk_bytes: the most that is read at a time.
        redacted: as for `keep_whatever`.
        latest_ms: lines with a later event time are rejected; None: none is.
        dictionaries: as for `Kept`.
    """

    def __init__(
        self,
        format: Format,
        literals: Sequence[Sequence[str]],
        ways: Sequence[Mapping[str, SqlType]],
        chunk_bytes: int,
        redacted: Callable[[str], str] = str,
        latest_ms: int | None = None,
        dictionaries: Dictionaries | None = None,
    ) -> None:
        self._format = format
        self._literals = literals
        self._ways = ways
        self._redacted = redacted
        self._latest_ms = LATEST_MS if latest_ms is None else latest_ms
        self._dictionaries = dictionaries
        self._chunk_bytes = chunk_bytes
        self._logs: dict[str, _Lines] = {}
        self._kept_bytes = self._read_bytes = 0

    def add(self, log: str, chunk: bytes, carried: Sequence[bytes] = ()) -> None:
        """Take the next whole lines of a log; if there are none, nothing follows what is carried.

        `carried` is as for `Format.keep`.
        """
        lines = self._logs.setdefault(log, _Lines(len(self._ways)))
        for part in keep_whatever(self._format, chunk, self._literals, self._redacted, carried):
            lines.kept.append(part)
            lines.kept_bytes += part.memory_bytes
            self._kept_bytes += part.memory_bytes
        self._read_bytes += len(chunk)
        if lines.kept_bytes >= self._chunk_bytes * _PARSED_PART:
            self._parse(lines)

    @property
    def is_enough(self) -> bool:
        """Whether it is time to take them."""
        # Each way makes events of all of them.
        held_bytes = self._kept_bytes * len(self._ways)
        return held_bytes >= self._chunk_bytes * _ENOUGH_PARTS or self._read_bytes >= _READ_BYTES_MAX

    def take(self) -> list[Gathered]:
        """Return what there is, log by log, and begin anew."""
        logs = self._logs
        self._logs = {}
        self._kept_bytes = 0
        self._read_bytes = 0
        for lines in logs.values():
            if lines.kept:
                self._parse(lines)
        return [Gathered(log, lines.parsed) for log, lines in logs.items()]

    def _parse(self, lines: _Lines) -> None:
        kept = msgspec.structs.replace(joined(lines.kept), latest_ms=self._latest_ms, dictionaries=self._dictionaries)
        lines.kept = []
        lines.kept_bytes = 0
        for columns, parsed in zip(self._ways, lines.parsed, strict=True):
            parsed.extend(parse_whatever(self._format, kept, columns, self._redacted))


class _Lines:
    """Of one log: lines that wait to be parsed, and what those before them are, by each way."""

    def __init__(self, ways: int) -> None:
        self.kept: list[Kept] = []
        self.kept_bytes = 0
        self.parsed: list[list[Parsed]] = [[] for _ in range(ways)]


def events_of(parts: Sequence[Parsed]) -> pl.DataFrame:
    """Put the events of parts that follow each other together."""
    return parts[0].events if len(parts) == 1 else stacked([part.events for part in parts])
