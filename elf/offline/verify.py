"""`elf verify`: are the published windows what Spark computes from the archive?

Owns which windows are compared, over which files, and the label's part in the verdict. Waits for nothing: open
windows are skipped, and archive files that appear later are not seen. DESIGN section 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from agents.archive.layout import ArchivedFile
from agents.errors import JobError
from agents.jobs.query import columns_read
from elf.offline.compare import compare
from elf.offline.events import damaged_files, find_files, read_events
from elf.offline.plan import SparkPlan
from elf.offline.removed import removed_hours
from elf.offline.report import Report, WindowReport
from elf.offline.session import OfflineError, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLOSED = ("final", "final_incomplete", "revised")


class Job(Protocol):
    """What verification needs of a definition (`agents.jobs.definition.Definition` has it)."""

    @property
    def key(self) -> str:
        """`creator/name`."""
        ...

    @property
    def source(self) -> str:
        """The source's name."""
        ...

    @property
    def query(self) -> str:
        """The query's text."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """SQL types of the columns it reads."""
        ...


class JobClient(Protocol):
    """What verification asks an agent."""

    def job(self, name: str) -> Mapping[str, Any]:
        """Return the job's description with creator, name, source, query and columns."""
        ...

    def query(self, name: str, *, window: str) -> Any:
        """Return the Result of one window, as a mapping or a record."""
        ...


class JobText(msgspec.Struct, frozen=True):
    """A job as the API describes it."""

    creator: str
    name: str
    source: str
    query: str
    columns: dict[str, str]

    @property
    def key(self) -> str:
        """`creator/name`."""
        return f"{self.creator}/{self.name}"


def run_verify(
    client: JobClient,
    name: str,
    windows: Sequence[str] = ("latest",),
    archives: Sequence[Path] = (),
    master: str = "local[*]",
) -> Report:
    """Fetch a job and its windows from an agent and verify them.

    Args:
        client: asks the agent.
        name: the job's name, or `creator/name`.
        windows: `latest`, or START/END.
        archives: archive folders, of all agents.
        master: Spark's master.

    Raises:
        ElfError: Spark or the archive cannot be used, or the agent refuses; one clear sentence.
    """
    plain = msgspec.to_builtins(client.job(name))
    # Some agents nest the definition in their description of the job.
    nested = plain.get("definition")
    try:
        job = msgspec.convert(plain | nested if isinstance(nested, dict) else plain, JobText)
    except msgspec.ValidationError as error:
        raise JobError(f"the agent's description of job {name!r} is incomplete: {error}") from None
    results = [msgspec.to_builtins(client.query(name, window=window)) for window in windows]
    return verify(job, archives, results, master)


def verify(
    definition: Job,
    archive_folders: Sequence[Path],
    results: Sequence[Mapping[str, Any]],
    master: str = "local[*]",
) -> Report:
    """Recompute published windows with Spark and compare them cell by cell.

    Args:
        definition: the job.
        archive_folders: the archives of all agents that have the job's source.
        results: Result JSON of each window.
        master: Spark's master.

    Raises:
        OfflineError: Spark cannot start, or no folder holds events of the job's source.
        ArchiveError: a manifest is damaged.
        JobSpecError: the query cannot be planned.
    """
    plan = SparkPlan(definition.query)
    closed = [result for result in results if _status(result) in _CLOSED]
    spans = [_span(result) for result in closed]
    start_ms = min((start for start, _ in spans if start is not None), default=None)
    if any(start is None for start, _ in spans):
        start_ms = None
    ends = [end for _, end in spans]
    end_ms = max((end for end in ends if end is not None), default=None) if None not in ends else None
    files = find_files(archive_folders, definition.source, start_ms, end_ms) if closed else []
    spark = open_session(master) if closed else None
    reports = []
    for result in results:
        if spark is None or _status(result) not in _CLOSED:
            reports.append(_skipped(result, "not final yet, not compared"))
        elif gone := removed_hours(archive_folders, definition.source, *_span(result)):
            reports.append(_skipped(result, gone))
        else:
            reports.append(_verify_window(spark, plan, definition, archive_folders, result))
    return Report(
        job=definition.key,
        windows=reports,
        damaged=damaged_files(files),
        archive_files=len(files),
        archive_events=sum(file.entry.rows for file in files),
    )


def _verify_window(
    spark: SparkSession, plan: SparkPlan, definition: Job, folders: Sequence[Path], result: Mapping[str, Any]
) -> WindowReport:
    start_ms, end_ms = _span(result)
    # A job without windows counts from its first event on.
    window = None if end_ms is None else (-(2**40) if start_ms is None else start_ms, end_ms)
    files = find_files(folders, definition.source, start_ms, end_ms)
    events = read_events(spark, files, _columns(plan, definition, files))
    offline = plan.run(events, window)
    names = [str(column["name"]) for column in result["columns"]]
    differences, notes = compare(names, result["rows"], offline)
    limit = len(offline.rows) if offline.limit is None else min(offline.limit, len(offline.rows))
    return WindowReport(
        start_ms=start_ms,
        end_ms=end_ms,
        status=_status(result),
        rows_online=len(result["rows"]),
        rows_offline=limit,
        differences=differences,
        notes=notes,
        label=_label(result),
    )


def _columns(plan: SparkPlan, definition: Job, files: Sequence[ArchivedFile]) -> dict[str, str]:
    """Return name and type of the columns the query reads: as the definition froze them, else as they are stored."""
    known = {name.lower(): (name, kind) for file in files for name, kind in file.entry.columns.items()}
    known |= {name.lower(): (name, kind) for name, kind in definition.columns.items()}
    return dict(known[name.lower()] for name in columns_read(plan.query) if name.lower() in known)


def _skipped(result: Mapping[str, Any], why: str) -> WindowReport:
    start_ms, end_ms = _span(result)
    return WindowReport(
        start_ms=start_ms,
        end_ms=end_ms,
        status=_status(result),
        rows_online=len(result["rows"]),
        rows_offline=0,
        skipped=why,
    )


def _span(result: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return a result's event time; a job without windows says by `through_ms` how far it has counted."""
    window = result.get("window")
    if window is None:
        return None, result.get("through_ms")
    return int(window["start_ms"]), int(window["end_ms"])


def _status(result: Mapping[str, Any]) -> str:
    return str(result["completeness"]["status"])


def _label(result: Mapping[str, Any]) -> list[str]:
    """Return what the label announces: reasons for which the result may lack events that the archive has."""
    completeness = result["completeness"]
    said = [f"{part} {completeness[part]}" for part in ("late", "shed", "gaps", "void") if completeness.get(part)]
    semantics = completeness.get("semantics", "exactly-once")
    said += [semantics] if semantics != "exactly-once" else []
    missing = completeness.get("missing") or []
    reported, expected = completeness.get("reported", 0), completeness.get("expected", 0)
    if missing:
        said.append("missing " + " ".join(map(str, missing)))
    elif reported < expected:
        said.append(f"{reported} of {expected} agents reported")
    return said


__all__ = ["Job", "JobClient", "JobText", "OfflineError", "Report", "run_verify", "verify"]
