"""Keeps a job's table in step with the archives: look, note what waits, compute a pass, put it in its place, note that.

Every step can be cut short and is done again from the records: windows are recomputed whole, from all files that are
there, so to do one twice changes nothing. What is touched is noted before any window is replaced, so a file that was
counted is never forgotten, even if it goes before the windows are done. docs/OFFLINE.md, Pipeline.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from elf.agents.archive.evolution import common_types
from elf.agents.archive.layout import LISTINGS_MAX, MIXED, ArchivedFile, ArchiveError, DamagedFileError
from elf.agents.archive.place import Place
from elf.agents.archive.reader import hours_in
from elf.agents.archive.removed import Span, join_spans
from elf.agents.errors import ElfError, JobSpecError
from elf.agents.language.query import columns_read
from elf.offline.events import find_files
from elf.offline.grid import PASS_WINDOWS_MAX
from elf.offline.pipeline.computing import SparkCompute
from elf.offline.pipeline.due import SPANS_MAX, Pass, Schedule, without
from elf.offline.pipeline.growth import compare_files
from elf.offline.pipeline.table import Progress, Table, TableText
from elf.offline.plan import SparkPlan
from elf.offline.progress import Steps
from elf.offline.removed import removed_hours, removed_records
from elf.offline.session import OfflineError

#: In all of the archives, for want of which nothing is computed.
_NO_COLUMN = "the archives have no column {name!r} yet; declare it under [columns], or look at the job's query"


@dataclasses.dataclass(frozen=True)
class PipelineJob:
    """What a pipeline needs of a definition.

    Attributes:
        columns: types by name; those that are not here are as the archives have them.
        names: of a job that agents run: names of those that are, or were, expected, by their ids.
        roster: names of those that are expected now.
    """

    creator: str
    name: str
    source: str
    query: str
    columns: Mapping[str, str]
    lateness_ms: int
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    roster: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where results go and how often.

    Attributes:
        archives: archive folders, of all agents that have the source.
        out: the folder of all jobs' results.
        since_ms: windows that begin before are left alone; of a total, event time it counts from.
        trigger_ms: how long from one look at the archives to the next; None: once.
        master: Spark's master.
        conf: Spark's settings.
    """

    archives: Sequence[Place]
    out: Path
    since_ms: int | None = None
    trigger_ms: int | None = None
    master: str = "local[*]"
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Done:
    """One pass: windows that were computed, how many have rows, event time, and the events of the files read."""

    windows: int
    with_rows: int
    since_ms: int | None
    until_ms: int | None
    files: int
    events: int


