"""One job at one agent: events in, sealed snapshots out (DESIGN 3.3 and 3.4; paper: section 3.1, "Job worker").

Pure: no clock, no file. A worker holds one buffer tree per open interval, together with the workers of jobs that make
the same PAOs (`elf.agents.worker.sharing`). An interval is sealed once the watermark has passed its end by the job's
lateness; what comes later rides in the next snapshot that has room for it, whose rows carry their own interval, and
revises the result. What happens to a sealed snapshot is the overlay's business; what the master settled comes back
through `settle`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.lacks import GONE, RUNS_MAX
from elf.agents.completeness.runs import FOREVER, bounded, holds, union
from elf.agents.completeness.tallies import ended, without
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import ALWAYS, Compiled, Versions
from elf.agents.sources.counters import Mistyped
from elf.agents.worker.open_intervals import OpenIntervals
from elf.agents.worker.paos import SCATTERED, Paos, decode_open, encode_open, extent, has_tables
from elf.agents.worker.payload import Notes, unpack
from elf.agents.worker.sharing.event_frame import EventFrame
from elf.agents.worker.sharing.insertion import insert_alone
from elf.agents.worker.sharing.parse import Parsing
from elf.agents.worker.sharing.readouts import Readouts
from elf.agents.worker.snapshot_size import fit, late_brought
from elf.agents.worker.state import Progress, Snapshot, WorkerState
from elf.agents.worker.unfit import saying, unsaid_of, with_mistyped
from elf.agents.worker.unstored import Unstored
from elf.agents.worker.verdicts import counted, is_overtaken, is_set_back, left_out
from elf.overlay.contract import NEVER, Verdict


class Worker:
    """A job's open intervals at one agent.

    Args:
        job: the compiled job, or its versions.
        agent_id: this agent's name in the job's roster.
        progress: how far this worker had come at its last checkpoint.
        tree: key of the publication's reducer tree; empty stands for the job's id.
        new: it has not begun yet; the pump will say from where on it gets everything.
        succeeds: a new one takes the place of an agent whose disk is lost, counted or not.
    """

    __slots__ = (
        "_closing_ms", "_counting", "_doubtful", "_read", "_resumed", "_semantics", "_succeeds", "_told",
        "_told_since", "_unstored", "agent_id", "dirty", "new", "open", "overtaken", "progress",
        "tree", "versions",
    )  # fmt: skip

    def __init__(
        self,
        job: Plan | Versions,
        agent_id: str,
        progress: Progress | None = None,
        *,
        tree: bytes = b"",
        new: bool = False,
        succeeds: bool = False,
    ) -> None:
        self.versions = Versions.of(job)
        self.tree = tree or self.plan.definition.app_id
        self.agent_id = agent_id
        self.new = new
        self.progress = progress or Progress()
        #: What it has open, much of it together with others.
        self.open = OpenIntervals(self.versions)
        #: The versions that count any events which may still come.
        self._counting = self.versions.counting(None)
        #: Changed since the last checkpoint.
        self.dirty = True
        #: An interval that would be sealed now had it not been counted without us meanwhile; the tree is to hear of it.
        self.overtaken: int | None = None
        self._semantics = self.plan.definition.options.semantics
        #: Snapshots without a verdict, unless the store has them all.
        self._unstored = Unstored(NEVER if self.progress.sealed is None else self.progress.sealed)
        #: The first snapshot of this run that tells what a crash has lost.
        self._told: int | None = None
        #: The first snapshot of this run that tells since when we count by which versions.
        self._told_since: int | None = None
        #: Up to here a snapshot of a former run may be counted in the place of ours (at-most-once).
        self._doubtful = NEVER
        self._resumed = NEVER
        #: How many lines the source had read when this last counted them.
        self._read = 0
        #: No watermark before this one closes another interval, or changes what is counted.
        self._closing_ms = NEVER
        #: It takes the place of an agent whose disk is lost, and has read nothing yet.
        self._succeeds = new and (succeeds or self.progress.counted is not None)

    @classmethod
    def restore(cls, job: Plan | Versions, agent_id: str, state: WorkerState) -> Worker:
        """Bring a worker back as its last checkpoint left it."""
        versions = Versions.of(job)
        worker = cls(versions, agent_id, state.progress, tree=state.tree)
        worker.open.insert(decode_open(state.open_block, versions))
        if has_tables(state.open_block):
            worker.open.note_stored()
        if not worker.is_exact:
            worker._unstored.recall(state.sealed)
        progress = worker.progress
        if progress.volatile is not None:
            lost = bounded(union(progress.lost, (progress.volatile,)), RUNS_MAX)
            worker.progress = replace(progress, lost=lost, volatile=None)
        return worker

    @property
    def plan(self) -> Plan:
        """The job as of its newest version; some things are the same in all."""
        return self.versions.newest.plan

    @property
    def jobs(self) -> str:
        """Its job's name, for people."""
        return self.plan.definition.key

    @property
    def plans(self) -> Sequence[Plan]:
        """Those of the versions of which events may come."""
        return [run.plan for run in self._counting]

    @property
    def literals(self) -> Sequence[Sequence[str]]:
        """For each such version, texts each of which every event that it wants contains in its raw line."""
        return [run.plan.literals for run in self._counting]

    @property
    def counts_nothing(self) -> bool:
        """Whether no event that may come is counted any more: the job is paused or stopped for long."""
        return not self._counting

    @property
    def is_exact(self) -> bool:
        """Whether all that it has sealed is on disk."""
        return self._semantics == "exactly-once"

    @property
    def sends_early(self) -> bool:
        """Whether snapshots may leave before they are on disk: only once the disk says that they may have."""
        return self._semantics == "at-least-once" and self.progress.early

    def resume(self, now_ms: int, read: int = 0) -> None:
        """Take up work. What left before a crash and is not on disk will be read again: not under its old name.

        `read`: how many lines the source has read.
        """
        self._read = read
        now = self.versions.number(now_ms)
        self._resumed = max(now, self.progress.sealed or now) if self.progress.early else NEVER
        self._doubtful = now if self.progress.lost else NEVER
        if self.progress.early:
            self.progress = replace(self.progress, early=False)

    def begin(self, partial_before: int | None, gone_ms: int | None = None) -> None:
        """Start a worker with all from interval `partial_before` on (None: all), and no line from before `gone_ms`."""
        self.progress = replace(self.progress, partial_before=partial_before)
        self.new = False
        self.adopt(self.versions, partial_before)
        if gone_ms is not None and self._succeeds:
            if self.progress.counted is None:
                self.note_gap(None, gone_ms)
            self._note_what_is_gone(gone_ms)

    def adopt(self, versions: Versions, unread: int | None) -> None:
        """Go on with the versions there are now; what they make void of what is open is dropped, and labels say so.

        Args:
            versions: of the same publication.
            unread: the first interval of which no event can have been read (None: nothing was read at all).
        """
        progress, newest = self.progress, versions.newest.version.number
        renumbered = versions.renumbered(progress.version)
        if progress.sealed is not None and progress.sealed >= renumbered:
            # They count as sealed, and last longer now: what comes in them yet is late.
            unread = max(progress.sealed + 1, NEVER if unread is None else unread)
        if progress.partial_before is not None and progress.partial_before >= renumbered and unread is not None:
            progress = replace(progress, partial_before=max(progress.partial_before, unread))
        since = dict(progress.since)
        for version, _ in versions.all:
            if version.number > progress.version and version.is_told:
                since[version.number] = version.since if unread is None else max(version.since, unread)
        self.versions = versions
        self._closing_ms = NEVER
        self._counting = versions.counting(progress.sealed)
        self.open.adopt(versions)
        if newest > progress.version:
            self.progress = replace(progress, version=newest, since=since)
            self._told_since = None
            self.dirty = True

    def insert(self, events: pl.DataFrame) -> None:
        """Reduce a frame of events into the open intervals, for nobody else; late ones wait for the next snapshot."""
        if events.height:
            insert_alone(EventFrame(events), self)

    def parted(self, frame: EventFrame) -> list[tuple[Compiled, EventFrame]]:
        """Divide events among the versions that count them; mostly there is only one. O(rows of several versions)."""
        if len(self.versions.all) == 1:
            return [(self.versions.newest, frame)] if frame.is_for(self.plan) else []
        found = []
        for run in self._counting:
            first_ms, until_ms = run.span_ms
            inside = (frame.times >= first_ms) & (frame.times < until_ms)
            if inside.any() and frame.is_for(run.plan):
                part = frame if inside.all() else EventFrame(frame.events.filter(inside))
                found.append((Compiled(run.version, run.plan), part))
        return found

    def counting(self, frame: EventFrame) -> list[Compiled]:
        """Return versions that events of a frame may be counted by: of each kind of PAOs the newest."""
        if len(self.versions.all) == 1:
            return [self.versions.newest] if frame.is_for(self.plan) else []
        first, last = map(self.versions.number, (frame.first_ms, frame.last_ms))
        touched = (
            each for each in self._counting if each.first <= last and first <= each.last and frame.is_for(each.plan)
        )
        return list({each.version.pao_kind: Compiled(each.version, each.plan) for each in touched}.values())

    def admit(self, intervals: Collection[int], kind: int) -> Collection[int]:
        """Say of which intervals this worker takes the PAOs, of some kind, that it is about to be given."""
        through, dropped = self.progress.counted, self.progress.dropped
        taken = [each for each in intervals if through is None or each > through]
        if dropped:
            taken = [each for each in taken if not holds(dropped, each)]
        self.dirty = self.dirty or bool(taken)
        return [each for each in taken if self.versions.counts(kind, each)]

    def admit_all(self, intervals: npt.NDArray[np.int64], kind: int) -> npt.NDArray[np.int64]:
        """Do what `admit` does, of very many intervals. O(intervals)."""
        through = self.progress.counted
        taken = intervals if through is None else intervals[intervals > through]
        for after, until in self.progress.dropped:
            taken = taken[(taken <= after) | (taken > until)]
        self.dirty = self.dirty or bool(len(taken))
        return taken[self.versions.counted(kind, taken)]

    def note_late(self, wanted: EventFrame, kind: int) -> None:
        """Count those events that are late of a frame that the job wants, in whichever of its parts their keys are.

        They are of intervals that are sealed, that are counted by this kind of PAOs, and that this worker takes.
        """
        sealed, dropped, through = self.progress.sealed, self.progress.dropped, self.progress.counted
        times = wanted.before(NEVER if sealed in (None, NEVER) else self.versions.end_ms(sealed))
        late = times.len()
        if late and (dropped or through is not None or len(self.versions.all) > 1):
            late = sum(
                count
                for each, count in self.versions.counts_of(times).items()
                if self.versions.counts(kind, each) and not holds(dropped, each) and (through is None or each > through)
            )
        if late:
            self.progress = replace(self.progress, late=self.progress.late + late)
            self.dirty = True

    @property
    def succeeds(self) -> bool:
        """Whether it takes the place of an agent whose disk is lost, and the first events it meets say what is gone."""
        return self._succeeds

    def meet(self, frame: EventFrame) -> None:
        """Look at a frame of events before any of it is taken."""
        if self._succeeds:
            self._note_what_is_gone(frame.first_ms)

    def _note_what_is_gone(self, first_ms: int) -> None:
        """Label what our predecessor was not counted with and we do not find: its log may have been rotated since."""
        through = self.progress.counted
        self._succeeds = False
        if through is not None and through != NEVER and first_ms >= self.versions.end_ms(through):
            self.note_gap(self.versions.end_ms(through), first_ms)

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Remember, for the label, that lines between two times may have vanished unread (None: since ever)."""
        since_ms = 0 if after_ms is None else after_ms - self.plan.definition.options.lateness_ms
        gap = (self.versions.number(since_ms), self.versions.number(before_ms))
        self.progress = replace(self.progress, gaps=(*self.progress.gaps, gap))
        self.dirty = True

    def note_rejected(self, lines: int, read: int = 0) -> None:
        """Remember, for the label, that so many lines were no events; `read`: of how many that the source has read."""
        progress = self.progress
        among = progress.lines + read - self._read
        self.progress = replace(progress, rejected=progress.rejected + lines, lines=among)
        self._read = read
        self.dirty = True

    def note_mistyped(self, mistyped: Mistyped, parsing: Parsing | None = None) -> None:
        """Remember, for labels, the values that do not fit, as far as the job reads them; see `with_mistyped`."""
        before = self.progress
        self.progress = with_mistyped(before, self.versions, mistyped, parsing)
        self.dirty = self.dirty or self.progress is not before

    def closes(self, watermark_ms: int) -> bool:
        """Whether a watermark may close an interval, or change what is counted."""
        return watermark_ms >= self._closing_ms

    def seal(self, watermark_ms: int, readouts: Readouts | None = None, read: int = 0) -> list[Snapshot]:
        """Seal every interval the watermark has closed, ascending: one snapshot each where there is data.

        The last one closes the whole run up to the watermark, empty or not, so that an idle agent blocks nobody. What
        labels have to say goes with the first: until the one that it is in is committed, no label knows of it.

        Of a stopped job nothing is sealed that counts nothing: it costs no tree anything until it is resumed.

        Args:
            watermark_ms: no earlier event is expected any more.
            readouts: what others have read that seal at the same time.
            read: how many lines the source has read.
        """
        if not self.closes(watermark_ms):
            return []  # most looks of most workers find nothing
        if self._counting and self.versions.rests_from != ALWAYS:
            # Nothing is sealed that would tell how late an event is.
            self._counting = self.versions.counting(self.versions.number(watermark_ms))
        closed = self.versions.closed(watermark_ms)
        self._closing_ms = self.versions.closing_ms(closed + 1)
        if self.versions.rests_from != ALWAYS:  # time alone changes what is counted
            self._closing_ms = min(self._closing_ms, self.versions.end_ms(self.versions.number(watermark_ms)))
        floor = max(i for i in (self.progress.sealed, self.progress.settled, self._resumed) if i is not None)
        if closed <= floor:
            if is_overtaken(self.progress):
                self.overtaken = closed
            return []
        throughs = {*self.open.between(floor + 1, closed - 1), closed}
        if floor != NEVER and self._has_news(floor):
            throughs.add(floor + 1)
        if len(throughs) > SCATTERED:
            self.open.settle()
        snapshots = []
        for through in sorted(throughs):
            snapshots.append(self._seal_one(floor, through, readouts, read))
            floor = through
        if len(self._counting) > 1:
            self._counting = self.versions.counting(floor)
        return snapshots

    def _has_news(self, floor: int) -> bool:
        """Tell whether there is anything that concerns labels, or rows of intervals that are sealed already."""
        progress = self.progress
        told = progress.owed or progress.since or progress.lacks(self.agent_id)
        return bool(told) or bool(self.open.between(NEVER, floor))

    def settle(self, verdict: Verdict, snapshots: Sequence[Snapshot]) -> None:
        """Take the master's verdict on what was sealed up to `verdict.through`.

        Args:
            verdict: our snapshots of that run are in the master's result, or are missing from it.
            snapshots: those snapshots; when missing, their rows ride in the next snapshot, or the job drops those of
                the run's intervals; late rows of older intervals ride on, for the labels of those do not name us.
        """
        progress = self.progress
        if progress.settled is not None and verdict.through <= progress.settled:
            return
        self.dirty = True
        self._unstored.settle(verdict.through)
        if not verdict.missing:
            self.progress = counted(progress, verdict, self._told, self._told_since)
            if progress.settled is None:
                self._told_since = None
            if self.is_exact and is_set_back(progress, verdict):
                self.progress = left_out(self.progress, verdict)
                self.open.drop(NEVER, verdict.through)
            return
        options = self.versions.at(verdict.through).plan.definition.options
        drops = verdict.named and options.straggler in ("drop", "void")
        owed, dropped = progress.owed, progress.dropped
        if drops:
            # Late events of forgotten ones count, under labels that name us.
            dropped = union(dropped, ((verdict.previous, verdict.through),))[-RUNS_MAX:]
            self.open.drop(verdict.previous + 1, verdict.through)
        else:
            # Not what our predecessor was counted with: we leave it out, and cannot bring what it lacked there.
            heeded = NEVER if progress.settled is None else progress.settled
            after = max(verdict.previous, heeded, NEVER if progress.counted is None else progress.counted)
            owed = union(owed, ((after, verdict.through),))
        unsaid = replace(unsaid_of(progress), gaps=progress.gaps)
        for snapshot in snapshots:
            assert verdict.previous < snapshot.through <= verdict.through
            if snapshot.payload is not None:
                notes, paos = unpack(snapshot.payload, self.versions)
                self.open.insert(paos.between(None, verdict.previous) if drops else paos)
                unsaid += notes
                owed = union(owed, notes.settles.get(self.agent_id, ()))
        self.progress = saying(progress, unsaid, settled=verdict.through, owed=owed, dropped=dropped)

    def unsettled(self, verdict: Verdict) -> list[Snapshot]:
        """Return the snapshots that a verdict is about, where the store may lack some, ascending."""
        return self._unstored.of(verdict)

    def state(
        self, sealed: Sequence[Snapshot] = (), *, last: bool = False, readouts: Readouts | None = None
    ) -> WorkerState:
        """Return what a checkpoint must hold to bring this worker back.

        Args:
            sealed: the snapshots made since the last one, if all are to be stored.
            last: it is to hold all there is, whatever the job's semantics: mostly the agent stops after it.
            readouts: what others have read that are stored at the same time.
        """
        progress, keeps = self.progress, True
        if not self.is_exact:
            keeps = last or self._semantics == "at-least-once"
            progress = replace(progress, early=not last and keeps, volatile=None if keeps else self._volatile())
            sealed = self._unstored.store() if keeps else ()
            self.progress = replace(self.progress, early=progress.early)
        if keeps:
            paos, told, tables = self.open.stored(readouts)
        else:
            paos, told, tables = Paos(), (), self.open.unstored()
        return WorkerState(self.tree, progress, encode_open(paos, self.versions, told), tuple(sealed), tables)

    def _volatile(self) -> tuple[int, int] | None:
        """Return the run of intervals with data in memory only."""
        return self._unstored.volatile([*((interval, interval) for interval in self.open.ends), *self.progress.gaps])

    @property
    def held_through(self) -> int:
        """The last interval whose verdict may be about anything that it has taken in; later ones are about nothing."""
        sealed = NEVER if self.progress.sealed is None else self.progress.sealed
        ends = self.open.ends
        # What is open of sealed intervals, or owed, rides in the next snapshot.
        return max(sealed + 1, ends[-1] if ends else NEVER) if ends or self.progress.owed else sealed

    @property
    def memory_bytes(self) -> int:
        """Bytes held in open intervals, of those that others hold, too, a part; may be asked for by any thread."""
        return self.open.memory_bytes

    def close(self) -> None:
        """Let go of all that is open; the worker is not to be used any more."""
        self.open.drop(NEVER, FOREVER)

    def _seal_one(self, floor: int, through: int, readouts: Readouts | None, read: int) -> Snapshot:
        """Seal the intervals of (floor, through], and bring what is late of those before as far as there is room."""
        if self.progress.rejected:
            self.progress = replace(self.progress, lines=self.progress.lines + read - self._read)
        self._read = read
        progress, agent = self.progress, self.agent_id
        # What is sealed now goes first, for labels claim that it is here; then what is late, the oldest first.
        late = self.open.between(NEVER, floor) if floor > NEVER else []
        brought = late_brought(late, floor, self.versions)
        waiting = late[brought] if brought < len(late) else None
        rows = self.open.take([(floor + 1, through), *([(late[0], late[brought - 1])] if late else [])], readouts)
        since = {agent: progress.since} if progress.since else {}
        lacks = progress.lacks(agent)
        # What is of intervals that are open yet waits for them.
        notes = replace(unsaid_of(progress), since=since, mistyped=ended(progress.mistyped, through))
        notes = notes.with_lacks(lacks) if lacks else notes
        sealed_now = int((rows.intervals > floor).sum()) if rows.height else 0
        fitted = fit(notes, agent, progress.owed, rows, sealed_now, waiting)
        unsaid = Notes(gaps=fitted.gaps, mistyped=without(progress.mistyped, through))
        self.progress = saying(progress, unsaid, sealed=through, owed=fitted.owed)
        self.open.insert(fitted.rest)
        self.dirty = True
        if self._told is None and through > self._doubtful and lacks.only(*GONE):
            self._told = through
        self._told_since = through if self._told_since is None and since else self._told_since
        snapshot = Snapshot(through, fitted.payload)
        if not self.is_exact:
            at = [extent(frame) for _, frame in rows.parts]
            self._unstored.add(snapshot, [*(each for each in at if each is not None), *progress.gaps])
        return snapshot
