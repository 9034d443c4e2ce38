"""`elf backfill`: intervals of before a job was published, computed by Spark from the archives, loaded into its panes.

Owns which intervals are computed; `passes` says which of them together, `coverage` whose archives lack some. What may
be loaded is the job's master's to say (`elf.agents.master.backfill`), and it says so again at each load: to begin
again after an interruption, or twice at once, costs time and counts nothing twice. docs/OFFLINE.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from elf.agents.archive.layout import ArchivedFile
from elf.agents.archive.place import Place
from elf.agents.completeness.tallies import Tallies
from elf.agents.jobs.intervals import Numbering
from elf.agents.jobs.plan import Plan
from elf.agents.language.instants import instant
from elf.client.results import Intervals, Version
from elf.offline.asking import JobText, Reach
from elf.offline.backfill.coverage import Coverage, has_columns
from elf.offline.backfill.loading import Loader, LoadingClient
from elf.offline.backfill.panes import hand_over, read_frames
from elf.offline.backfill.passes import Pass, cut_passes, in_order
from elf.offline.backfill.ready import reaches_of, wait_ready
from elf.offline.backfill.states import state_frames
from elf.offline.damaged import naming_damages
from elf.offline.events import find_files, read_events
from elf.offline.progress import Steps
from elf.offline.session import OfflineError, in_one_sentence, open_session
from elf.offline.unfit_values import UnfitTimes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclasses.dataclass(frozen=True)
class Backfill:
    """What a backfill loaded.

    Attributes:
        job: `creator/name`.
        start_ms: event time from which on intervals were loaded.
        end_ms: event time up to which they were; `start_ms` where there was nothing to load.
        intervals: how many.
        rows: PAO rows in them.
        events: of the archive, that were read for it.
        missing: names of agents whose archives lack some of it.
        notes: why it is less than was asked for.
    """

    job: str
    start_ms: int
    end_ms: int
    intervals: int
    rows: int
    events: int
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def run_backfill(
    client: LoadingClient,
    name: str,
    since_ms: int,
    archives: Sequence[Place],
    master: str = "local[*]",
    *,
    conf: Mapping[str, str] | None = None,
    incomplete: bool = False,
    scratch: Path | None = None,
    steps: Steps | None = None,
    say: Callable[[str], None] = lambda what: None,
) -> Backfill:
    """Compute the intervals since an event time that agents lack, and load them.

    Args:
        client: asks an agent.
        name: the job's name, or `creator/name`.
        since_ms: event time.
        archives: archive folders, of all agents that have the job's source.
        master: Spark's.
        conf: Spark's settings.
        incomplete: also go on where agents' archives are not among these; results then name them as missing.
        scratch: where Spark leaves what it computed, for all machines of a cluster to see; default: a temporary folder.
        steps: is told how far it is.
        say: is told what is waited for.

    Raises:
        ElfError: one clear sentence: the job cannot be backfilled, Spark or the archive cannot be used.
    """
    steps = steps or Steps()
    job, plan = wait_ready(client, name, say)
    numbering, reaches = plan.numbering, reaches_of(job)
    files = [file for file in find_files(archives, job.source) if file.entry.rows]
    coverage = Coverage(files, reaches, numbering, plan.columns)
    if coverage.unseen and not incomplete:
        raise OfflineError(
            f"no archive of {', '.join(coverage.unseen)} is among the folders given, or it has no event yet; add it "
            "with --archive, or say --incomplete: windows then name who is missing"
        )
    work = _work(files, job, plan, reaches, since_ms)
    count = sum(end - begin for begin, end in work.runs)
    if not count:
        return Backfill(job.key, work.until_ms, work.until_ms, 0, 0, 0, notes=work.notes)
    steps.total("intervals", count)
    steps.say("starting Spark")
    spark = open_session(master, conf)
    loader = Loader(client, name, plan, reaches, coverage)
    passes, lanes = cut_passes(work.files, work.runs, plan, spark.sparkContext.defaultParallelism)
    events = rows = 0
    with tempfile.TemporaryDirectory(prefix="elf-backfill-", dir=scratch) as folder, steps.computing(spark, 0):
        tag = Path(folder).name

        def compute(each: Pass) -> tuple[list[Intervals], int]:
            spark.sparkContext.addJobTag(tag)
            with naming_damages(each.files), in_one_sentence():
                paos, unfit = _compute(spark, plan, job, each, Path(folder) / str(each.begin)), _unfit(plan, job, each)
            return list(loader.pack(paos, unfit, each.begin, each.end - 1)), paos.height

        def abandon() -> None:
            spark.sparkContext.cancelJobsWithTag(tag)

        with contextlib.closing(in_order(compute, passes, lanes, abandon)) as results:
            for each, (intervals, height) in results:
                loader.load(intervals)
                events, rows = events + each.events, rows + height
                steps.done(each.end - each.begin, f"{events:,} events, {rows:,} rows loaded")
    missing = tuple(sorted(loader.missing))
    start_ms = numbering.start_ms(work.runs[0][0])
    return Backfill(job.key, start_ms, work.until_ms, count, rows, events, missing, work.notes)


class _Work(NamedTuple):
    """What is to be computed: runs of intervals, half-open, of files, up to an event time; and why it is not more."""

    runs: list[tuple[int, int]]
    files: list[ArchivedFile]
    until_ms: int
    notes: tuple[str, ...]


def _work(files: Sequence[ArchivedFile], job: JobText, plan: Plan, reaches: Sequence[Reach], since_ms: int) -> _Work:
    whole = [file for file in files if has_columns(file, plan.columns)]
    first_ms, until_ms, notes = _span(whole, job, reaches, since_ms)
    if len(whole) < len(files):
        names = sorted({name for file in files for name in plan.columns if name not in file.entry.columns})
        notes = (*notes, f"the archives have events without {', '.join(names)}, which nobody read then: left out")
    first, until = plan.numbering.number(first_ms), plan.numbering.number(until_ms)
    runs = without_pauses(job.versions, plan.numbering, first, until)
    paused = max(0, until - first) - sum(end - begin for begin, end in runs)
    if paused:
        notes = (*notes, f"the job was paused for {paused} intervals, which count nothing")
    if first >= until:
        notes = (*notes, "agents have counted all there is")
    return _Work(runs, whole, until_ms, notes)


def _span(
    files: Sequence[ArchivedFile], job: JobText, reaches: Sequence[Reach], since_ms: int
) -> tuple[int, int, tuple[str, ...]]:
    """Return the event time to compute: as much of what was asked for as agents lack, and why it is less."""
    first_ms = max(reach.first_ms or 0 for reach in reaches)
    until_ms = min(reach.until_ms or 0 for reach in reaches)
    oldest_ms = min((file.entry.first_ms for file in files), default=until_ms)
    notes: tuple[str, ...] = ()
    version = next((each for each in job.versions if each.version == reaches[0].version), None)
    if since_ms < first_ms and oldest_ms < first_ms:
        notes = ("the job retains no more; publish it with a longer `retain` for older windows",)
        if version is not None and version.begins_ms == first_ms:
            notes = (
                f"the job was changed, and the windows of its version {version.version} begin at {instant(first_ms)}: "
                "those of former versions stay as they are",
            )
    elif since_ms < oldest_ms:
        notes = ("the archives have nothing older",)
    return max(first_ms, since_ms, oldest_ms), until_ms, notes


def without_pauses(versions: Sequence[Version], numbering: Numbering, first: int, until: int) -> list[tuple[int, int]]:
    """Return what of the intervals [first, until) a job counts, as runs of the same kind, ascending."""
    runs, begin = list[tuple[int, int]](), first
    for each in versions:
        if not each.is_paused:
            continue
        since = first if each.since_ms is None else numbering.number(each.since_ms)
        end = until if each.until_ms is None else numbering.number(each.until_ms)
        if since < end and begin < until:
            runs.append((begin, min(since, until)))
            begin = max(begin, end)
    return [(begin, end) for begin, end in [*runs, (begin, until)] if begin < end]


def _compute(spark: SparkSession, plan: Plan, job: JobText, wanted: Pass, folder: Path) -> pl.DataFrame:
    """Have Spark compute the PAO rows of a pass."""
    if not wanted.files:
        return plan.schema.empty()
    columns = {name: job.columns[name] for name in plan.columns}
    span = plan.numbering.start_ms(wanted.begin), plan.numbering.start_ms(wanted.end)
    events = read_events(spark, wanted.files, columns)
    for name, frame in state_frames(plan, events.coalesce(1) if wanted.in_one_task else events, span):
        hand_over(frame, folder, name)
    rows = read_frames(folder, plan.schema)
    shutil.rmtree(folder)
    return rows


def _unfit(plan: Plan, job: JobText, wanted: Pass) -> Tallies:
    """Count the values of a pass that do not fit their columns' types."""
    return UnfitTimes(wanted.files, {name: job.columns[name] for name in plan.columns}).tallies(plan.numbering)
