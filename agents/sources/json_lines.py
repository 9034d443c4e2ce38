"""JSON lines to frames: one object a line, read where it lies, every byte of it checked.

Rules for values: an absent field or JSON null is null; in a STRING column other values keep their JSON text; a quoted
number fits a number column, and a whole one an integer column however it is written (`2.0`, `2e3`), by all of its
digits; a value that does not fit its type is null, counted by column in `oddities.mistyped`, and the event is kept. Of
duplicate names the last counts. A line that is no object is rejected with the byte at which it stops to be one, a line
without valid time with the reason `time`. Invalid UTF-8 is repaired and counted. Columns are paths
(`elf.agents.language.paths`). LINES section 6.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from elf.agents.language.types import SqlType
from elf.agents.sources import event_time
from elf.agents.sources.blocks import Found, block_events, timely, whole
from elf.agents.sources.counters import Parsed, Rejects
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import Ends
from elf.agents.sources.objects.frames import ObjectReader, TimesOf, Wanted
from elf.agents.sources.objects.line import reason
from elf.agents.sources.objects.named import OBJECTS
from elf.agents.sources.objects.values import scalar
from elf.agents.sources.prefilter import keep_escaped
from elf.agents.sources.times.notations import NO_TIME

#: Bytes of lines that are read at a time: what is made of them stays near the processor.
_BLOCK_BYTES = 4 << 20
JSON = "json"
#: The reason of lines that are objects of another format, with the column that they lack behind it.
NO_COLUMN = "format:no_"
#: What is said of lines that are none of this format, before the option that would say what they are.
NO_OBJECTS = "these lines are no JSON objects; say what they are with"


def iso_times(values: Sequence[object]) -> npt.NDArray[np.int64]:
    """Read ISO-8601 texts and epoch numbers only."""
    return event_time.of_events(values)


class JsonLines:
    """The format `json`: one JSON object a line; event time in the field `time`.

    Args:
        time: the field, or a path to it.
        times_of: reads values that are not in the usual notations, as `elf.agents.sources.times.values.event_times`.
        name: of the format, if it has another one: it declares time and columns.
        unwrap: the path to texts that are objects, into which longer paths lead; empty: there are none.
        zone: of times that do not say theirs, to `times_of`, too; None: UTC.
    """

    derives_all = False
    carrier = None

    def __init__(
        self,
        time: str = "ts",
        times_of: TimesOf = iso_times,
        name: str = JSON,
        unwrap: str = "",
        *,
        zone: zoneinfo.ZoneInfo | None = None,
    ) -> None:
        objects = OBJECTS.get(name)
        self.name = name
        self.time = time if objects is None else objects.time
        self.columns: Mapping[str, SqlType] | None = None if objects is None else objects.columns
        self.addresses: Collection[str] = () if objects is None else objects.addresses
        self.unwrap = unwrap
        self._times_of = times_of
        self._zone = zone

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines that some job may want; see `elf.agents.sources.format.Format`."""
        return keep_escaped(chunk, literals, nested=bool(self.unwrap))

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines into `ts` and the wanted columns; see `elf.agents.sources.format.Format`.

        If there are `numbers`, those of the lines that are events go there.
        """
        rejects, parts, lines, first = Rejects(lines.latest_ms), list[Parsed](), lines.repaired(), 0
        columns = tuple((name, kind) for name, kind in wanted.items() if name != "ts")
        reader = _reader(self.name, self.time, self.unwrap, columns)
        for begin, ends in lines.parts(_BLOCK_BYTES):
            read = reader.read(
                lines.data, begin, ends, self._times_of, zone=self._zone, dictionaries=lines.dictionaries
            )
            are_events = timely(read.times, rejects) & (read.lacking < 0)
            found = Found(lines.data, begin, ends, read.misfits, read.times, are_events, read.columns, read.mistyped)
            parts.append(block_events(found, rejects, _why, partial(self._why_none, read.lacking)))
            if numbers is not None:
                numbers.append(found.fitting[are_events] + first)
            first += len(ends)
        return whole(lines, parts, wanted, rejects)

    def is_time(self, value: bytes) -> bool:
        """Whether a value, as JSON has it, is an event time."""
        values = [scalar(value)]
        return bool(event_time.of_events(values)[0] != NO_TIME) or bool(self._times_of(values)[0] != NO_TIME)

    def _why_none(self, lacking: npt.NDArray[np.int64], row: int) -> str:
        """Say why an object is no event: it lacks what all lines of its format have, or the time."""
        lacks = int(lacking[row])
        return "time" if lacks < 0 else f"{NO_COLUMN}{OBJECTS[self.name].requires[lacks]}"


def _why(misfit: Sequence[int]) -> str:
    why, at = misfit
    return reason(why, at)


@lru_cache(maxsize=64)
def _reader(name: str, time: str, unwrap: str, wanted: tuple[tuple[str, SqlType], ...]) -> ObjectReader:
    """Compile a set of columns once, not once a chunk."""
    return ObjectReader(Wanted(time, dict(wanted), OBJECTS.get(name), unwrap))
