"""`elf verify`: are the published windows what Spark computes from the archive?

Owns which windows go into one pass over which files, and puts together what the parts find: the comparison
(`compare`), the label's part in it (`explain`), who holds the events (`holders`), the report (`report`). Waits for
nothing: open windows are skipped, and archive files that appear later are not seen. DESIGN section 9.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from agents.archive.layout import ArchivedFile
from agents.archive.place import Place
from agents.jobs.query import columns_read
from elf.offline.asking import describe
from elf.offline.events import find_files, read_events
from elf.offline.grid import Grid, Window
from elf.offline.progress import Steps
from elf.offline.removed import removed_hours, removed_records
from elf.offline.session import in_one_sentence, open_session
from elf.offline.verify.compare import compare
from elf.offline.verify.coverage import Coverage
from elf.offline.verify.explain import Case, Explaining
from elf.offline.verify.holders import name_holders
from elf.offline.verify.lacks import Lack, lacks_of
from elf.offline.verify.passes import passes
from elf.offline.verify.published import CLOSED, Result, label_words, span_of, status_of
from elf.offline.verify.report import Difference, Report, WindowReport
from elf.offline.verify.rows import OfflineRows, RowsPlan
from elf.offline.verify.soundness import Soundness
from elf.offline.verify.windows import Asker, JobClient, ask_windows, labels_of, windows_since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Before all events: where a job without windows begins.
_BEGINNING_MS = -(2**40)


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


def run_verify(
    client: JobClient,
    name: str,
    windows: Sequence[str] = ("latest",),
    archives: Sequence[Place] = (),
    master: str = "local[*]",
    *,
    since: str | None = None,
    conf: Mapping[str, str] | None = None,
    steps: Steps | None = None,
) -> Report:
    """Fetch a job and its windows from an agent and verify them.

    Args:
        client: asks the agent.
        name: the job's name, or `creator/name`.
        windows: `latest`, or START/END; not asked for with `since`.
        archives: archive folders, of all agents.
        master: Spark's master.
        since: all closed windows since then, see `windows_since`.
        conf: Spark's settings.
        steps: is told how far it is.

    Raises:
        ElfError: Spark or the archive cannot be used, or the agent refuses; one clear sentence.
    """
    job = describe(client, name)
    if since is not None:
        windows = [f"{start_ms}/{end_ms}" for start_ms, end_ms in windows_since(job, since)]
    steps = steps or Steps()
    steps.total("windows", len(windows))
    asker = Asker(job.agents, job.roster, labels_of(client, job), client)
    return verify(job, archives, ask_windows(client, job, windows), master, asker=asker, conf=conf, steps=steps)


def verify(
    definition: Job,
    archive_folders: Sequence[Place],
    results: Iterable[Result],
    master: str = "local[*]",
    *,
    asker: Asker | None = None,
    conf: Mapping[str, str] | None = None,
    steps: Steps | None = None,
) -> Report:
    """Recompute published windows with Spark and compare them cell by cell.

    Args:
        definition: the job.
        archive_folders: the archives of all agents that have the job's source.
        results: Result JSON of each window; windows that follow each other are computed together.
        master: Spark's master.
        asker: what can be asked about results.
        conf: Spark's settings.
        steps: is told how far it is.

    Raises:
        OfflineError: Spark cannot start, or no folder holds events of the job's source.
        ArchiveError: a manifest is damaged.
        JobSpecError: the query cannot be planned.
    """
    return _Verification(definition, archive_folders, master, asker or Asker(), conf, steps or Steps()).run(results)


class _Verification:
    """One run over one job's results."""

    def __init__(
        self,
        job: Job,
        folders: Sequence[Place],
        master: str,
        asker: Asker,
        conf: Mapping[str, str] | None,
        steps: Steps,
    ) -> None:
        self._job, self._folders, self._asker, self._steps = job, folders, asker, steps
        self._master, self._conf = master, conf
        self._plan = RowsPlan(job.query)
        window = self._plan.query.window
        self._slide_ms = window.slide_ms if window is not None else 1
        self._removed = removed_records(folders, job.source)
        self._soundness = Soundness()
        self._coverage = Coverage(asker.names, asker.roster)
        self._spark: SparkSession | None = None

    def run(self, results: Iterable[Result]) -> Report:
        """Verify results, pass by pass."""
        reports: list[WindowReport] = []
        for several, why in passes(results, self._slide_ms, self._why_skipped):
            reports += [_skipped(result, why) for result in several] if why else self._verify(several)
            self._steps.done(len(several))
        return Report(
            job=self._job.key,
            windows=reports,
            damaged=self._soundness.damages,
            gaps=self._coverage.gaps(),
            archive_files=len(self._soundness.checked),
            archive_events=sum(file.entry.rows for file in self._soundness.checked.values()),
        )

    def _why_skipped(self, result: Result) -> str:
        """Say why a result cannot be compared; "" if it can."""
        if status_of(result) not in CLOSED:
            return "not final yet, not compared"
        return removed_hours(self._removed, *span_of(result), self._asker.names)

    def _verify(self, results: Sequence[Result]) -> list[WindowReport]:
        """Verify results whose windows make a grid."""
        spans = [span_of(result) for result in results]
        # A job without windows counts from its first event on.
        windows = [(_BEGINNING_MS if start is None else start, end) for start, end in spans]
        files = find_files(self._folders, self._job.source, spans[0][0], spans[-1][1])
        files = self._soundness.readable(files, self._steps)
        grid = None
        if (until_ms := windows[-1][1]) is not None:
            size_ms = until_ms - windows[-1][0]
            grid = Grid(windows[0][0], windows[-1][0], size_ms, min(self._slide_ms, size_ms))
            if spans[0][0] is not None:
                self._coverage.note(files, (spans[0][0], until_ms), [result["completeness"] for result in results])
        if self._spark is None:
            self._steps.say("starting Spark")
            self._spark = open_session(self._master, self._conf)
        columns = _columns(self._plan, self._job, files)
        with in_one_sentence(), self._steps.computing(self._spark, sum(file.entry.rows for file in files)):
            rows = self._plan.run_all(read_events(self._spark, files, columns), grid)
        found = {}
        for result, (start_ms, end_ms) in zip(results, windows, strict=True):
            window = start_ms, _BEGINNING_MS if end_ms is None else end_ms
            found[window] = self._compare(result, window, rows[0 if grid is None else start_ms])
        return self._judge(found, files, columns, grid)

    def _compare(self, result: Result, window: Window, rows: OfflineRows) -> _Compared:
        differences, notes = _differences(result, rows)
        # Late events may have revised it since it was asked for; the archive was read after that.
        newer = self._asker.again(self._job.key, window) if differences and result.get("window") is not None else None
        if newer is not None and newer["completeness"] != result["completeness"] and status_of(newer) in CLOSED:
            result = newer
            differences, notes = _differences(result, rows)
        return _Compared(result, rows, differences, notes)

    def _judge(
        self,
        found: dict[Window, _Compared],
        files: Sequence[ArchivedFile],
        columns: Mapping[str, str],
        grid: Grid | None,
    ) -> list[WindowReport]:
        """Explain what can be explained, and say who holds the events of the rest."""
        wrong = {window: each for window, each in found.items() if each.differences}
        if wrong and grid is not None:
            assert self._spark is not None
            names = self._asker.names
            cases = [self._case(window, each) for window, each in wrong.items()]
            explaining = Explaining(self._spark, self._plan, files, columns, names, self._slide_ms)
            with in_one_sentence(), self._steps.computing(self._spark, 0):
                explained = explaining.explain(cases)
                # Those that nothing explains come first: they are the ones to be looked into.
                ranked = sorted(explained, key=lambda window: all(each.why for each in explained[window]))
                held = {window: (wrong[window].rows, explained[window]) for window in ranked}
                noted = name_holders(self._spark, self._plan, files, columns, names, grid, held)
            for window, differences in noted.items():
                found[window] = dataclasses.replace(found[window], differences=differences)
        return [_report(each) for each in found.values()]

    def _case(self, window: Window, compared: _Compared) -> Case:
        label, labels = compared.result["completeness"], self._asker.labels
        repeats = label.get("semantics") == "at-least-once"
        lacks: list[Lack]
        if labels is None or compared.result.get("window") is None:
            lacks = lacks_of(window, label, None, max(1, window[1] - window[0]))
        else:
            lacks = lacks_of(window, label, labels, labels.interval_ms)
        return Case(window, compared.result, compared.rows, compared.differences, lacks, repeats)


