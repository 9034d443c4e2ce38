"""Lines that stand in lines of a wrapper, which may have cut them into parts: `docker+combined`, `cri+json`.

The columns around a line are those of its last part; its event time counts, the wrapper's only where nothing is known
of what stands in it. Parts that others come behind are counted apart (`parts`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import polars as pl

from elf.agents.language.instants import LATEST_MS
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrier
from elf.agents.sources.counters import Counters, Mistyped, Oddities, Parsed, Rejects
from elf.agents.sources.kept import Kept
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.layouts.layout import TIME
from elf.agents.sources.lines import LINE_BYTES_MAX, Ends, clean
from elf.agents.sources.raw_texts import UnfitValues, raw_column, raw_name
from elf.agents.sources.typed_texts import of_type
from elf.agents.sources.wrapped.records import PARTS_MAX, Records, join_parts
from elf.agents.sources.wrapped.wrappers import MESSAGE, STREAM, Unwrapped, Wrapper


class Inner(Protocol):
    """A format whose lines stand in others; see `elf.agents.sources.format.Format`."""

    @property
    def columns(self) -> Mapping[str, SqlType] | None:
        """Every column of a fixed schema without `ts`, or None."""

    @property
    def addresses(self) -> Collection[str]:
        """The columns that are known to hold addresses."""

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines; the numbers of those that are events go to `numbers`."""


class WrappedLines:
    """A format in a wrapper, or the wrapper alone; see `elf.agents.sources.format.Format`.

    Args:
        name: what the configuration calls it.
        wrapper: what lines stand in.
        inner: what they are; None: texts.
        direct: reads lines with what they stand in at once, where none is cut into parts.
    """

    derives_all = False

    def __init__(self, name: str, wrapper: Wrapper, inner: Inner | None, direct: LayoutLines | None = None) -> None:
        self.name = name
        self.wrapper = wrapper
        self.inner = inner
        self._direct = direct

    @property
    def columns(self) -> Mapping[str, SqlType] | None:
        """Every column but `ts`; None if the lines in the wrapper name theirs."""
        if self.inner is None:
            return {**self.wrapper.columns, MESSAGE: SqlType.STRING}
        return None if self.inner.columns is None else {**self.inner.columns, **self.wrapper.columns}

    @property
    def addresses(self) -> Collection[str]:
        """The columns that hold addresses."""
        return () if self.inner is None else self.inner.addresses

    @property
    def carrier(self) -> Carrier | None:
        """What knows which lines have begun a record."""
        return self.wrapper.carrier

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines of whole records; see `elf.agents.sources.format.Format`.

        What a job looks for may be escaped, or stand in two parts: then none is filtered.
        """
        whole = b"".join([*carried, chunk]) if carried else chunk
        if self._direct is not None and not self.wrapper.has_parts(whole):
            return self._direct.keep(whole, literals)
        carrier = self.wrapper.carrier if chunk else None  # or those that have begun are all that comes
        begun = carrier.behind((), whole, 0) if carrier is not None else ()
        pieces, at = [], 0
        for each in begun:
            pieces.append(whole[at : each.at])
            at = each.at + len(each.line)
        lines = clean(b"".join([*pieces, whole[at:]]) if begun else whole)
        return Kept(lines.data, lines.ends, lines.huge, oddities=lines.oddities)

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`."""
        if self._direct is not None and not self.wrapper.has_parts(lines.data):
            return self._direct.parse(lines, wanted)
        # The wrapper's times count only where nothing is known of what stands in it.
        around_ms = lines.latest_ms if self.inner is None else LATEST_MS
        unwrapped = self.wrapper.unwrap(msgspec.structs.replace(lines, latest_ms=around_ms))
        rejects = Rejects(lines.latest_ms)
        counted = unwrapped.parsed.counters
        rejects.add_all(unwrapped.parsed.rejects, counted.rejected, counted.ahead)
        rejects.add_all([(line, f"format:{MESSAGE}@0") for line in unwrapped.rejected], len(unwrapped.rejected))
        records = self._records(unwrapped, rejects)
        around = unwrapped.parsed.events[records.last]
        events, oddities, mistyped = self._events(records.texts, around, wanted, rejects)
        parts = int((records.sizes - 1).sum()) + lines.rests
        counters = Counters(lines.read, events.height, rejects.count, lines.filtered, parts=parts, ahead=rejects.ahead)
        oddities += lines.oddities + Oddities(bad_encoding=unwrapped.parsed.oddities.bad_encoding)
        return Parsed(events, counters, rejects.sample(), oddities, mistyped)

    def names_in(self, sample: bytes) -> Sequence[str]:
        """Return the names of the columns around lines."""
        return list(self.wrapper.columns)

    def texts_in(self, sample: bytes) -> bytes:
        """Return the lines that stand in some lines, as lines of their own."""
        lines = clean(sample)
        unwrapped = self.wrapper.unwrap(Kept(lines.data, lines.ends))
        return _block(self._records(unwrapped, Rejects()).texts)[0]

    def fields_of(self, line: bytes) -> dict[str, object]:
        """Return what is around the text of a line, and the text."""
        unwrapped = self.wrapper.unwrap(self.keep(line))
        row = unwrapped.parsed.events.row(0, named=True)
        around = {name: row[name] for name in self.wrapper.columns if row[name] is not None}
        return {**around, MESSAGE: unwrapped.texts[0]}

    def _records(self, unwrapped: Unwrapped, rejects: Rejects) -> Records:
        """Put parts together; what is no record is rejected, a line for each part."""
        texts = unwrapped.texts
        if unwrapped.is_end is None or unwrapped.is_end.all():
            rows = np.arange(texts.len())
            records = Records(texts, rows, np.ones(len(rows), np.int64), np.ones(len(rows), np.bool_))
        else:
            records = join_parts(texts, unwrapped.parsed.events[STREAM], unwrapped.is_end)
        is_short = (records.texts.str.len_bytes() <= LINE_BYTES_MAX).to_numpy() & (records.sizes <= PARTS_MAX)
        has_end = records.is_whole | self.wrapper.ends_itself
        # A text alone may have several lines.
        is_line = ~records.texts.str.contains("\n", literal=True).to_numpy() | (self.inner is None)
        fits = is_short & has_end & is_line
        if fits.all():
            return records
        for row in np.flatnonzero(~fits).tolist():
            why = "line_too_long" if not is_short[row] else "newline" if has_end[row] else "part"
            text = (records.texts[row] or "").encode()
            rejects.add_all([(text[:_REJECT_BYTES], why)], int(records.sizes[row]))
        chosen = np.flatnonzero(fits)
        return Records(records.texts.gather(chosen), records.last[chosen], records.sizes[chosen], fits[chosen])

    def _events(
        self, texts: pl.Series, around: pl.DataFrame, wanted: Mapping[str, SqlType], rejects: Rejects
    ) -> tuple[pl.DataFrame, Oddities, Mistyped]:
        """Make events of texts and of what is around them."""
        own = {name: kind for name, kind in wanted.items() if name in self.wrapper.columns}
        if self.inner is None:
            texts = texts.set(texts.is_in(("", "-")), None) if self.wrapper.has_nulls else texts
            typed = {name: _typed(name, kind, around, texts) for name, kind in wanted.items() if name != TIME}
            events = pl.DataFrame([around[TIME], *(each.column for each in typed.values())])
            return _with_unfit(events, typed, Oddities(), {})
        data, ends = _block(texts)
        numbers: list[Ends] = []
        parsed = self.inner.parse(Kept(data, ends, latest_ms=rejects.latest_ms), wanted, numbers)
        rejects.add_all(parsed.rejects, parsed.counters.rejected, parsed.counters.ahead)
        events = parsed.events
        if own:
            rows = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
            outer = around[rows]
            typed = {name: _typed(name, kind, outer, texts) for name, kind in own.items()}
            columns = (each.column for each in typed.values())
            events = events.with_columns(each.zip_with(each.is_not_null(), events[each.name]) for each in columns)
            return _with_unfit(events, typed, parsed.oddities, parsed.mistyped)
        return events, parsed.oddities, parsed.mistyped


