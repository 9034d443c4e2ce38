"""The workers of one source at one agent, and what they do together, round by round.

Events wait here until it matters what workers made of them: before anything is sealed or stored, before a worker
comes, goes, changes or hears that its snapshots are missing, and before a gap is noted, all that wait are taken in. So
whatever is sealed or stored has every line that was read, and nothing can tell when it was mapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from elf.agents.jobs.versions import Versions
from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters, Mistyped
from elf.agents.worker.poison import insert_whatever
from elf.agents.worker.sharing.event_frame import EventFrame
from elf.agents.worker.sharing.mapping import takers
from elf.agents.worker.sharing.parse import Parsing, parsings
from elf.agents.worker.sharing.readouts import Readouts
from elf.agents.worker.sharing.waiting_events import WaitingEvents
from elf.agents.worker.state import Snapshot, WorkerState
from elf.agents.worker.verdicts import is_set_back
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict


class Workers(dict[bytes, Worker]):
    """The workers of a source, by tree; used by its data thread, looked at by others."""

    #: Lines of the source that were read since this start.
    read = 0
    #: Some workers have taken in events that others have not: while that lasts, or if it fails, nothing may be stored.
    is_half_done = False

    def __init__(self, workers: Mapping[bytes, Worker] | None = None) -> None:
        super().__init__(workers or {})
        self._waiting = WaitingEvents()

    def __setitem__(self, tree: bytes, worker: Worker) -> None:
        """Feed a worker from the next events on."""
        self.take_in()
        super().__setitem__(tree, worker)

    def parsings(self, anyway: Mapping[str, SqlType]) -> list[Parsing]:
        """Return the ways in which lines are to be parsed for all; `anyway`: columns of the first one in any case."""
        return parsings(anyway, (plan for worker in self.values() for plan in worker.plans))

    @property
    def literals(self) -> Sequence[Sequence[str]]:
        """For each that may want an event, texts which its raw line has then; what several demand only once."""
        return list(dict.fromkeys(tuple(words) for worker in self.values() for words in worker.literals))

    def insert(self, events: pl.DataFrame, parsing: Parsing | None = None) -> None:
        """Let events, as many as there are, wait to be taken in by all, in the order in which they come.

        Args:
            events: the events.
            parsing: how they were parsed: it is for jobs with these types only. None: all have the same.
        """
        if not events.height:
            return
        if not self._waiting.fits(parsing):
            self.take_in()
        self._waiting.add(events, parsing)
        if self._waiting.is_full or any(worker.succeeds for worker in self.values()):
            self.take_in()

    def take_in(self) -> None:
        """Let all take in the events that wait; those of equal jobs do so together."""
        if not self._waiting:
            return
        self.is_half_done = True
        for events, parsing in self._waiting.take():
            for taker in takers(self.values(), EventFrame(events, parsing)):
                insert_whatever(taker, events)
        self.is_half_done = False

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Let all remember that lines between two times may have vanished unread (None: since ever)."""
        self.take_in()
        for worker in self.values():
            worker.note_gap(after_ms, before_ms)

    def note_lines(self, lines: Counters, gap: tuple[int | None, int] | None) -> None:
        """Let all that count anything remember how many lines were no events, and when that were nearly all."""
        self.read += lines.read
        if gap is not None:
            self.take_in()
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
        if watermark_ms is None or not any(worker.closes(watermark_ms) for worker in self.values()):
            return {tree: [] for tree in self}  # as most rounds find it
        self.take_in()
        readouts = Readouts()
        return {tree: worker.seal(watermark_ms, readouts, self.read) for tree, worker in self.items()}

    def settle(self, tree: bytes, verdict: Verdict, snapshots: Sequence[Snapshot]) -> None:
        """Let a worker take a master's verdict; see `Worker.settle`."""
        worker = self[tree]
        if verdict.missing or is_set_back(worker.progress, verdict):
            # It drops what it has open, or adds older rows to it, which come after those that were read before.
            self.take_in()
        worker.settle(verdict, snapshots)

    def adopt(self, tree: bytes, versions: Versions, unread: int | None) -> None:
        """Let a worker go on with other versions of its job, from the next events on; see `Worker.adopt`."""
        self.take_in()
        self[tree].adopt(versions, unread)

    def has_changed(self) -> bool:
        """Tell whether a checkpoint would have any worker; events that wait are taken in to know."""
        self.take_in()
        return any(worker.dirty for worker in self.values())

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
        self.take_in()
        readouts, states = Readouts(), []
        for tree, worker in self.items():
            if worker.dirty or sealed[tree] or (last and not worker.is_exact):
                states.append(worker.state(sealed[tree], last=last, readouts=readouts))
                worker.dirty = False
        return states

    def part_with(self, tree: bytes) -> None:
        """Let a worker go, with all that it has open."""
        self.take_in()
        worker = self.pop(tree, None)
        if worker is not None:
            worker.close()