@dataclasses.dataclass(frozen=True)
class _Compared:
    result: Result
    rows: OfflineRows
    differences: list[Difference]
    notes: list[str]


def _differences(result: Result, rows: OfflineRows) -> tuple[list[Difference], list[str]]:
    return compare([str(column["name"]) for column in result["columns"]], result["rows"], rows)


def _report(compared: _Compared) -> WindowReport:
    result, rows = compared.result, compared.rows
    start_ms, end_ms = span_of(result)
    label = result["completeness"]
    return WindowReport(
        start_ms=start_ms,
        end_ms=end_ms,
        status=status_of(result),
        rows_online=len(result["rows"]),
        rows_offline=len(rows.rows) if rows.limit is None else min(rows.limit, len(rows.rows)),
        width=len(rows.names),
        expected=label.get("expected", 0),
        reported=label.get("reported", 0),
        differences=compared.differences,
        notes=compared.notes,
        label=label_words(result),
    )


def _columns(plan: RowsPlan, definition: Job, files: Sequence[ArchivedFile]) -> dict[str, str]:
    """Return name and type of the columns the query reads: as the definition froze them, else as they are stored."""
    known = {name.lower(): (name, kind) for file in files for name, kind in file.entry.columns.items()}
    known |= {name.lower(): (name, kind) for name, kind in definition.columns.items()}
    return dict(known[name.lower()] for name in columns_read(plan.query) if name.lower() in known)


def _skipped(result: Result, why: str) -> WindowReport:
    start_ms, end_ms = span_of(result)
    return WindowReport(
        start_ms=start_ms,
        end_ms=end_ms,
        status=status_of(result),
        rows_online=len(result["rows"]),
        rows_offline=0,
        skipped=why,
    )
