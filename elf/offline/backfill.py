"""`elf backfill`: intervals of before a job was published, computed by Spark from the archives, loaded into its panes.

Owns which intervals are computed, in how many passes, and what is said of agents whose archives lack some of them. What
may be loaded is the job's master's to say (`agents.masters.backfilling`), and it says so again at each load: to
begin again after an interruption, or twice at once, costs time and counts nothing twice. docs/OFFLINE.md.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from agents.archive.layout import ArchivedFile
from agents.errors import JobError, UnavailableError
from agents.jobs.definition import Definition, check_definition
from agents.jobs.plan import Plan, compile_job
from cbt import INTERVAL, split
from elf.client.results import Intervals
from elf.offline.asking import DescribingClient, JobText, Reach, describe
from elf.offline.events import find_files, read_events
from elf.offline.panes import cut, read_frames, whole_runs
from elf.offline.progress import Steps
from elf.offline.session import OfflineError, in_one_sentence, open_session
from elf.offline.states import state_frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bytes of archive that one pass of Spark's computes: a few million events.
PASS_BYTES = 64 << 20
#: How long an interval takes to be committed after it has ended and been waited for.
COMMIT_MS = 10_000
_LOOK_S = 0.25


class LoadingClient(DescribingClient, Protocol):
    """What backfill asks an agent."""

    def load(self, name: str, intervals: Intervals) -> None:
        """Load intervals into the job."""
        ...


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
    archives: Sequence[Path],
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
    job, plan = _ready(client, name, say)
    interval_ms = plan.interval_ms
    reaches = _reaches(job)
    files = [file for file in find_files(archives, job.source) if file.entry.rows]
    coverage = _Coverage(files, reaches, interval_ms)
    if coverage.unseen and not incomplete:
        raise OfflineError(
            f"no archive of {', '.join(coverage.unseen)} is among the folders given, or it has no event yet; add it "
            "with --archive, or say --incomplete: windows then name who is missing"
        )
    first_ms, until_ms, notes = _span(files, reaches, since_ms)
    first, until = first_ms // interval_ms, until_ms // interval_ms
    if first >= until:
        return Backfill(job.key, until_ms, until_ms, 0, 0, 0, notes=(*notes, "agents have counted all there is"))
    steps.total("intervals", until - first)
    steps.say("starting Spark")
    spark = open_session(master, conf)
    loader = _Loader(client, name, plan, reaches, coverage)
    events = rows = 0
    with tempfile.TemporaryDirectory(prefix="elf-backfill-", dir=scratch) as folder:
        for number, (begin, end) in enumerate(_passes(files, first, until, interval_ms)):
            span = begin * interval_ms, end * interval_ms
            within = [file for file in files if file.entry.first_ms < span[1] and file.entry.last_ms >= span[0]]
            # A file that reaches into several passes is counted with the first.
            fresh = sum(file.entry.rows for file in within if span[0] <= file.entry.first_ms)
            with in_one_sentence(), steps.computing(spark, fresh):
                computed = _compute(spark, plan, job, within, span, Path(folder) / str(number))
            loader.load(computed, begin, end - 1)
            events, rows = events + fresh, rows + computed.height
            steps.done(end - begin, f"{rows:,} rows loaded")
    missing = tuple(sorted(loader.missing))
    return Backfill(job.key, first * interval_ms, until_ms, until - first, rows, events, missing, notes)


def _ready(client: DescribingClient, name: str, say: Callable[[str], None]) -> tuple[JobText, Plan]:
    """Wait until the job has committed all that agents lack, or for as long as an interval may take; return it.

    Raises:
        JobError: the job has no windows.
        UnavailableError: it has not committed anything in that time.
    """
    begun_s, told = time.monotonic(), False
    while True:
        job = describe(client, name)
        if job.window is None:
            raise JobError(f"{name} has no window: it counts since it began, and has no intervals to backfill")
        plan, reaches = _plan_of(job), _reaches(job)
        if all(_is_settled(reach) for reach in reaches):
            return job, plan
        patience_ms = 2 * plan.interval_ms + job.options.lateness_ms + COMMIT_MS
        if (time.monotonic() - begun_s) * 1000 > patience_ms:
            if any(reach.until_ms is None for reach in reaches):
                raise UnavailableError(f"{name} has not had a result in {patience_ms // 1000} s; try again once it has")
            return job, plan
        if not told:
            say(f"waiting up to {patience_ms // 1000} s for what agents have begun to be in a result")
            told = True
        time.sleep(_LOOK_S)


def _reaches(job: JobText) -> list[Reach]:
    """Return what may be backfilled of each part of a job.

    Raises:
        JobError: the agent does not say it.
        UnavailableError: a part's master does not answer.
    """
    if trouble := next((part.trouble for part in job.parts if part.trouble is not None), None):
        raise UnavailableError(f"a part of {job.key} cannot be asked: {trouble}")
    said = [part.backfill for part in job.parts] or [job.backfill]
    reaches = [reach for reach in said if reach is not None]
    if len(reaches) < len(said):
        raise JobError(f"the agent does not say what may be backfilled of {job.key}: is it an older version?")
    return reaches


def _is_settled(reach: Reach) -> bool:
    """Tell whether every agent has been counted, so that it is known which events each of them lacks."""
    return reach.until_ms is not None and all(each.through_ms is not None for each in reach.agents)


def _plan_of(job: JobText) -> Plan:
    definition = Definition(
        name=job.name,
        creator=job.creator,
        source=job.source,
        query=job.query,
        columns=job.columns,
        options=job.options,
    )
    check_definition(definition)
    return compile_job(definition, definition.types)


def _span(files: Sequence[ArchivedFile], reaches: Sequence[Reach], since_ms: int) -> tuple[int, int, tuple[str, ...]]:
    """Return the event time to compute: as much of what was asked for as agents lack, and why it is less."""
    first_ms = max(reach.first_ms or 0 for reach in reaches)
    until_ms = min(reach.until_ms or 0 for reach in reaches)
    oldest_ms = min((file.entry.first_ms for file in files), default=until_ms)
    notes: tuple[str, ...] = ()
    if since_ms < first_ms and oldest_ms < first_ms:
        notes = ("the job retains no more; publish it with a longer `retain` for older windows",)
    elif since_ms < oldest_ms:
        notes = ("the archives have nothing older",)
    return max(first_ms, since_ms, oldest_ms), until_ms, notes


class _Coverage:
    """Of which intervals each agent's archive has all events.

    An agent's archive begins somewhere inside the interval of its first event, and is sure to have what the agent was
    counted with: its files are there before its snapshots are handed on. DESIGN section 6: a label may be pessimistic.
    """

    def __init__(self, files: Sequence[ArchivedFile], reaches: Sequence[Reach], interval_ms: int) -> None:
        oldest: dict[str, int] = {}
        for file in files:
            oldest[file.entry.agent] = min(file.entry.first_ms, oldest.get(file.entry.agent, file.entry.first_ms))
        self.names = {each.agent: each.name for reach in reaches for each in reach.agents}
        #: Agent -> the first and the last interval its archive has all events of.
        self._runs: dict[str, tuple[int, int]] = {}
        for agent in self.names:
            throughs = [each.through_ms for reach in reaches for each in reach.agents if each.agent == agent]
            if agent in oldest and None not in throughs:
                last_ms = min(through for through in throughs if through is not None)
                self._runs[agent] = oldest[agent] // interval_ms + 1, last_ms // interval_ms - 1
        self.unseen = sorted(name for agent, name in self.names.items() if agent not in oldest)

    @property
    def bounds(self) -> list[int]:
        """The intervals from which on another agent has all events, or no more."""
        return [bound for first, last in self._runs.values() for bound in (first, last + 1)]

    def missing(self, interval: int) -> list[str]:
        """Return the agents whose archives lack events of an interval, or may."""
        runs = self._runs
        return sorted(
            agent for agent in self.names if agent not in runs or not runs[agent][0] <= interval <= runs[agent][1]
        )


def _passes(files: Sequence[ArchivedFile], first: int, until: int, interval_ms: int) -> Iterator[tuple[int, int]]:
    """Cut [first, until) into runs of intervals of about as many bytes of archive, as far as their hours tell."""
    begin, size = first, 0
    for file in sorted(files, key=lambda file: file.entry.last_ms):
        end = min(file.entry.last_ms // interval_ms + 1, until)
        if end <= first:
            continue
        size += file.entry.bytes
        if size >= PASS_BYTES and begin < end < until:
            yield begin, end
            begin, size = end, 0
    yield begin, until


def _compute(
    spark: SparkSession,
    plan: Plan,
    job: JobText,
    files: Sequence[ArchivedFile],
    span: tuple[int, int],
    folder: Path,
) -> pl.DataFrame:
    """Have Spark compute the PAO rows of a span."""
    if not files:
        return plan.schema.empty()
    columns = {name: job.columns[name] for name in plan.columns}
    for name, frame in state_frames(plan, read_events(spark, files, columns), span):
        frame.write.parquet(str(folder / (name or "plain")))
    return read_frames(folder, plan.schema)


class _Loader:
    """Loads computed intervals into all parts of a job, in the order of time."""

    def __init__(
        self, client: LoadingClient, name: str, plan: Plan, reaches: Sequence[Reach], coverage: _Coverage
    ) -> None:
        self._client, self._name, self._plan, self._reaches, self._coverage = client, name, plan, reaches, coverage
        #: Names of agents that were said to be missing.
        self.missing: set[str] = set()

    def load(self, rows: pl.DataFrame, first: int, last: int) -> None:
        """Load a run of intervals, both ends included."""
        for begin, end in whole_runs(self._coverage.bounds, first, last):
            missing = self._coverage.missing(begin)
            self.missing.update(self._coverage.names[agent] for agent in missing)
            run = rows.filter(pl.col(INTERVAL).is_between(begin, end))
            for part, (reach, own) in enumerate(
                zip(self._reaches, split(run, self._plan.schema, len(self._reaches)), strict=True)
            ):
                for since, until, block in cut(own, self._plan.schema, begin, end):
                    intervals = Intervals(reach.instance, since, until, block, missing, part)
                    self._client.load(self._name, intervals)
