"""The workers of one source at one agent, and what they do together, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters, Mistyped
from elf.agents.worker.poison import insert_whatever
from elf.agents.worker.sharing.event_frame import EventFrame
from elf.agents.worker.sharing.mapping import takers
from elf.agents.worker.sharing.parse import Parsing, parsings
from elf.agents.worker.sharing.readouts import Readouts
from elf.agents.worker.state import Snapshot, WorkerState
from elf.agents.worker.worker import Worker


class Workers(dict[bytes, Worker]):
    """The workers of a source, by tree; used by its data thread, looked at by others."""

    #: Lines of the source that were read since this start.
    read = 0

    def parsings(self, anyway: Mapping[str, SqlType]) -> list[Parsing]:
        """Return the ways in which lines are to be parsed for all; `anyway`: columns of the first one in any case."""
        return parsings(anyway, (plan for worker in self.values() for plan in worker.plans))

    @property
    def literals(self) -> Sequence[Sequence[str]]:
        """For each that may want an event, texts which its raw line has then; what several demand only once."""
        return list(dict.fromkeys(tuple(words) for worker in self.values() for words in worker.literals))

    def insert(self, events: pl.DataFrame, parsing: Parsing | None = None) -> None:
        """Let all take in events, as many as there are; those of equal jobs do so together.

        Args:
            events: the events.
            parsing: how they were parsed: it is for jobs with these types only. None: all have the same.
        """
        if not events.height:
            return
        for taker in takers(self.values(), EventFrame(events, parsing)):
            insert_whatever(taker, events)

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Let all remember that lines between two times may have vanished unread (None: since ever)."""
        for worker in self.values():
            worker.note_gap(after_ms, before_ms)

    def note_lines(self, lines: Counters, gap: tuple[int | None, int] | None) -> None:
        """Let all that count anything remember how many lines were no events, and when that were nearly all."""
        self.read += lines.read
        for worker in self.values() if lines.rejected else ():
            if not worker.counts_nothing:
                worker.note_rejected(lines.rejected, self.read)
                if gap is not None:
                    worker.note_gap(*gap)

    def note_mistyped(self, mistyped: Mistyped, parsing: Parsing) -> None:
        """Let those whose lines are parsed so remember which values do not fit their columns' types."""
        for worker in self.values() if mistyped else ():
            worker.note_mistyped(mistyped, parsing)

    def seal(self, watermark_ms: int | None) -> dict[bytes, list[Snapshot]]:
        """Seal what a watermark, if there is any, has closed; return the snapshots of each."""
        if watermark_ms is None:
            return {tree: [] for tree in self}
        readouts = Readouts()
        return {tree: worker.seal(watermark_ms, readouts, self.read) for tree, worker in self.items()}

    def overtaken(self) -> list[tuple[bytes, int]]:
        """Return the trees, and intervals of theirs, that were counted without us before their time; each once."""
        found = []
        for tree, worker in self.items():
            if worker.overtaken is not None:
                found.append((tree, worker.overtaken))
                worker.overtaken = None
        return found

    def states(self, sealed: Mapping[bytes, Sequence[Snapshot]], *, last: bool) -> list[WorkerState]:
        """Return what a checkpoint has to hold of those who have changed since the last one; they are not dirty then.

        Args:
            sealed: the snapshots made since the last one, by tree.
            last: as of `Worker.state`.
        """
        readouts, states = Readouts(), []
        for tree, worker in self.items():
            if worker.dirty or sealed[tree] or (last and not worker.is_exact):
                states.append(worker.state(sealed[tree], last=last, readouts=readouts))
                worker.dirty = False
        return states

    def part_with(self, tree: bytes) -> None:
        """Let a worker go, with all that it has open."""
        worker = self.pop(tree, None)
        if worker is not None:
            worker.close()