class Pipeline:
    """Brings a table in step, pass by pass.

    Args:
        job: the job.
        settings: see there; of them, the folders and `since_ms`.
        compute: computes windows.
        now_ms: wall clock.
        say: told what a person should know, once each.
        steps: is told how far it is.

    Raises:
        JobSpecError: the query is not in the job language.
    """

    def __init__(
        self,
        job: PipelineJob,
        settings: Settings,
        compute: SparkCompute,
        now_ms: Callable[[], int],
        say: Callable[[str], None] = lambda what: None,
        steps: Steps | None = None,
    ) -> None:
        self._job = job
        self._settings = settings
        self._compute = compute
        self._now_ms = now_ms
        self._say = say
        self._steps = steps or Steps()
        self._plan = SparkPlan(job.query)
        window = self._plan.query.window
        self._schedule = Schedule(window, settings.since_ms)
        self._text = TableText(job.source, job.query, dict(job.columns), None if window else settings.since_ms)
        self.table = Table(settings.out, job.creator, job.name)
        self._listed: list[ArchivedFile] = []
        self._said: set[str] = set()
        self._computed = 0

    def step(self, ended_ms: int) -> Done | None:
        """Look at the archives and compute one pass; None if nothing that ended by `ended_ms` waits.

        Raises:
            ElfError: one clear sentence; the table is as good as before, and the step may be repeated.
        """
        for _ in range(LISTINGS_MAX):
            try:
                with self.table.locked(lambda: self._say_once("waiting for another pipeline on the same table")):
                    return self._step(ended_ms)
            except ElfError:
                # Retention, or a merge that was waited for long enough, takes files away from under Spark.
                if all(file.path.exists() for file in self._listed):
                    raise
        raise ArchiveError("files of the archives are removed faster than they can be read; try again")

    def _step(self, ended_ms: int) -> Done | None:
        self._listed = []
        self.table.open(self._text)
        progress = self._look(self.table.progress())
        chosen = self._schedule.next(progress.waiting, ended_ms, PASS_WINDOWS_MAX)
        if chosen is None:
            return None
        assert progress.columns is not None
        self._steps.total("windows", self._computed + self._schedule.count(progress.waiting, ended_ms))
        files = [file for file in self._listed if _overlaps(file, chosen)]
        with self.table.staging() as folder:
            staged: dict[int | None, Path] = {}
            if files or chosen.grid is None:
                staged = self._compute(files, progress.columns, chosen, self._now_ms(), folder)
            self.table.replace((None,) if chosen.grid is None else chosen.grid.starts, staged)
        waiting = without(progress.waiting, [chosen.starts])
        self.table.note(Progress(progress.taken, tuple(waiting), progress.columns))
        self._computed += chosen.count
        self._steps.done(chosen.count)
        events = sum(file.entry.rows for file in files)
        return Done(chosen.count, len(staged), chosen.since_ms, chosen.until_ms, len(files), events)

    def _look(self, before: Progress) -> Progress:
        """List the archives and note durably what they have become and which windows that touches."""
        self._listed = find_files(self._settings.archives, self._job.source)
        # After the listing: whatever was gone from it was on record before it went.
        removed = removed_records(self._settings.archives, self._job.source)
        growth = compare_files(before.taken, self._listed, _times)
        if lost := set(growth.vanished) - {record.agent for record in removed}:
            lost_names = ", ".join(sorted(self._job.names.get(agent, agent) for agent in lost))
            raise OfflineError(
                f"{self.table.folder} has events of {lost_names}, and no folder given has any file of theirs; "
                "name their archives with --archive, or begin a new table with another --out"
            )
        found = {self._job.names.get(file.entry.agent) for file in self._listed}
        if unseen := sorted(set(self._job.roster) - found):
            self._say_once(
                f"no archive of {', '.join(unseen)} is among the folders given, or it has no event yet; add it with "
                "--archive, or the table lacks what results of agents have"
            )
        waiting = join_spans([*before.waiting, *self._schedule.touched(growth.spans)], SPANS_MAX)
        gone = self._schedule.touched(span for record in removed for span in record.between(None, None))
        kept = without(waiting, gone)
        if kept != waiting:
            hours = removed_hours(removed, self._settings.since_ms, None)
            self._say_once(f"{hours}; windows that need them are left as they are" + self._advice())
        columns = self._columns(before.columns)
        after = Progress(growth.taken, tuple(kept), columns)
        if after != before:
            self.table.note(after)
        return after

    def _advice(self) -> str:
        if self._plan.query.window is not None:
            return ""
        return ": a job without a window counts everything, so its total stops here; use --since, or give it a window"

    def _columns(self, known: dict[str, str] | None) -> dict[str, str] | None:
        """Return in which types the query reads the archive: the same ones for all windows of a table."""
        declared = {name.lower(): (name, kind) for name, kind in self._job.columns.items()}
        if known is not None:
            for name, kind in known.items():
                if name.lower() in declared and declared[name.lower()][1] != kind:
                    raise OfflineError(
                        f"{self.table.folder} was computed with column {name!r} as {kind}, and the job now declares it "
                        f"as {declared[name.lower()][1]}; give another --out, or the job another name"
                    )
                # A declared INT is what agents read, too: what does not fit is null. Nobody chose it for this one.
                wider = [file for file in self._listed if file.entry.columns.get(name) == "BIGINT"]
                if name.lower() not in declared and kind == "INT" and wider:
                    raise OfflineError(
                        f"{self.table.folder} was computed with column {name!r} as INT, and it is BIGINT by now, first "
                        f"in {wider[0].path}; give another --out, or declare the column as INT to go on"
                    )
            return known
        if not self._listed:
            return None
        stored = common_types(self._listed, {name for file in self._listed for name, _ in file.entry.typed})
        names = {name.lower(): (name, kind) for name, kind in stored.items()} | declared
        wanted = columns_read(self._plan.query)
        for name in wanted:
            if name.lower() not in names:
                raise JobSpecError(_NO_COLUMN.format(name=name))
        return dict(names[name.lower()] for name in wanted)

    def _say_once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(what)


def run_pipeline(
    job: PipelineJob,
    settings: Settings,
    *,
    steps: Steps | None = None,
    done: Callable[[Done], None] = lambda done: None,
    say: Callable[[str], None] = lambda what: None,
    compute: SparkCompute | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Bring a job's table in step with the archives once, or again and again until interrupted.

    Args:
        job: the job.
        settings: where from, where to, how often.
        steps: is told how far it is.
        done: is told of each pass when it is in its place.
        say: is told what a person should know.
        compute: computes windows; default: Spark.
        now_ms: wall clock.
        sleep: waits for so many seconds.

    Raises:
        ElfError: one clear sentence; nothing is lost, and the pipeline can be run again.
    """
    steps = steps or Steps()
    if compute is None:
        compute = SparkCompute(SparkPlan(job.query), settings.master, settings.conf, steps)
    pipeline = Pipeline(job, settings, compute, now_ms, say, steps)
    while True:
        begun_ms = now_ms()
        while (one := pipeline.step(begun_ms - job.lateness_ms)) is not None:
            done(one)
        if settings.trigger_ms is None:
            return
        steps.say("waiting for the archives to grow")
        sleep(max(0, begun_ms + settings.trigger_ms - now_ms()) / 1_000)


def _times(file: ArchivedFile) -> list[Span]:
    """Return the event times of a file: its first to its last, of one with many hours the hours of its events."""
    if MIXED not in file.entry.path:
        return [(file.entry.first_ms, file.entry.last_ms + 1)]
    try:
        return hours_in(file.path)
    except (OSError, pl.exceptions.PolarsError) as error:
        kind = ArchiveError if isinstance(error, OSError) else DamagedFileError
        raise kind(f"{file.path} cannot be read: {error}") from None


def _overlaps(file: ArchivedFile, chosen: Pass) -> bool:
    first_ms, last_ms = file.entry.first_ms, file.entry.last_ms
    return (chosen.until_ms is None or first_ms < chosen.until_ms) and (
        chosen.since_ms is None or last_ms >= chosen.since_ms
    )
