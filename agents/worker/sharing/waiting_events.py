"""Events that are read and that no worker has been given yet, put together as far as workers cannot tell. Pure.

To filter, map and insert a few events costs each job nearly what thousands cost. What workers made of events matters
only when something is sealed or stored, or a worker begins, ends or changes; until then events may wait for more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from elf.agents.sources.raw_texts import stacked
from elf.agents.worker.sharing.parse import Parsing

#: Events of a source wait until they are so many, or hold so much. A frame of this size costs little more per job than
#: a small one, and hundreds of sources at an agent hold some hundred MiB at worst.
ROWS_MAX, BYTES_MAX = 8_192, 1 << 20


class _Way(NamedTuple):
    """Events that were parsed alike."""

    parsing: Parsing | None
    frames: list[pl.DataFrame]


class WaitingEvents:
    """Events of one source, in the order in which they were read."""

    def __init__(self) -> None:
        #: By the ways in which lines are parsed, in these ways' order.
        self._ways: list[_Way] = []
        self._rows = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._ways)

    @property
    def is_full(self) -> bool:
        """Whether they are to wait no longer."""
        return self._rows >= ROWS_MAX or self._bytes >= BYTES_MAX

    def fits(self, parsing: Parsing | None) -> bool:
        """Whether events that were parsed in some way may wait beside those there are.

        Any plan takes those of one way only, the first that will do. Of ways that do not belong together it could take
        two, and would be given the events of one of them before older ones of the other.
        """
        known = [way.parsing for way in self._ways]
        if parsing in known or not known:
            return True
        before = [each.columns for each in known if each is not None]
        return parsing is not None and len(before) == len(known) and list(parsing.earlier) == before

    def add(self, events: pl.DataFrame, parsing: Parsing | None) -> None:
        """Let events wait that fit; at least one."""
        for way in self._ways:
            if way.parsing == parsing:
                way.frames.append(events)
                break
        else:
            self._ways.append(_Way(parsing, [events]))
        self._rows += events.height
        self._bytes += int(events.estimated_size())

    def take(self) -> Sequence[tuple[pl.DataFrame, Parsing | None]]:
        """Return them all, those of each way to parse them in one frame; none waits then."""
        ways = self._ways
        self._ways = []
        self._rows = 0
        self._bytes = 0
        return [(way.frames[0] if len(way.frames) == 1 else stacked(way.frames), way.parsing) for way in ways]
