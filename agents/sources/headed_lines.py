"""The formats whose header lines say what the rows behind them are made of: W3C's, and CSV.

A header is compiled to a layout, which reads its rows as it does the lines of other formats; a row that no header
comes before is rejected (`no_header`), and so are those behind a header that lacks what an event needs (`header`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import numpy as np

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.blocks import whole
from elf.agents.sources.carried import Carrier
from elf.agents.sources.counters import Parsed, Rejects
from elf.agents.sources.headed.heading import Heading
from elf.agents.sources.kept import Kept, Section, joined
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.layouts.layout import Field, Layout
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.lines import Ends, Lines, clean, line_ends
from elf.agents.sources.prefilter import Prefilter

#: Headers whose layouts are remembered; logs have one, or a few.
_HEADERS_MAX = 64


class HeadedLines:
    """A format with headers; see `elf.agents.sources.format.Format`.

    Args:
        name: what the configuration calls it.
        heading: what its headers are.
        read_by: makes what reads rows of layouts; raises ConfigError if nothing can.
    """

    derives_all = False

    def __init__(self, name: str, heading: Heading, read_by: Callable[[str, Sequence[Layout]], LayoutLines]) -> None:
        self.name = name
        self._heading = heading
        self._read_by = read_by
        self._readers: dict[bytes, LayoutLines | str] = {}

    @property
    def columns(self) -> Mapping[str, SqlType] | None:
        """Every column but `ts`; None if the headers name what they like."""
        return self._heading.columns

    @property
    def addresses(self) -> Collection[str]:
        """The columns that hold addresses."""
        return self._heading.addresses

    @property
    def carrier(self) -> Carrier:
        """What knows which lines others need."""
        return self._heading

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the rows that some job may want; see `elf.agents.sources.format.Format`."""
        # Values may hold newlines, and the pre-filter looks for none.
        texts = [[max(word.split("\n"), key=len) for word in words] for words in literals]
        prefilter = Prefilter(texts, self._heading.escape)
        before, begun = self._heading.parted(carried)
        header, whole = _clean_line(before), b"".join([*begun, chunk]) if begun else chunk
        parts: list[Kept] = []
        for begin, end in self._heading.pieces(whole):
            header = self._keep(whole[begin:end], header, prefilter, not chunk or end < len(whole), parts)
        return joined(parts)

    def _keep(self, piece: bytes, header: bytes, prefilter: Prefilter, is_over: bool, parts: list[Kept]) -> bytes:
        """Keep the rows of a piece, of which the first are below a header; return the header behind them."""
        lines = clean(piece, prefilter.word)
        laid = self._heading.laid_out(lines.data, lines.ends, header, is_over=is_over)
        numbers, rest = laid.headers, 0
        if laid.lasts is not None:
            numbers = np.searchsorted(laid.lasts, numbers).tolist()
            rest = laid.begun - len(laid.lasts)
            end = int(lines.ends[laid.begun - 1]) + 1 if laid.begun else 0
            lines = msgspec.structs.replace(lines, data=lines.data[:end], ends=lines.ends[laid.lasts], having=None)
        if not numbers:
            parts.append(msgspec.structs.replace(_below(header, prefilter.keep(lines)), rests=rest))
            return header
        none = lines.ends[:0]
        parts.append(Kept(b"", none, lines.huge, oddities=lines.oddities, headers=len(numbers), rests=rest))
        begin = 0
        for number in [*numbers, len(lines.ends)]:
            if number > begin:
                parts.append(_below(header, prefilter.keep(_rows(lines, begin, number))))
            if number < len(lines.ends):
                line = _line(lines, number)
                header = line if self._heading.names_columns(line) else header
            begin = number + 1
        return header

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        """Parse rows into `ts` and the wanted columns; see `elf.agents.sources.format.Format`."""
        rejects, parts, begin = Rejects(lines.latest_ms), list[Parsed](), 0
        sections = lines.sections or (Section(b"", len(lines.ends)),)
        for section in sections:
            own = _rows(Lines(lines.data, lines.ends), begin, begin + section.lines)
            begin += section.lines
            kept, reader = Kept(own.data, own.ends, latest_ms=lines.latest_ms), self._reader(section.header)
            if isinstance(reader, LayoutLines):
                parts.append(reader.parse(kept, wanted))
                counted = parts[-1].counters
                rejects.add_all(parts[-1].rejects, counted.rejected, counted.ahead)
            else:
                first = [(_line(own, number), reader) for number in range(min(kept.count, rejects.room))]
                rejects.add_all(first, kept.count)
        return whole(lines, parts, wanted, rejects)

    def names_in(self, sample: bytes) -> Sequence[str]:
        """Return the names of all columns that the headers in some lines name, each once."""
        lines = clean(sample)
        laid = self._heading.laid_out(lines.data, lines.ends, b"", is_over=True)
        headers = [_line(lines, number) for number in laid.headers]
        readers = [reader for header in headers if isinstance(reader := self._reader(header), LayoutLines)]
        return list(dict.fromkeys(name for reader in readers for name in reader.columns))

    def row(self, line: bytes, carried: Sequence[bytes]) -> bytes:
        """Return a row, given its last line and what that needs."""
        return b"".join([*self._heading.parted(carried)[1], line])

    def taken_apart(self, line: bytes, carried: Sequence[bytes] = ()) -> list[tuple[Field, int, int]]:
        """Return the columns of a row that fits, and where each value is; see `LayoutLines.taken_apart`."""
        reader = self._reader(self._header_of(carried))
        return reader.taken_apart(line) if isinstance(reader, LayoutLines) else []

    def misfit(self, line: bytes, carried: Sequence[bytes] = ()) -> Misfit | None:
        """Say where a row stops to fit its header; None if it does not, or is a header itself."""
        header = self._header_of(carried)
        data = line + b"\n"
        if self._heading.laid_out(data, line_ends(data), header, is_over=True).headers:
            return None
        reader = self._reader(header)
        if isinstance(reader, LayoutLines):
            return reader.misfit(line)
        return Misfit(0, "header", self.fault(header))

    def fault(self, header: bytes) -> str:
        """Say what is wrong with a header, for people; empty if nothing is."""
        if not header:
            return "a header before it, which names the columns"
        try:
            self._read_by(self.name, self._heading.layouts(header))
        except ConfigError as error:
            return str(error)
        return ""

    def _header_of(self, carried: Sequence[bytes]) -> bytes:
        """Return the header that lines are read by, as it is once it is clean."""
        return _clean_line(self._heading.parted(carried)[0])

    def _reader(self, header: bytes) -> LayoutLines | str:
        """Return what reads the rows below a header, or why nothing does."""
        if not header:
            return "no_header"
        reader = self._readers.get(header)
        if reader is None:
            try:
                reader = self._read_by(self.name, self._heading.layouts(header))
            except ConfigError:
                reader = "header"
            while len(self._readers) >= _HEADERS_MAX:
                del self._readers[next(iter(self._readers))]
            self._readers[header] = reader
        return reader


def _clean_line(line: bytes) -> bytes:
    lines = clean(line)
    # One that is too long for a line names nothing.
    return _line(lines, 0) if len(lines.ends) else b""


def _below(header: bytes, kept: Kept) -> Kept:
    return msgspec.structs.replace(kept, sections=(Section(header, len(kept.ends)),))


def _rows(lines: Lines, first: int, until: int) -> Lines:
    """Return some of the lines, apart from the huge ones."""
    if first == 0 and until == len(lines.ends):
        return Lines(lines.data, lines.ends)
    begin = int(lines.ends[first - 1]) + 1 if first else 0
    end = int(lines.ends[until - 1]) + 1 if until else 0
    ends: Ends = lines.ends[first:until] - begin
    return Lines(lines.data[begin:end], ends)


def _line(lines: Lines, number: int) -> bytes:
    return _rows(lines, number, number + 1).data.removesuffix(b"\n")
