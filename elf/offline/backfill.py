"""`elf backfill`: intervals of before a job was published, computed by Spark from the archives, loaded into its panes.

Owns which intervals are computed, in how many steps, and what is said of agents whose archives lack some of them. What
may be loaded is the job's master's to say (`agents.masters.backfilling`), and it says so again at each load: to
begin again after an interruption, or twice at once, costs time and counts nothing twice. docs/OFFLINE.md.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import polars as pl

from agents.archive.layout import ArchivedFile
from agents.errors import JobError, UnavailableError
from agents.jobs.definition import Definition, Options, check_definition
from agents.jobs.plan import Plan, compile_job
from cbt import INTERVAL, split
from elf.client.results import Intervals
from elf.offline.events import find_files, read_events
from elf.offline.panes import cut, read_frames, whole_runs
from elf.offline.session import OfflineError, open_session
from elf.offline.states import state_frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bytes of archive that one step of Spark's computes: a few million events.
STEP_BYTES = 64 << 20
#: How long an interval takes to be committed after it has ended and been waited for.
COMMIT_MS = 10_000
_LOOK_S = 0.25


class BackfillClient(Protocol):
    """What is asked of an agent."""

    def job(self, name: str) -> Mapping[str, Any]:
        """Describe the job, with what may be backfilled of it."""
        ...

    def load(self, name: str, intervals: Intervals) -> None:
        """Load intervals into the job."""
        ...


class _Agent(msgspec.Struct, frozen=True):
    agent: str
    name: str
    through_ms: int | None


class _Reach(msgspec.Struct, frozen=True):
    instance: str
    first_ms: int | None
    until_ms: int | None
    agents: list[_Agent]


class _Job(msgspec.Struct, frozen=True):
    creator: str
    name: str
    source: str
    query: str
    columns: dict[str, str]
    options: Options
    backfill: _Reach
    parts: list[dict[str, Any]] = []

    @property
    def reaches(self) -> list[_Reach]:
        """What may be backfilled of each part.

        Raises:
            UnavailableError: a part's master does not answer.
        """
        if not self.parts:
            return [self.backfill]
        if trouble := next((part["trouble"] for part in self.parts if "trouble" in part), None):
            raise UnavailableError(f"a part of {self.creator}/{self.name} cannot be asked: {trouble}")
        return [msgspec.convert(part["backfill"], _Reach) for part in self.parts]


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a backfill has come: event time computed and loaded, of [start_ms, end_ms), and what was read for it."""

    start_ms: int
    end_ms: int
    done_ms: int
    events: int
    rows: int


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
    client: BackfillClient,
    name: str,
    since_ms: int,
    archives: Sequence[Path],
    master: str = "local[*]",
    *,
    incomplete: bool = False,
    scratch: Path | None = None,
    progress: Callable[[Progress], None] = lambda now: None,
    waiting: Callable[[str], None] = lambda why: None,
) -> Backfill:
    """Compute the intervals since an event time that agents lack, and load them.

    Args:
        client: asks an agent.
        name: the job's name, or `creator/name`.
        since_ms: event time.
        archives: archive folders, of all agents that have the job's source.
        master: Spark's.
        incomplete: also go on where agents' archives are not among these; results then name them as missing.
        scratch: where Spark leaves what it computed, for all machines of a cluster to see; default: a temporary folder.
        progress: told of each step.
        waiting: told what is waited for.

    Raises:
        ElfError: one clear sentence: the job cannot be backfilled, Spark or the archive cannot be used.
    """
    job = _ready(client, name, waiting)
    plan = _plan_of(job)
    key, interval_ms = f"{job.creator}/{job.name}", plan.interval_ms
    reaches = job.reaches
    files = [file for file in find_files(archives, job.source) if file.entry.rows]
    coverage = _Coverage(files, reaches, interval_ms)
    if coverage.unseen and not incomplete:
        raise OfflineError(
            f"no archive of {', '.join(coverage.unseen)} is among the folders given, or it has no event yet; add it "
            "with --archive, or say --incomplete: windows then name who is missing"
        )
    notes: list[str] = []
    first_ms = max(reach.first_ms or 0 for reach in reaches)
    until_ms = min(reach.until_ms or 0 for reach in reaches)
    oldest_ms = min((file.entry.first_ms for file in files), default=until_ms)
    if since_ms < first_ms and oldest_ms < first_ms:
        notes.append("the job retains no more; publish it with a longer `retain` for older windows")
    elif since_ms < oldest_ms:
        notes.append("the archives have nothing older")
    first = max(first_ms, since_ms, oldest_ms) // interval_ms
    until = until_ms // interval_ms
    if first >= until:
        return Backfill(key, until_ms, until_ms, 0, 0, 0, notes=(*notes, "agents have counted all there is"))
    spark = open_session(master)
    loader = _Loader(client, name, plan, reaches, coverage)
    now = Progress(first * interval_ms, until_ms, first * interval_ms, 0, 0)
    progress(now)
    steps = list(_steps(files, first, until, interval_ms))
    with tempfile.TemporaryDirectory(prefix="elf-backfill-", dir=scratch) as folder:
        for step, (begin, end) in enumerate(steps):
            span = begin * interval_ms, end * interval_ms
            within = [file for file in files if file.entry.first_ms < span[1] and file.entry.last_ms >= span[0]]
            rows = _compute(spark, plan, job, within, span, Path(folder) / str(step))
            loader.load(rows, begin, end - 1)
            events = sum(file.entry.rows for file in within if span[0] <= file.entry.first_ms)
            now = dataclasses.replace(now, done_ms=span[1], events=now.events + events, rows=now.rows + rows.height)
            progress(now)
    missing = tuple(sorted(loader.missing))
    return Backfill(key, now.start_ms, until_ms, until - first, now.rows, now.events, missing, tuple(notes))


