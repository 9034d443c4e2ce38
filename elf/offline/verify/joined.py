"""`elf verify` of a job over other jobs: their windows, computed by Spark from the archive, and joined by Spark.

Each window is taken of the versions of the other jobs that count its last interval, as their masters do. What a label
announces is not explained here: a window that differs does so whatever it says that it lacks. The jobs that it reads
tell why.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from elf.agents.archive.place import Place
from elf.agents.errors import JobSpecError
from elf.agents.language.joins import JoinQuery, parse_joins
from elf.agents.language.query import Query, Window, is_window_field
from elf.offline.asking import JobText
from elf.offline.events import find_files
from elf.offline.expressions import to_column
from elf.offline.grid import START, Grid
from elf.offline.plan import SparkPlan
from elf.offline.progress import Steps
from elf.offline.removed import removed_hours, removed_records
from elf.offline.session import in_one_sentence, open_session
from elf.offline.verify.counted import Counted
from elf.offline.verify.outcomes import Compared, columns_of, differences_of, report_of, skipped
from elf.offline.verify.passes import passes
from elf.offline.verify.published import CLOSED, Result, bounds_of, label_words, span_of, status_of
from elf.offline.verify.report import Report, WindowReport
from elf.offline.verify.rows import OfflineRows, RowsPlan
from elf.offline.verify.soundness import Soundness
from elf.offline.verify.tolerance import EXACT, Tolerance, tolerance_of
from elf.offline.verify.versions import Counting, Countings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class JoinedRows(RowsPlan):
    """A query over other jobs.

    Args:
        text: the query.
        window: of the job.
        plans: what the jobs that it reads compute.
    """

    def __init__(self, text: str, window: Window, plans: Sequence[SparkPlan]) -> None:
        self._joins = parse_joins(text)
        self._plans = plans
        super().__init__(_as_query(self._joins, window))
        self._near = tuple(self._tolerance(item.node) for item in self.query.items)
        self._near_orders = tuple(self._tolerance(self._shown(node.this)) for node in self.query.order)

    def compute(self, events: Sequence[DataFrame], grid: Grid) -> dict[int, OfflineRows]:
        """Compute all windows of a grid; see `run_all`. `events`: of each job that is read, what it counts."""
        from pyspark.sql import functions as F

        frames = []
        for number, (plan, counted) in enumerate(zip(self._plans, events, strict=True)):
            table = plan.table(counted, grid)
            names = [F.col(f"`{name}`").alias(f"j{number}_{at}") for at, name in enumerate(table.columns[:-1])]
            frames.append(table.select(*names, F.col(START).alias(START if number == 0 else f"{START}{number}")))
        joined = frames[0]
        for number, (frame, read) in enumerate(zip(frames[1:], self._joins.reads[1:], strict=True), start=1):
            equal = F.col(START) == F.col(f"{START}{number}")
            for pair in read.on:
                equal = equal & (self._column(pair.this) == self._column(pair.expression))
            joined = joined.join(frame, equal, "left" if read.how == "left" else "inner").drop(f"{START}{number}")
        found = self.run_all(joined, grid)
        return {start_ms: dataclasses.replace(rows, single=False) for start_ms, rows in found.items()}

    def rows(self, events: DataFrame, grid: Grid | None) -> DataFrame:
        """Return the windows' rows before ORDER BY and LIMIT, of results that are joined; as `SparkPlan.rows`."""
        from pyspark.sql import functions as F

        assert grid is not None
        bounds = [F.timestamp_millis(F.col(START) + F.lit(length_ms)) for length_ms in (0, grid.size_ms)]

        def resolve(node: exp.Expr) -> Column | None:
            if is_window_field(node):
                return bounds[node.name.lower() == "end"]
            return self._column(node) if isinstance(node, exp.Column) else None

        if self.query.where is not None:
            events = events.filter(to_column(self.query.where, resolve))
        items = [to_column(item.node, resolve).alias(f"o{at}") for at, item in enumerate(self.query.items)]
        order = [to_column(self._shown(node.this), resolve).alias(f"s{at}") for at, node in enumerate(self.query.order)]
        return events.select(*items, *order, START)

    def _shown(self, node: exp.Expr) -> exp.Expr:
        """Return what an entry of ORDER BY stands for: an output column by position or name, or itself."""
        node = self._by_position(node)
        if isinstance(node, exp.Column) and not node.table:
            return self._items.get(node.name.lower(), node)
        return node

    def _column(self, node: exp.Expr) -> Column:
        from pyspark.sql import functions as F

        return F.col("j{}_{}".format(*self._place(node)))

    def _place(self, node: exp.Expr) -> tuple[int, int]:
        """Return which job a column is of, and which of its output columns it is."""
        assert isinstance(node, exp.Column)
        for number, (read, plan) in enumerate(zip(self._joins.reads, self._plans, strict=True)):
            if node.table.lower() in ("", read.alias):
                for at, item in enumerate(plan.query.items):
                    if item.name.lower() == node.name.lower():
                        return number, at
        raise JobSpecError(f"the jobs that are read have no column {node.name!r} now")

    def _tolerance(self, node: exp.Expr) -> Tolerance:
        """Return how far an expression may be off: as far as the column in it that may be off most."""
        found = [EXACT]
        for column in node.find_all(exp.Column):
            if not is_window_field(column):
                number, at = self._place(column)
                query = self._plans[number].query
                found.append(tolerance_of(query.items[at].node, {}))
        return max(found, key=lambda each: (each.estimate, each.relative))