#: Of a rejected record so much is looked at.
_REJECT_BYTES = 4096


class _Column(NamedTuple):
    """A column in a type, and what of it does not fit that."""

    column: pl.Series
    unfit: UnfitValues


def _typed(name: str, kind: SqlType, around: pl.DataFrame, texts: pl.Series) -> _Column:
    """Return a column around texts, or the texts, in a type."""
    if name != MESSAGE and name not in around.columns:
        none = pl.Series(name, [None], dtype=kind.dtype).new_from_index(0, around.height)
        return _Column(none, UnfitValues(np.empty(0, np.intp), None))
    column = texts.alias(name) if name == MESSAGE else around[name]
    if column.dtype == pl.String:
        typed, unfit = of_type(column, kind)
    else:
        typed = column.cast(kind.dtype, strict=False)
        unfit = (typed.is_null() & column.is_not_null()).to_numpy()
    rows = np.flatnonzero(unfit)
    return _Column(typed, UnfitValues(rows, column.gather(rows).cast(pl.String)))


def _with_unfit(
    events: pl.DataFrame, typed: Mapping[str, _Column], oddities: Oddities, mistyped: Mistyped
) -> tuple[pl.DataFrame, Oddities, Mistyped]:
    """Add to events, and to what is known of them, which values around lines do not fit their types."""
    unfit = {name: each.unfit for name, each in typed.items() if len(each.unfit.rows)}
    if not unfit:
        return events, oddities, mistyped
    times = events[TIME].cast(pl.Int64).to_numpy()
    raw = [raw_column(name, events.height, each) for name, each in unfit.items() if raw_name(name) not in typed]
    counted = Oddities(mistyped={name: len(each.rows) for name, each in unfit.items()})
    found = {name: np.concatenate([mistyped.get(name, times[:0]), times[each.rows]]) for name, each in unfit.items()}
    return events.with_columns(raw), oddities + counted, {**mistyped, **found}


def _block(texts: pl.Series) -> tuple[bytes, Ends]:
    """Return texts as lines, and where each ends."""
    if not texts.len():
        return b"", np.empty(0, np.int64)
    ends = np.cumsum(texts.str.len_bytes().to_numpy().astype(np.int64) + 1) - 1
    return str(texts.str.join("\n")[0]).encode() + b"\n", ends
