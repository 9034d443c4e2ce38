"""JSON lines to frames: one object a line, read where it lies, every byte of it checked.

Rules for values: an absent field or JSON null is null; in a STRING column other values keep their JSON text; a quoted
number fits a number column, and a whole one an integer column however it is written (`2.0`, `2e3`; with a point or an
exponent it is a double: exact up to 2^52); a value that does not fit its type is null, counted by column in
`oddities.mistyped`, and the event is kept. Of duplicate names the last counts. A line that is no object is rejected
with the byte at which it stops to be one, a line without valid time with the reason `time`. Invalid UTF-8 is repaired
and counted. Columns are paths (`elf.agents.language.paths`). LINES section 6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import event_time
from elf.agents.sources.counters import Counters, Oddities, Parsed, Rejects
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import Ends, clean
from elf.agents.sources.objects.frames import Block, ObjectReader, TimesOf, Wanted
from elf.agents.sources.objects.named import OBJECTS
from elf.agents.sources.objects.reading import reason
from elf.agents.sources.objects.values import scalar
from elf.agents.sources.prefilter import Prefilter, json_escape
from elf.agents.sources.times.notations import NO_TIME

#: Bytes of lines that are read at a time: what is made of them stays near the processor.
_BLOCK_BYTES = 4 << 20
JSON = "json"
#: The reason of lines that are objects of another format, with the column that they lack behind it.
NO_COLUMN = "format:no_"


def iso_times(values: Sequence[object]) -> npt.NDArray[np.int64]:
    """Read ISO-8601 texts and epoch numbers only."""
    return event_time.from_values(values)[0]


class JsonLines:
    """The format `json`: one JSON object a line; event time in the field `time`.

    Args:
        time: the field, or a path to it.
        times_of: reads values that are not in the usual notations, as `elf.agents.sources.times.values.event_times`.
        name: of the format, if it has another one: it declares time and columns.
        unwrap: the path to texts that are objects, into which longer paths lead; empty: there are none.
    """

    derives_all = False
    carrier = None

    def __init__(self, time: str = "ts", times_of: TimesOf = iso_times, name: str = JSON, unwrap: str = "") -> None:
        objects = OBJECTS.get(name)
        self.name = name
        self.time = time if objects is None else objects.time
        self.columns: Mapping[str, SqlType] | None = None if objects is None else objects.columns
        self.addresses: Collection[str] = () if objects is None else objects.addresses
        self.unwrap = unwrap
        self._times_of = times_of

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines that some job may want; see `elf.agents.sources.format.Format`."""
        nested = bool(self.unwrap)
        prefilter = Prefilter(literals, json_escape(chunk, literals, nested=nested))
        lines = clean(chunk, prefilter.word)
        if lines.data is not chunk:  # a NUL may have stood in an escape; no word was found then
            prefilter = Prefilter(literals, json_escape(lines.data, literals, nested=nested))
        return prefilter.keep(lines)

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`.

        If there are `numbers`, those of the lines that are events go there.
        """
        rejects, parts, lines, first = Rejects(), [], lines.repaired(), 0
        mistyped: dict[str, list[npt.NDArray[np.int64]]] = {}
        for line in lines.huge:
            rejects.add(line, "line_too_long")
        columns = tuple((name, kind) for name, kind in wanted.items() if name != "ts")
        reader = _reader(self.name, self.time, self.unwrap, columns)
        for begin, ends in lines.parts(_BLOCK_BYTES):
            found = reader.read(lines.data, begin, ends, self._times_of)
            parts.append(self._events(lines.data, begin, ends, found, rejects))
            if numbers is not None:
                are_objects = np.delete(np.arange(first, first + len(ends)), found.misfits[:, 0])
                numbers.append(are_objects[_are_events(found)])
            first += len(ends)
            for name, rows in found.mistyped.items():
                times = found.times[rows]
                mistyped.setdefault(name, []).append(times[(times != NO_TIME) & (found.lacking[rows] < 0)])
        all_times = {name: np.concatenate(times) for name, times in mistyped.items()}
        all_mistyped = {name: times for name, times in all_times.items() if len(times)}
        events = parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=True)
        return Parsed(
            events=events,
            counters=Counters(lines.count + lines.filtered, events.height, rejects.count, lines.filtered),
            rejects=rejects.sample(),
            oddities=lines.oddities + Oddities(mistyped={name: len(times) for name, times in all_mistyped.items()}),
            mistyped=all_mistyped,
        )

    def is_time(self, value: bytes) -> bool:
        """Whether a value, as JSON has it, is an event time."""
        values = [scalar(value)]
        return bool(event_time.from_values(values)[1][0]) or bool(self._times_of(values)[0] != NO_TIME)

    def _events(self, data: bytes, begin: int, ends: Ends, found: Block, rejects: Rejects) -> pl.DataFrame:
        """Make events of some lines; lines that are none are rejected."""
        events = pl.DataFrame([pl.Series("ts", found.times).cast(pl.Datetime("ms")), *found.columns])
        are_events = _are_events(found)
        if len(found.misfits) or not are_events.all():
            self._reject(data, begin, ends, found, are_events, rejects)
            events = events.filter(pl.Series(are_events))
        return events

    def _reject(
        self,
        data: bytes,
        begin: int,
        ends: Ends,
        found: Block,
        are_events: npt.NDArray[np.bool_],
        rejects: Rejects,
    ) -> None:
        """Count the lines that are no objects, lack something or have no valid time; keep the first of them."""
        objects = np.delete(np.arange(len(ends)), found.misfits[:, 0])[~are_events]
        count, room = len(found.misfits) + len(objects), rejects.room
        lacking = found.lacking[~are_events][:room].tolist()
        requires = OBJECTS[self.name].requires if self.name in OBJECTS else ()
        reasons = {
            number: "time" if lacks < 0 else f"{NO_COLUMN}{requires[lacks]}"
            for number, lacks in zip(objects[:room].tolist(), lacking, strict=True)
        }
        reasons |= {number: reason(why, at) for number, why, at in found.misfits[:room].tolist()}
        kept = sorted(reasons)[:room]
        for number in kept:
            rejects.add(data[int(ends[number - 1]) + 1 if number else begin : int(ends[number])], reasons[number])
        rejects.add_count(count - len(kept))


def _are_events(found: Block) -> npt.NDArray[np.bool_]:
    """Tell of lines that are objects which have a time, and what they have to have."""
    has_time: npt.NDArray[np.bool_] = found.times != NO_TIME
    return has_time & (found.lacking < 0)


@lru_cache(maxsize=64)
def _reader(name: str, time: str, unwrap: str, wanted: tuple[tuple[str, SqlType], ...]) -> ObjectReader:
    """Compile a set of columns once, not once a chunk."""
    return ObjectReader(Wanted(time, dict(wanted), OBJECTS.get(name), unwrap))