def _as_query(joins: JoinQuery, window: Window) -> Query:
    return Query(
        select=joins.select,
        source="",
        qualifiers=frozenset(),
        items=joins.items,
        where=joins.where,
        groups=(),
        window=window,
        having=None,
        order=joins.order,
        limit=joins.limit,
    )


@dataclasses.dataclass(frozen=True)
class ReadJob:
    """A job that is read: as its master describes it."""

    job: JobText
    versions: Countings

    def at(self, end_ms: int) -> Counting | None:
        """Return how the last interval of a window is counted; None if that is not remembered."""
        history = self.versions.versions
        number = next(
            (
                each.version
                for each in history
                if (each.since_ms is None or each.since_ms < end_ms)
                and (each.until_ms is None or end_ms <= each.until_ms)
            ),
            None,
        )
        return self.versions.of({"version": number})


class JoinedVerification:
    """One run over one job's results.

    Args:
        job: what is verified.
        reads: the jobs that it reads, in the order of its query.
        folders: the archives of all agents that have their sources.
        master: Spark's master.
        conf: Spark's settings.
        steps: is told how far it is.
    """

    def __init__(
        self,
        job: JobText,
        reads: Sequence[ReadJob],
        folders: Sequence[Place],
        master: str,
        conf: Mapping[str, str] | None,
        steps: Steps,
    ) -> None:
        assert job.joined is not None and job.window is not None
        self._job = job
        self._text = job.joined.query
        self._reads = reads
        self._folders = folders
        self._window = Window(job.window.size_ms, job.window.slide_ms)
        self._master = master
        self._conf = conf
        self._steps = steps
        self._removed = {read.job.source: removed_records(folders, read.job.source) for read in reads}
        self._soundness = Soundness()
        self._spark: SparkSession | None = None

    def run(self, results: Iterator[Result]) -> Report:
        """Verify results, pass by pass."""
        reports: list[WindowReport] = []
        for _, alike in itertools.groupby(results, self._countings):
            for several, why in passes(alike, lambda result: self._window.slide_ms, self._why_skipped):
                reports += [skipped(result, why) for result in several] if why else self._verify(several)
                self._steps.done(len(several))
        return Report(
            job=self._job.key,
            windows=reports,
            damaged=self._soundness.damages,
            gaps=[],
            archive_files=len(self._soundness.checked),
            archive_events=sum(file.entry.rows for file in self._soundness.checked.values()),
            versions=[],
        )

    def _countings(self, result: Result) -> list[Counting | None]:
        end_ms = span_of(result)[1]
        return [None if end_ms is None else read.at(end_ms) for read in self._reads]

    def _why_skipped(self, result: Result) -> str:
        """Say why a result cannot be compared; "" if it can."""
        if status_of(result) not in CLOSED:
            return "not final yet, not compared"
        for read, counting in zip(self._reads, self._countings(result), strict=True):
            if counting is None:
                return f"counted by a version of {read.job.key} that is not remembered: not compared"
            start_ms, end_ms = span_of(result)
            removed = removed_hours(self._removed[read.job.source], start_ms, end_ms, read.job.agents)
            if removed:
                return removed
        return ""

    def _verify(self, results: Sequence[Result]) -> list[WindowReport]:
        """Verify results whose windows make a grid."""
        spans = [bounds_of(result) for result in results]
        grid = Grid(spans[0][0], spans[-1][0], spans[0][1] - spans[0][0], self._window.slide_ms)
        reads = [
            (read, counting)
            for read, counting in zip(self._reads, self._countings(results[0]), strict=True)
            if counting
        ]
        assert len(reads) == len(self._reads), "other results are skipped"
        plans = [SparkPlan(each.query, read.versions.admit(each.functions)) for read, each in reads]
        if self._spark is None:
            self._steps.say("starting Spark")
            self._spark = open_session(self._master, self._conf)
        events, rows_in = [], 0
        for (read, counting), plan in zip(reads, plans, strict=True):
            files = find_files(self._folders, read.job.source, grid.first_ms, grid.end_ms)
            files = self._soundness.readable(files, self._steps)
            columns = columns_of(plan, counting.columns, files)
            span = (grid.first_ms, grid.end_ms)
            events.append(Counted(self._spark, files, columns, read.job.agents, counting, span).read())
            rows_in += sum(file.entry.rows for file in files)
        with in_one_sentence(), self._steps.computing(self._spark, rows_in):
            rows = JoinedRows(self._text, self._window, plans).compute(events, grid)
        counting = Counting(self._text, {})
        return [_judged(result, span, rows[span[0]], counting) for result, span in zip(results, spans, strict=True)]


def _judged(result: Result, span: tuple[int, int], rows: OfflineRows, counting: Counting) -> WindowReport:
    differences, notes = differences_of(result, rows)
    if differences and label_words(result):
        notes = [*notes, "verify the jobs that it reads: their labels may explain it"]
    return report_of(Compared(result, rows, differences, notes), span, counting)
