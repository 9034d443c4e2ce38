"""From what is found in blocks of lines to events: what all formats do alike once their lines are taken apart. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters, Mistyped, Oddities, Parsed, Rejects
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import Ends
from elf.agents.sources.raw_texts import UnfitValues, raw_column, raw_name, stacked
from elf.agents.sources.times.notations import NO_TIME

_TIME = "ts"
#: The reason of lines whose event time is further ahead of the clock than the source admits.
AHEAD = "time:ahead"


class Found(NamedTuple):
    """What was found in a block of lines.

    Attributes:
        data: the lines, and maybe others.
        begin: where the first line begins.
        ends: where each line's newline is.
        misfits: the lines that do not fit the format: number, and what else is said of each. Shape (misfits, n).
        times: of the other lines their event times, in ms.
        are_events: which of these are events.
        columns: of these, too: those that are wanted, without the event time.
        mistyped: of those columns that have any, the values that do not fit their types; each is null.
    """

    data: bytes
    begin: int
    ends: Ends
    misfits: npt.NDArray[np.int32]
    times: npt.NDArray[np.int64]
    are_events: npt.NDArray[np.bool_]
    columns: Sequence[pl.Series]
    mistyped: Mapping[str, UnfitValues]

    @property
    def fitting(self) -> Ends:
        """The numbers of the lines that fit."""
        return np.delete(np.arange(len(self.ends)), self.misfits[:, 0])

    def line(self, number: int) -> bytes:
        """Return a line."""
        begin = int(self.ends[number - 1]) + 1 if number else self.begin
        return self.data[begin : int(self.ends[number])]


def timely(times: npt.NDArray[np.int64], rejects: Rejects) -> npt.NDArray[np.bool_]:
    """Tell which event times there are, and are not too far ahead of the clock."""
    found: npt.NDArray[np.bool_] = (times != NO_TIME) & (times <= rejects.latest_ms)
    return found


def block_events(
    found: Found,
    rejects: Rejects,
    why_misfit: Callable[[Sequence[int]], str],
    why_none: Callable[[int], str] = lambda _: "time",
) -> Parsed:
    """Make events of a block of lines; those that are none are counted, and the first of them kept.

    Args:
        found: the block.
        rejects: takes what is no event; the counters of what is returned do not count anything.
        why_misfit: says why a line does not fit, given what is said of it behind its number.
        why_none: says why a line that fits is no event, given which of these it is.
    """
    names = {each.name for each in found.columns}
    unfit = {name: each for name, each in found.mistyped.items() if found.are_events[each.rows].any()}
    raw = [
        raw_column(name, len(found.times), each)
        for name, each in unfit.items()
        if each.texts is not None and raw_name(name) not in names
    ]
    events = pl.DataFrame([pl.Series(_TIME, found.times).cast(pl.Datetime("ms")), *found.columns, *raw])
    if len(found.misfits) or not found.are_events.all():
        _reject(found, rejects, why_misfit, why_none)
        events = events.filter(pl.Series(found.are_events))
    mistyped = {name: found.times[each.rows][found.are_events[each.rows]] for name, each in unfit.items()}
    oddities = Oddities(mistyped={name: len(own) for name, own in mistyped.items()})
    return Parsed(events, Counters(), (), oddities, mistyped)


def _reject(
    found: Found, rejects: Rejects, why_misfit: Callable[[Sequence[int]], str], why_none: Callable[[int], str]
) -> None:
    none = np.flatnonzero(~found.are_events)
    count, room = len(found.misfits) + len(none), rejects.room
    numbers = found.fitting[none[:room]].tolist()
    ahead = found.times[none] > rejects.latest_ms
    rows = zip(numbers, none[:room].tolist(), ahead[:room].tolist(), strict=True)
    reasons = {number: AHEAD if is_ahead else why_none(row) for number, row, is_ahead in rows}
    reasons |= {number: why_misfit(said) for number, *said in found.misfits[:room].tolist()}
    first = sorted(reasons)[:room]
    rejects.add_all([(found.line(number), reasons[number]) for number in first], count, int(ahead.sum()))


def whole(lines: Kept, parts: Sequence[Parsed], wanted: Mapping[str, SqlType], rejects: Rejects) -> Parsed:
    """Put parts that follow each other together to what all of some lines are.

    Args:
        lines: all of them.
        parts: what they are, but for those that are rejected; each has `ts` and the wanted columns.
        wanted: columns and their types.
        rejects: has taken what is rejected, but for huge lines.
    """
    for line in lines.huge:
        rejects.add(line, "line_too_long")
    events, oddities, mistyped = together(parts, wanted)
    counters = Counters(
        read=lines.read,
        parsed=events.height,
        rejected=rejects.count,
        filtered=lines.filtered,
        headers=lines.headers,
        parts=lines.rests,
        ahead=rejects.ahead,
    )
    return Parsed(events, counters, rejects.sample(), lines.oddities + oddities, mistyped)


def together(parts: Sequence[Parsed], wanted: Mapping[str, SqlType]) -> tuple[pl.DataFrame, Oddities, Mistyped]:
    """Put the events of parts that follow each other together, and what is odd about them.

    Args:
        parts: each has `ts` and the wanted columns.
        wanted: columns and their types, for where there is no part.
    """
    if len(parts) == 1:
        return parts[0].events, parts[0].oddities, parts[0].mistyped
    schema = {_TIME: pl.Datetime("ms"), **{name: kind.dtype for name, kind in wanted.items() if name != _TIME}}
    none = pl.DataFrame(schema=schema)
    mistyped: dict[str, list[npt.NDArray[np.int64]]] = {}
    for part in parts:
        for name, times in part.mistyped.items():
            mistyped.setdefault(name, []).append(times)
    return (
        stacked([part.events for part in parts]) if parts else none,
        sum((part.oddities for part in parts), Oddities()),
        {name: np.concatenate(times) for name, times in mistyped.items()},
    )
