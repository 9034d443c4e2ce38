"""One source at one agent: lines read, parsed once for all jobs, handed on, and checkpointed (DESIGN 3.1 to 3.4).

Runs in the agent's data thread, one call at a time; the event loop only awaits it. A checkpoint is one transaction:
positions, counters, open PAOs and sealed snapshots of all jobs on this source. One that could not be written is tried
again before anything else happens.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Mapping, Sequence

import msgspec
import polars as pl

from elf.agents.archive.archive import Archive
from elf.agents.errors import UnavailableError
from elf.agents.host.clock import Doubt
from elf.agents.intake.backlog import Backlog
from elf.agents.intake.batches import Gathering, events_of
from elf.agents.intake.clock_steps import SetBack
from elf.agents.intake.decoder import Decoder, Recognised
from elf.agents.intake.lost_lines import LastTimes
from elf.agents.intake.progress import EventTime, SourceProgress
from elf.agents.intake.pump_settings import PumpClock, PumpSettings, Reading
from elf.agents.intake.recognition import Recognition
from elf.agents.intake.rejections import Rejecting
from elf.agents.intake.source_checkpoints import Sealed, SourceCheckpoint, SourceCheckpoints
from elf.agents.intake.verdicts import Verdicts
from elf.agents.jobs.versions import Versions
from elf.agents.sources.counters import Counters, Oddities, Parsed
from elf.agents.sources.files.rotation import Position
from elf.agents.sources.files.tail import Chunk, Tail
from elf.agents.sources.rejected import RejectedLines
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.worker.sharing.parse import Parsing
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.state import Snapshot, SourceState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import NEVER, Verdict


class Pump:
    """Drives one source.

    Args:
        settings: how.
        tail: its files, not yet restored.
        decoder: how its lines become events, or what finds that out.
        checkpoints: where progress becomes durable.
        archive: the Parquet copy, or None when off.
        rejected: where lines that do not parse are kept.
        clock: the agent's.
    """

    def __init__(
        self,
        settings: PumpSettings,
        tail: Tail,
        decoder: Decoder | Recognition,
        checkpoints: Checkpoints,
        archive: Archive | None,
        rejected: RejectedLines,
        clock: PumpClock,
    ) -> None:
        self.source = settings.source
        self._recognition = decoder if isinstance(decoder, Recognition) else None
        #: How lines become events; None until that is known, and nothing is read before.
        self.decoder = decoder if isinstance(decoder, Decoder) else None
        #: There are lines, and nobody knows what they are.
        self.is_format_open = False
        self.tail = tail
        self.counters = Counters()
        #: Since this start; unlike `counters` they are not part of the checkpoint.
        self.oddities = Oddities()
        self._time = EventTime(clock())
        self._last_times = LastTimes({}, None)
        #: Why lines may be out of sight, as of the last step.
        self.troubles: list[str] = []
        self._backlog = Backlog(settings.chunk_bytes)
        self.workers = Workers()
        self.progressed_ms = clock()
        self._checkpoints = SourceCheckpoints(
            settings.source, checkpoints, archive, usual_ms=settings.checkpoint_ms, now_ms=clock()
        )
        self._archive = archive
        self.now_ms = clock
        self._chunk_bytes = settings.chunk_bytes
        self.from_end = settings.from_end
        self._ahead_ms_max = settings.ahead_ms_max
        self._set_back = SetBack(settings.source, clock())
        self._has_sealed = False
        #: Lines were read that are not all taken in: while that lasts, or if it fails, nothing may become durable.
        self._is_half_done = False
        self._verdicts = Verdicts(self.workers, checkpoints, clock)
        self._restore(self._checkpoints.restore())
        #: On a new disk all pushed lines of before are gone; that some are dated before says nothing, they may be late.
        is_first = not self._checkpoints.sequence and checkpoints.predecessor is None
        self._gone_ms = clock() if tail.is_own and is_first else None
        had_events = self.counters.parsed > 0
        self._rejected = rejected
        self.rejecting = Rejecting(settings.source, rejected, had_events=had_events)
        #: No more is read, for good; intervals end by the time of day, until nothing of them is left here.
        self.is_leaving = False
        #: Of a source that is being left: by tree, the last interval whose verdict is waited for.
        self._left: dict[bytes, int] = {}

    def _restore(self, state: SourceState | None) -> None:
        """Go on where a checkpoint ends, if there is one."""
        if state is None:
            return
        progress = msgspec.json.decode(state.counters, type=SourceProgress)
        self.tail.restore(state.positions, progress.begun_late)
        self.counters = progress.counters
        self._time.newest_ms = progress.newest_ms
        self._time.seen_ms = progress.seen_ms
        self._time.read_ms = progress.read_ms
        self._last_times = LastTimes(progress.logs, progress.newest_ms)
        if self._recognition is not None:
            self.decoder = self._recognition.recall(progress.recognised)

    @property
    def newest_ms(self) -> int | None:
        """The newest event time that is not ahead of our clock."""
        return self._time.newest_ms

    @property
    def is_behind(self) -> bool:
        """Whether there was more to read after the last step."""
        return self._backlog.is_left

    def stalled_ms(self) -> int:
        """Return for how long lines have been waiting while none was read; 0 when none wait."""
        waiting = bool(self.workers) and self._time.idle_since_ms is None
        return self.now_ms() - self.progressed_ms if waiting else 0

    def attach(self, *workers: Worker) -> None:
        """Feed workers from the next line on; a new one learns from which interval on it will have all events.

        If a worker of this tree is fed already, it stays: what it was given since the last checkpoint is only there.
        """
        attached = [worker for worker in workers if worker.tree not in self.workers]
        for worker in attached:
            if worker.new:
                worker.begin(self._partial_before(worker.versions), self._gone_ms)
                self.rejecting.tell(worker)
            else:
                worker.adopt(worker.versions, self._unread(worker.versions))
        for worker in attached:
            self._feed(worker)

    def change(self, tree: bytes, versions: Versions) -> None:
        """Let a worker go on with other versions of its job, from the next line on."""
        worker = self.workers.get(tree)
        if worker is not None and worker.versions.newest.version.number < versions.newest.version.number:
            self.workers.adopt(tree, versions, self._unread(versions))
            self.rejecting.tell(worker)

    def _feed(self, worker: Worker) -> None:
        if worker.progress.sealed is not None:
            # Or nothing would leave until the machine's clock, set back meanwhile, is there again.
            closed_ms = worker.versions.end_ms(worker.progress.sealed)
            self.now_ms.advance_to(closed_ms + worker.plan.definition.options.lateness_ms)
        self._set_back.forget()
        worker.resume(self.now_ms(), self.workers.read)
        self.workers[worker.tree] = worker
        self.progressed_ms = self.now_ms()

    def refit(self, reading: Reading) -> None:
        """Go on by other settings, from the next line on; to be called between two steps, never fails.

        What is read stays read: a path that was followed before goes on where it was left. Lines and workers stay as
        they are; an agent that falls before the next checkpoint starts again by the settings that it then has.
        """
        settings = reading.settings
        self.tail.redirect(reading.patterns, "end" if settings.from_end else "beginning")
        self._recognition = reading.recognition
        self.decoder = reading.decoder
        self._chunk_bytes = settings.chunk_bytes
        self._backlog = Backlog(settings.chunk_bytes)
        self._ahead_ms_max = settings.ahead_ms_max
        self.from_end = settings.from_end
        self._checkpoints.pace.usual_ms = settings.checkpoint_ms
        if self._archive is not None:
            self._archive.rows_max = reading.archive_rows_max
        # Whether lines fit the new format their first ones are to say.
        self.rejecting = Rejecting(settings.source, self._rejected, had_events=False)
        self.troubles = []
        self.is_leaving = False

    def leave(self) -> None:
        """Read no more; what is open ends by the time of day, and the files are closed."""
        self.is_leaving = True
        self._left = {}
        self.troubles = []
        self.tail.close()

    def held(self) -> list[bytes]:
        """Return, of a source that is being left, the trees whose masters may lack some of what was read of it."""
        self.workers.take_in()
        held = []
        for tree, worker in self.workers.items():
            settled = worker.progress.settled
            left = self._left.get(tree, NEVER)
            if tree not in self._left or worker.open.ends or worker.progress.owed:
                left = self._left[tree] = max(left, worker.held_through)
            if left != NEVER and (settled is None or settled < left):
                held.append(tree)
        return held

    @property
    def recognised(self) -> Recognised | None:
        """What its lines were found to be, where the settings leave that open."""
        return None if self._recognition is None else self._recognition.recognised

    def adopt(self, source: SourceState, workers: Sequence[Worker]) -> None:
        """Go on, durably, where another agent's checkpoint ends; before any line is read, with all its workers."""
        assert not self.workers
        self._restore(self._checkpoints.adopt(source, [worker.state(last=True) for worker in workers]))
        self.attach(*workers)

    @property
    def held_up(self) -> bool:
        """Whether a checkpoint waits that could not be written; the next one writes it as it was."""
        return self._checkpoints.is_held_up

    def detach(self, tree: bytes) -> None:
        """Stop feeding a worker."""
        self.workers.part_with(tree)

    def saved_place(self, path: str) -> Position | None:
        """Return how far the file at a path was read at the last checkpoint; None of files that were there before."""
        return self._checkpoints.saved_place(path)

    def settle(self, tree: bytes, verdict: Verdict) -> concurrent.futures.Future[None]:
        """Queue a verdict for the next checkpoint, from any thread; the future is done once that is durable."""
        return self._verdicts.put(tree, verdict)

    def doubt(self, since_ms: int) -> None:
        """Label all results from a time on: what was sent of this source may not be what was counted."""
        self.workers.note_gap(since_ms, self.now_ms())

    def step(self) -> bool:
        """Read and process lines, as many as are worth it; return whether there were any. Without workers: none."""
        self._refuse_half_done()
        if self.held_up or not self.workers:
            return False
        if self.is_leaving:
            self._time.rest(True, self.now_ms())
            return False
        decoder = self.decoder or self._recognise()
        if decoder is None:
            return False
        self.tail.carrier = decoder.format.carrier
        chunk = self._next_chunk(first=True)
        if chunk is None:
            return False  # of most sources most of the time
        literals = [] if self._archive is not None else self.workers.literals
        texts = decoder.redactor.literals(literals)
        ways = self.workers.parsings(decoder.columns if self._archive is not None else {})
        redacted = decoder.redactor.message
        latest_ms = None if self._ahead_ms_max is None else self.now_ms() + self._ahead_ms_max
        columns = [way.columns for way in ways]
        coded = decoder.dictionaries
        lines = Gathering(decoder.format, texts, columns, self._chunk_bytes, redacted, latest_ms, coded)
        while chunk is not None:
            lines.add(chunk.stream, chunk.data, chunk.carried)
            is_enough = not self._backlog.is_large or lines.is_enough
            chunk = None if is_enough else self._next_chunk(first=False)
        for stream, (first, *others) in lines.take():
            self._take(decoder, first, ways[0], stream)
            for way, other in zip(ways[1:], others, strict=True):
                # Lines are counted, and rejected, the first time.
                for part in other:
                    self.workers.note_mistyped(part.mistyped, way)
                self.workers.insert(decoder.redactor.events(events_of(other)), way)
        self._is_half_done = False
        return True

    def _recognise(self) -> Decoder | None:
        """Find out what the lines are, if they tell by now."""
        assert self._recognition is not None
        before_ms = self.now_ms()
        self.decoder, trouble = self._recognition.look()
        self.is_format_open = self.decoder is None and trouble is not None
        if self.decoder is None:
            self.tail.look()
            self.troubles = [*([] if trouble is None else [trouble]), *self.tail.troubles]
            self._time.rest(not self.troubles and not self.tail.waiting, before_ms)
        return self.decoder

    def _refuse_half_done(self) -> None:
        if self._is_half_done or self.workers.is_half_done:
            raise UnavailableError(f"source {self.source} has failed in the middle of some lines: restart the agent")

    def _next_chunk(self, *, first: bool) -> Chunk | None:
        """Read one chunk, the first or another one of those that are parsed together; None: there is none now."""
        before_ms = self.now_ms()
        try:
            chunk = self.tail.read(self._chunk_bytes)
        except OSError:
            if first:
                raise
            return None  # what was read goes first
        self._time.read_ms = self.now_ms()
        for gap in self.tail.take_gaps():
            # What vanished was written after the last line that we read of its file, and before now.
            self.workers.note_gap(self._last_times.since_ms(gap.stream, gap.file), before_ms)
        if (span := self._set_back.note(self.now_ms.ahead_ms(), before_ms)) is not None:
            self.workers.note_gap(*span)
        self.troubles = self.tail.troubles
        if chunk is None:
            if first:  # or the next step will look again
                self._time.rest(self.tail.at_end, before_ms)
                self._backlog.end()
            return None
        self.progressed_ms = before_ms
        self._is_half_done = True
        self._backlog.note(chunk.stream, len(chunk.data), self.tail.waiting)
        # While the clock is set back or ahead, events show nothing new: that there are no more of them has to do, as at
        # the end of all files, which a busy log never stands at.
        shows_nothing = self._set_back.lasts or self.now_ms.doubt() is Doubt.AHEAD
        self._time.idle_since_ms = before_ms if shows_nothing and not self.is_behind else None
        self._time.reading(before_ms)
        self._last_times.reading(chunk.stream, (chunk.position_after.device, chunk.position_after.inode))
        return chunk

    def _take(self, decoder: Decoder, parts: Sequence[Parsed], parsing: Parsing, stream: str) -> None:
        now_ms = self.progressed_ms
        for part in parts:
            self.counters += part.counters
            self.oddities += part.oddities
            newest_ms = self._last_times.newest_ms(stream)
            gap = self.rejecting.take(decoder, part, stream, newest_ms, self._time.rested_ms, now_ms)
            self.workers.note_lines(part.counters, gap)
            self.workers.note_mistyped(part.mistyped, parsing)
        events = events_of(parts)
        if not events.height:
            return
        events = decoder.redactor.events(events)
        if stream in self.tail.begun_late:
            # What it was rotated to before was written before its first event, and is not read.
            self.tail.begun_late.discard(stream)
            self.workers.note_gap(None, int(events["ts"].cast(pl.Int64)[0]))
        # Times are in milliseconds already; `dt.epoch` would be a query of its own.
        self._last_times.note(stream, self._time.note(stream, events["ts"].cast(pl.Int64), now_ms))
        self.workers.insert(events, parsing)
        if self._archive is not None:
            self._archive.append(events)

    def watermark_ms(self) -> int | None:
        """Return the event time before which no more events are expected; None before there is any sign of it.

        While a file is out of sight, or the time is not known, it stands still: the master then names this agent
        missing, rather than taking silence for "no events".
        """
        if self.troubles or (self.now_ms.doubt() is Doubt.UNHEARD and not self._has_sealed):
            return None  # one that went on alone is not held up by whoever comes
        watermark_ms = self._time.watermark_ms(self.tail.waiting)
        # What was seen may be from before the clock was found to be ahead.
        return None if watermark_ms is None else min(watermark_ms, self.now_ms())

    def checkpoint(self, *, force: bool = False) -> Sequence[Sealed]:
        """Seal what the watermark has closed and make everything durable, if it is time; return the new snapshots.

        With `force`, at once, and with all there is whatever the jobs' semantics: before a stop, or a job is taken up.

        Raises:
            OSError, sqlite3.Error: it could not be written, or the last one's events cannot be shown in the archive;
                the next call tries again.
            UnavailableError: a step has failed in the middle; the next start reads its lines again.
        """
        self._refuse_half_done()
        self._checkpoints.show_archived()
        told: list[Sealed] = []
        started_ms = self.now_ms.up_ms()
        if not self.held_up:
            self._verdicts.apply()
            now_ms = self.now_ms()
            watermark_ms = self.watermark_ms()
            sealed = self.workers.seal(watermark_ms)
            # Nothing that would have to be durable: it is there already, and only says where we are.
            told = [Sealed(tree, Snapshot(through, None)) for tree, through in self.workers.overtaken()]
            if watermark_ms is not None and any(sealed.values()):
                self.now_ms.advance_to(watermark_ms)
                self._has_sealed = True
            early = [
                Sealed(tree, snapshot)
                for tree, snapshots in sealed.items()
                if self.workers[tree].sends_early and not force
                for snapshot in snapshots
            ]
            waits = sum(map(len, sealed.values())) > len(early)
            if early and not waits:
                return [*told, *early]  # on disk with the next checkpoint
            # What is sealed is waited for, and does not wait for the disk to rest.
            if not (force or waits or self._is_overdue(now_ms)):
                return told
            self._checkpoints.make(self._collect(sealed, last=force))
        made = self._checkpoints.write()
        self._verdicts.acknowledge()
        self._checkpoints.pace.made(self.now_ms())
        # Whatever the archive does, the tree must have these snapshots before later ones, which would speak for their
        # intervals, too. The next call says what is wrong.
        with contextlib.suppress(OSError):
            self._checkpoints.show_archived()
        self._checkpoints.pace.cost(self.now_ms.up_ms() - started_ms)
        return [*told, *made.snapshots]

    def _is_overdue(self, now_ms: int) -> bool:
        """Whether it is time for a checkpoint though nothing is sealed."""
        pace = self._checkpoints.pace
        if not pace.may(now_ms):
            return False
        if self._verdicts.awaited:
            return True
        if not pace.is_due(now_ms):
            return False
        if self.workers.has_changed():
            return True
        pace.made(now_ms)  # nothing there is would have to be durable, and to know that costs each job
        return False

    def _partial_before(self, versions: Versions) -> int | None:
        """Return the first interval a worker attached now gets all events of; None when it gets all there ever were."""
        if self.counters.read == 0 and not self.from_end:
            return None
        passed_over = bool(self.counters.filtered) or not self.workers
        return self._time.partial_before(versions, passed_over=passed_over, now_ms=self.now_ms())

    def _unread(self, versions: Versions) -> int | None:
        """Return the first interval of which no event was read; None when no line was, of all there ever were."""
        if self.counters.read == 0 and not self.from_end:
            return None
        return self._time.unread(versions, passed_over=bool(self.counters.filtered), now_ms=self.now_ms())

    def _collect(self, sealed: Mapping[bytes, Sequence[Snapshot]], *, last: bool) -> SourceCheckpoint:
        states = self.workers.states(sealed, last=last)
        time = self._time
        progress = SourceProgress(
            counters=self.counters,
            newest_ms=time.newest_ms,
            seen_ms=time.seen_ms,
            read_ms=time.read_ms,
            logs=self._last_times.logs,
            recognised=self.recognised,
            begun_late=tuple(sorted(self.tail.begun_late)),
        )
        encoded = msgspec.json.encode(progress)
        return SourceCheckpoint(self.tail.positions(), encoded, self.tail.followed(), states, sealed)