def _ready(client: BackfillClient, name: str, waiting: Callable[[str], None]) -> _Job:
    """Wait until the job has committed all that agents lack, or for as long as an interval may take; return it.

    Raises:
        JobError: the job has no windows.
        UnavailableError: it has not committed anything in that time.
    """
    begun_s, told = time.monotonic(), False
    while True:
        answer = client.job(name)
        if answer.get("window") is None:
            raise JobError(f"{name} has no window: it counts since it began, and has no intervals to backfill")
        job = msgspec.convert(answer, _Job)
        if all(_is_settled(reach) for reach in job.reaches):
            return job
        patience_ms = 2 * int(answer["interval_ms"]) + job.options.lateness_ms + COMMIT_MS
        if (time.monotonic() - begun_s) * 1000 > patience_ms:
            if any(reach.until_ms is None for reach in job.reaches):
                raise UnavailableError(f"{name} has not had a result in {patience_ms // 1000} s; try again once it has")
            return job
        if not told:
            waiting(f"waiting up to {patience_ms // 1000} s for what agents have begun to be in a result")
            told = True
        time.sleep(_LOOK_S)


def _is_settled(reach: _Reach) -> bool:
    """Tell whether every agent has been counted, so that it is known which events each of them lacks."""
    return reach.until_ms is not None and all(each.through_ms is not None for each in reach.agents)


def _plan_of(job: _Job) -> Plan:
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


class _Coverage:
    """Of which intervals each agent's archive has all events.

    An agent's archive begins somewhere inside the interval of its first event, and is sure to have what the agent was
    counted with: its files are there before its snapshots are handed on. DESIGN section 6: a label may be pessimistic.
    """

    def __init__(self, files: Sequence[ArchivedFile], reaches: Sequence[_Reach], interval_ms: int) -> None:
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


def _steps(files: Sequence[ArchivedFile], first: int, until: int, interval_ms: int) -> Iterator[tuple[int, int]]:
    """Cut [first, until) into runs of intervals of about as many bytes of archive, as far as their hours tell."""
    begin, size = first, 0
    for file in sorted(files, key=lambda file: file.entry.last_ms):
        end = min(file.entry.last_ms // interval_ms + 1, until)
        if end <= first:
            continue
        size += file.entry.bytes
        if size >= STEP_BYTES and begin < end < until:
            yield begin, end
            begin, size = end, 0
    yield begin, until


def _compute(
    spark: SparkSession,
    plan: Plan,
    job: _Job,
    files: Sequence[ArchivedFile],
    span: tuple[int, int],
    folder: Path,
) -> pl.DataFrame:
    """Have Spark compute the PAO rows of a span."""
    from pyspark.errors import PySparkException

    if not files:
        return plan.schema.empty()
    columns = {name: job.columns[name] for name in plan.columns}
    try:
        for name, frame in state_frames(plan, read_events(spark, files, columns), span):
            frame.write.parquet(str(folder / (name or "plain")))
    except PySparkException as error:
        raise OfflineError(f"Spark could not compute the intervals: {str(error).strip().splitlines()[0]}") from None
    return read_frames(folder, plan.schema)


class _Loader:
    """Loads computed intervals into all parts of a job, in the order of time."""

    def __init__(
        self, client: BackfillClient, name: str, plan: Plan, reaches: Sequence[_Reach], coverage: _Coverage
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
