"""`elf verify` of a job over events alone, as most are: are its windows what Spark computes from the archive?

Owns which windows go into one pass over which files, and puts together what the parts find: the comparison
(`compare`), the label's part in it (`explain`), who holds the events (`holders`). Archive files that appear later are
not seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elf.agents.archive.place import Place
from elf.offline.events import find_files
from elf.offline.grid import Grid, Window
from elf.offline.own import Brought
from elf.offline.progress import Steps
from elf.offline.removed import removed_hours, removed_records
from elf.offline.session import in_one_sentence, open_session
from elf.offline.unfit_values import UnfitTimes
from elf.offline.verify.counted import Counted
from elf.offline.verify.coverage import Coverage
from elf.offline.verify.explain import Case, Explaining
from elf.offline.verify.holders import name_holders
from elf.offline.verify.lacks import Lack, lacks_of
from elf.offline.verify.outcomes import Compared, columns_of, compared, report_of, skipped, window_of
from elf.offline.verify.passes import passes
from elf.offline.verify.published import CLOSED, Result, span_of, status_of, version_of
from elf.offline.verify.report import Report, WindowReport, versions_of
from elf.offline.verify.rows import OfflineRows, RowsPlan
from elf.offline.verify.soundness import Soundness
from elf.offline.verify.versions import Counting, Countings, Job
from elf.offline.verify.windows import Asker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PlainVerification:
    """One run over one job's results.

    Args:
        job: what is verified.
        countings: its versions.
        folders: the archives of all agents that have its source.
        asker: what can be asked about results.
        master: Spark's master.
        conf: Spark's settings.
        steps: is told how far it is.
    """

    def __init__(
        self,
        job: Job,
        countings: Countings,
        folders: Sequence[Place],
        asker: Asker,
        master: str,
        conf: Mapping[str, str] | None,
        steps: Steps,
    ) -> None:
        self._job = job
        self._countings = countings
        self._folders = folders
        self._asker = asker
        self._master = master
        self._conf = conf
        self._steps = steps
        self._plans: dict[tuple[str, tuple[Brought, ...]], RowsPlan] = {}
        self._removed = removed_records(folders, job.source)
        self._soundness = Soundness()
        self._coverage = Coverage(asker.names, asker.roster)
        self._spark: SparkSession | None = None

    def run(self, results: Iterable[Result]) -> Report:
        """Verify results, pass by pass; windows that follow each other are computed together.

        Raises:
            OfflineError: Spark cannot start, or no folder holds events of the job's source.
            ArchiveError: a manifest is damaged.
            JobSpecError: the query cannot be planned.
        """
        reports: list[WindowReport] = []
        for several, why in passes(results, self._slide_of, self._why_skipped):
            reports += [skipped(result, why) for result in several] if why else self._verify(several)
            self._steps.done(len(several))
        return Report(
            job=self._job.key,
            windows=reports,
            damaged=self._soundness.damages,
            gaps=self._coverage.gaps(),
            archive_files=len(self._soundness.checked),
            archive_events=sum(file.entry.rows for file in self._soundness.checked.values()),
            versions=versions_of(self._countings.versions, reports) if self._countings.changed else [],
        )

    def _counting(self, result: Result) -> Counting:
        counting = self._countings.of(result)
        assert counting is not None, "other results are skipped"
        return counting

    def _plan(self, counting: Counting) -> RowsPlan:
        what = counting.query, counting.functions
        if what not in self._plans:
            self._plans[what] = RowsPlan(counting.query, self._countings.admit(counting.functions))
        return self._plans[what]

    def _slide_of(self, result: Result) -> int:
        window = self._plan(self._counting(result)).query.window
        return window.slide_ms if window is not None else 1

    def _why_skipped(self, result: Result) -> str:
        """Say why a result cannot be compared; "" if it can."""
        if status_of(result) not in CLOSED:
            return "not final yet, not compared"
        counting = self._countings.of(result)
        if counting is None:
            return f"counted by version {version_of(result)}, which the job does not remember: not compared"
        start_ms, end_ms = span_of(result)
        if counting.begins_ms is not None:
            start_ms = counting.begins_ms if start_ms is None else max(start_ms, counting.begins_ms)
        return removed_hours(self._removed, start_ms, end_ms, self._asker.names)

    def _verify(self, results: Sequence[Result]) -> list[WindowReport]:
        """Verify results of one version whose windows make a grid."""
        counting = self._counting(results[0])
        # First, for its functions may not be trusted.
        plan = self._plan(counting)
        windows = [window_of(result, counting) for result in results]
        is_windowed = span_of(results[0])[0] is not None
        since_ms = counting.within((windows[0][0], windows[-1][1]))[0] if is_windowed else counting.begins_ms
        # Without an end it has counted nothing yet, or does not say how far.
        until_ms = span_of(results[-1])[1]
        files = find_files(self._folders, self._job.source, since_ms, until_ms)
        files = self._soundness.readable(files, self._steps)
        grid, slide_ms = None, self._slide_of(results[0])
        if until_ms is not None:
            size_ms = until_ms - windows[-1][0]
            grid = Grid(windows[0][0], windows[-1][0], size_ms, min(slide_ms, size_ms))
            if is_windowed and since_ms is not None:
                self._coverage.note(files, (since_ms, until_ms), [result["completeness"] for result in results])
        if self._spark is None:
            self._steps.say("starting Spark")
            self._spark = open_session(self._master, self._conf)
        columns = columns_of(plan, counting.columns, files)
        span = windows[0][0], windows[-1][1]
        unfit = UnfitTimes(files, columns)
        events = Counted(self._spark, files, columns, self._asker.names, counting, span, frozenset(columns))
        with in_one_sentence(), self._steps.computing(self._spark, sum(file.entry.rows for file in files)):
            rows = plan.run_all(events.read(), grid)
        found = {}
        for result, window in zip(results, windows, strict=True):
            found[window] = self._compare(result, window, rows[0 if grid is None else window[0]])
        return self._judge(found, events, grid, slide_ms, unfit)

    def _compare(self, result: Result, window: Window, rows: OfflineRows) -> Compared:
        is_windowed = result.get("window") is not None
        return compared(result, rows, lambda: self._asker.again(self._job.key, window) if is_windowed else None)

    def _judge(
        self,
        found: dict[Window, Compared],
        events: Counted,
        grid: Grid | None,
        slide_ms: int,
        unfit: UnfitTimes,
    ) -> list[WindowReport]:
        """Explain what can be explained, and say who holds the events of the rest."""
        counting = events.counting
        wrong = {window: each for window, each in found.items() if each.differences}
        if wrong and grid is not None:
            plan = self._plan(counting)
            cases = [self._case(window, each, counting) for window, each in wrong.items()]
            with in_one_sentence(), self._steps.computing(events.spark, 0):
                explained = Explaining(plan, events, slide_ms).explain(cases)
                # Those that nothing explains come first: they are the ones to be looked into.
                ranked = sorted(explained, key=lambda window: all(each.why for each in explained[window]))
                held = {window: (wrong[window].rows, explained[window]) for window in ranked}
                noted = name_holders(plan, events, grid, held)
            for window, differences in noted.items():
                found[window] = dataclasses.replace(found[window], differences=differences)
        return [report_of(each, window, counting, unfit) for window, each in found.items()]

    def _case(self, window: Window, compared: Compared, counting: Counting) -> Case:
        result, labels = compared.result, self._asker.labels
        label = counting.relieved(result["completeness"], window)
        repeats = label.get("semantics") == "at-least-once"
        lacks: list[Lack]
        counted = counting.within(window)
        if labels is None or result.get("window") is None:
            lacks = lacks_of(window, label, None, max(1, window[1] - window[0]))
        elif counted[0] < counted[1]:

            def ask(start_ms: int, end_ms: int) -> Mapping[str, Any]:
                return counting.relieved(labels(start_ms, end_ms), (start_ms, end_ms))

            # What lies before is not in it, whatever labels of another version say of that.
            interval_ms = counting.interval_ms or labels.interval_ms
            lacks = lacks_of(counted, label if counted == window else ask(*counted), ask, interval_ms)
        else:
            lacks = []
        unfit = frozenset(label.get("mistyped", {}))
        return Case(window, result, compared.rows, compared.differences, lacks, repeats, unfit)
