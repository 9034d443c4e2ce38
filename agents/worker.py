"""One job at one agent: events in, sealed snapshots out (DESIGN 3.3 and 3.4; paper: section 3.1, "Job worker").

Pure: no clock, no file. A worker holds one buffer tree per open interval. An interval is sealed once the watermark has
passed its end by the job's lateness; what comes later rides in the next snapshot that has room for it, whose rows carry
their own interval, and revises the result. What happens to a sealed snapshot is the overlay's business; what the master
settled comes back through `settle`.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from msgspec.structs import replace

from agents.fitting import fit
from agents.jobs.plan import Plan
from agents.payload import Notes, unpack
from agents.store.checkpoints import Progress, Snapshot, WorkerState
from cbt import INTERVAL, BufferTree, decode, encode
from overlay.contract import NEVER, Verdict

#: Runs whose late events a worker still knows to leave out. Those of older ones count, under labels that name us.
DROPPED_MAX = 256
#: Losses that a worker has to tell at a time: the master keeps more.
LOST_MAX = 64


class Worker:
    """A job's open intervals at one agent.

    Args:
        plan: the compiled job.
        agent_id: this agent's name in the job's roster.
        progress: how far this worker had come at its last checkpoint.
        tree: key of the publication's reducer tree; empty stands for the job's id.
        new: it has not begun yet; the pump will say from where on it gets everything.
    """

    def __init__(
        self, plan: Plan, agent_id: str, progress: Progress | None = None, *, tree: bytes = b"", new: bool = False
    ) -> None:
        self.plan = plan
        self.tree = tree or plan.definition.app_id
        self.agent_id = agent_id
        self.new = new
        self.progress = progress or Progress()
        self._trees: dict[int, BufferTree] = {}
        #: Changed since the last checkpoint.
        self.dirty = True
        self._semantics = plan.definition.options.semantics
        #: Snapshots without a verdict, unless the store has them all.
        self._unsettled: dict[int, Snapshot] = {}
        #: Through this one the store has them; the intervals of those after it.
        self._stored = NEVER if self.progress.sealed is None else self.progress.sealed
        self._intervals: dict[int, tuple[int, int]] = {}
        #: The first snapshot of this run that tells what a crash has lost.
        self._told: int | None = None
        #: Up to here a snapshot of a former run may be counted in the place of ours (at-most-once).
        self._doubtful = NEVER
        self._resumed = NEVER
        #: It takes the place of an agent whose disk is lost, and has read nothing yet.
        self._succeeds = False

    @classmethod
    def restore(cls, plan: Plan, agent_id: str, state: WorkerState) -> Worker:
        """Bring a worker back as its last checkpoint left it."""
        worker = cls(plan, agent_id, state.progress, tree=state.tree)
        worker._insert(decode(state.open_block, plan.schema))
        if not worker.is_exact:
            worker._unsettled = {snapshot.through: snapshot for snapshot in state.sealed}
        progress = worker.progress
        if progress.volatile is not None:
            worker.progress = replace(progress, lost=_with_loss(progress.lost, progress.volatile), volatile=None)
        return worker

    @property
    def is_exact(self) -> bool:
        """Whether all that it has sealed is on disk."""
        return self._semantics == "exactly-once"

    @property
    def sends_early(self) -> bool:
        """Whether snapshots may leave before they are on disk: only once the disk says that they may have."""
        return self._semantics == "at-least-once" and self.progress.early

    def resume(self, now_ms: int) -> None:
        """Take up work. What left before a crash and is not on disk will be read again: not under its old name."""
        now = now_ms // self.plan.interval_ms
        self._resumed = max(now, self.progress.sealed or now) if self.progress.early else NEVER
        self._doubtful = now if self.progress.lost else NEVER
        if self.progress.early:
            self.progress = replace(self.progress, early=False)

    def begin(self, partial_before: int | None) -> None:
        """Start a new worker; it has all events of the intervals from `partial_before` on (None: of all)."""
        self.progress, self.new = replace(self.progress, partial_before=partial_before), False
        self._succeeds = self.progress.counted is not None

    def insert(self, events: pl.DataFrame) -> None:
        """Reduce a frame of events into the open intervals; late ones wait for the next snapshot."""
        if self._succeeds and events.height:
            self._note_what_is_gone(events)
        if self.progress.dropped:
            events = self._without_dropped(events, self._intervals_of(events))
        self.take(events, self.plan.reduce(events))

    def take(self, events: pl.DataFrame, paos: pl.DataFrame) -> None:
        """Insert the PAOs of a frame of events, or those of them that are this job's part."""
        if self._succeeds and events.height:
            self._note_what_is_gone(events)
        if self.progress.dropped:
            paos = self._without_dropped(paos, paos[INTERVAL])
        if self.progress.counted is not None:
            paos = paos.filter(pl.col(INTERVAL) > self.progress.counted)
        if paos.height == 0:
            return
        self.dirty = True
        sealed = self.progress.sealed
        if sealed is not None:
            sealed_before_ms = (sealed + 1) * self.plan.interval_ms
            # Casts between equal representations are free; calls of the `dt` namespace cost a query each.
            late = int((events["ts"].cast(pl.Datetime("ms")).cast(pl.Int64) < sealed_before_ms).sum())
            if late:
                self.progress = replace(self.progress, late=self.progress.late + late)
        self._insert(paos)

    def _note_what_is_gone(self, events: pl.DataFrame) -> None:
        """Label what our predecessor was not counted with and we do not find: its log may have been rotated since."""
        counted, self._succeeds = self.progress.counted, False
        first_ms = events["ts"].cast(pl.Datetime("ms")).cast(pl.Int64).min()
        if counted is not None and counted != NEVER and isinstance(first_ms, int):
            counted_ms = (counted + 1) * self.plan.interval_ms
            if first_ms >= counted_ms:
                self.note_gap(counted_ms, first_ms)

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Remember, for the label, that lines between two times may have vanished unread (None: since ever)."""
        interval_ms = self.plan.interval_ms
        since_ms = 0 if after_ms is None else after_ms - self.plan.definition.options.lateness_ms
        gap = (since_ms // interval_ms, before_ms // interval_ms)
        self.progress = replace(self.progress, gaps=(*self.progress.gaps, gap))
        self.dirty = True

    def seal(self, watermark_ms: int) -> list[Snapshot]:
        """Seal every interval the watermark has closed, ascending: one snapshot each where there is data.

        The last one closes the whole run up to the watermark, empty or not, so that an idle agent blocks nobody. What
        labels have to say goes with the first: until the one that it is in is committed, no label knows of it.
        """
        closed = (watermark_ms - self.plan.definition.options.lateness_ms) // self.plan.interval_ms - 1
        floor = max(i for i in (self.progress.sealed, self.progress.settled, self._resumed) if i is not None)
        if closed <= floor:
            return []
        throughs = {interval for interval in self._trees if floor < interval < closed} | {closed}
        if floor != NEVER and self._has_news(floor):
            throughs.add(floor + 1)
        snapshots = []
        for through in sorted(throughs):
            snapshots.append(self._seal_one(floor, through))
            floor = through
        return snapshots

    def _has_news(self, floor: int) -> bool:
        """Tell whether there is anything that concerns labels, or rows of intervals that are sealed already."""
        progress = self.progress
        told = progress.gaps or progress.owed or progress.lost or progress.partial_before is not None
        return bool(told) or any(interval <= floor for interval in self._trees)

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
        for through in [held for held in self._unsettled if held <= verdict.through]:
            del self._unsettled[through]
            self._intervals.pop(through, None)
        if not verdict.missing:
            told = self._told is not None and verdict.through >= self._told
            lost = () if told else progress.lost
            self.progress = replace(progress, settled=verdict.through, partial_before=None, lost=lost)
            return
        drops = verdict.named and self.plan.definition.options.straggler in ("drop", "void")
        owed, dropped = progress.owed, progress.dropped
        if drops:
            dropped = _joined(dropped, (verdict.previous, verdict.through))
            for interval in [held for held in self._trees if verdict.previous < held <= verdict.through]:
                del self._trees[interval]
        else:
            # Not what our predecessor was counted with: we leave it out, and cannot bring what it lacked there.
            heeded = NEVER if progress.settled is None else progress.settled
            after = max(verdict.previous, heeded, NEVER if progress.counted is None else progress.counted)
            owed = (*owed, (after, verdict.through)) if after < verdict.through else owed
        late, gaps = progress.late, progress.gaps
        for snapshot in snapshots:
            assert verdict.previous < snapshot.through <= verdict.through
            if snapshot.payload is not None:
                notes, frame = unpack(snapshot.payload, self.plan.schema)
                self._insert(frame.filter(pl.col(INTERVAL) <= verdict.previous) if drops else frame)
                late, gaps = late + notes.late, (*gaps, *notes.gaps)
                owed = (*owed, *notes.settles.get(self.agent_id, ()))
        self.progress = replace(progress, settled=verdict.through, owed=owed, dropped=dropped, late=late, gaps=gaps)

    def unsettled(self, verdict: Verdict) -> list[Snapshot]:
        """Return the snapshots that a verdict is about, where the store may lack some, ascending."""
        return [
            held for through, held in sorted(self._unsettled.items()) if verdict.previous < through <= verdict.through
        ]

    def state(self, sealed: Sequence[Snapshot] = (), *, last: bool = False) -> WorkerState:
        """Return what a checkpoint must hold to bring this worker back.

        Args:
            sealed: the snapshots made since the last one, if all are to be stored.
            last: it is to hold all there is, whatever the job's semantics: mostly the agent stops after it.
        """
        progress, trees = self.progress, self._trees
        if not self.is_exact:
            keeps = last or self._semantics == "at-least-once"
            progress = replace(progress, early=not last and keeps, volatile=None if keeps else self._volatile())
            sealed = [held for through, held in sorted(self._unsettled.items()) if through > self._stored and keeps]
            self._stored = max([self._stored, *(held.through for held in sealed)])
            trees = trees if keeps else {}
            self.progress = replace(self.progress, early=progress.early)
        frames = [tree.snapshot() for tree in trees.values()]
        block = encode(pl.concat([self.plan.schema.empty(), *frames]))
        return WorkerState(self.tree, progress, block, tuple(sealed))

    def _volatile(self) -> tuple[int, int] | None:
        """Return the run of intervals with data in memory only."""
        held = [run for through, run in self._intervals.items() if through > self._stored]
        held += [(interval, interval) for interval in self._trees] + [*self.progress.gaps]
        return (min(first for first, _ in held) - 1, max(last for _, last in held)) if held else None

    @property
    def memory_bytes(self) -> int:
        """Bytes held in open intervals; may be asked for by another thread than the one that works."""
        return sum(tree.memory_bytes for tree in list(self._trees.values()))

    def _intervals_of(self, events: pl.DataFrame) -> pl.Series:
        return events["ts"].cast(pl.Datetime("ms")).cast(pl.Int64) // self.plan.interval_ms

    def _without_dropped(self, frame: pl.DataFrame, intervals: pl.Series) -> pl.DataFrame:
        """Leave out the rows of runs that the job has dropped; most frames have none."""
        oldest = intervals.min()
        if not isinstance(oldest, int) or oldest > self.progress.dropped[-1][1]:
            return frame
        for after, through in self.progress.dropped:
            if through >= oldest:
                kept = ~intervals.is_between(after + 1, through)
                frame, intervals = frame.filter(kept), intervals.filter(kept)
        return frame

    def _insert(self, paos: pl.DataFrame) -> None:
        for interval, part in _by_interval(paos):
            tree = self._trees.get(interval)
            if tree is None:
                tree = self._trees[interval] = BufferTree(self.plan.schema)
            tree.insert(part)

    def _seal_one(self, floor: int, through: int) -> Snapshot:
        """Seal the intervals of (floor, through], and bring what is late of those before as far as there is room."""
        progress, agent = self.progress, self.agent_id
        # What is sealed now goes first, for labels claim that it is here; then what is late, the oldest first.
        due = sorted((interval for interval in self._trees if interval <= through), key=lambda i: (i <= floor, i))
        rows = pl.concat([self.plan.schema.empty(), *(self._trees.pop(interval).snapshot() for interval in due)])
        partial = {} if progress.partial_before is None else {agent: progress.partial_before}
        lost = {agent: progress.lost} if progress.lost else {}
        notes = Notes(late=progress.late, gaps=progress.gaps, partial_before=partial, lost=lost)
        fitted = fit(notes, agent, progress.owed, rows, int((rows[INTERVAL] > floor).sum()))
        self.progress = replace(progress, sealed=through, late=0, gaps=fitted.gaps, owed=fitted.owed)
        self._insert(fitted.rest)
        self.dirty = True
        self._told = self._told if self._told is not None or not lost or through <= self._doubtful else through
        snapshot = Snapshot(through, fitted.payload)
        if not self.is_exact:
            self._unsettled[through] = snapshot
            if due or progress.gaps:
                spans = [*((interval, interval) for interval in due), *progress.gaps]
                self._intervals[through] = min(first for first, _ in spans), max(last for _, last in spans)
        return snapshot


def _joined(runs: tuple[tuple[int, int], ...], run: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Add a run after the others; it is part of the last one where it continues it. The oldest are forgotten."""
    if runs and runs[-1][1] == run[0]:
        return (*runs[:-1], (runs[-1][0], run[1]))
    return (*runs[1 - DROPPED_MAX :], run)


def _with_loss(runs: tuple[tuple[int, int], ...], run: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Add a run; when there are too many the last one spans two, which is pessimistic, not wrong."""
    if len(runs) < LOST_MAX:
        return (*runs, run)
    return (*runs[:-1], (min(runs[-1][0], run[0]), max(runs[-1][1], run[1])))


def _by_interval(paos: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """Split a frame by interval; mostly there is only one."""
    intervals = paos[INTERVAL]
    first = intervals.min()
    if first is None or first == intervals.max():
        return [] if first is None else [(intervals[0], paos)]
    return [(interval, part) for (interval,), part in paos.partition_by(INTERVAL, as_dict=True).items()]
