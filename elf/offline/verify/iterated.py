"""`elf verify` of a job that reads its last result: window after window, each joined by Spark with its own one before.

Windows come in ascending order. The last result of the first one is what was published of the window before it, which
is nothing at the job's beginning; that of each other one is what Spark computed. Nothing of what evaluates is shared
with the agents. What a label announces is not explained here: a result rests on all before it, so that a window differs
whatever it says that it lacks; its words are noted beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from sqlglot import exp

from elf.agents.archive.place import Place
from elf.agents.errors import ElfError, ExpiredError, JobError
from elf.agents.language.last_result import Last, is_last
from elf.agents.language.query import Item, Query, parse_query
from elf.agents.master.results import Span
from elf.agents.master.window_texts import parse_window
from elf.offline.asking import JobText
from elf.offline.events import find_files
from elf.offline.grid import Grid, Window
from elf.offline.own import NONE, Own
from elf.offline.patience import patiently
from elf.offline.progress import Steps
from elf.offline.removed import removed_hours, removed_records
from elf.offline.scopes import EventScope
from elf.offline.session import in_one_sentence, open_session
from elf.offline.verify.compare import read_cell
from elf.offline.verify.counted import Counted
from elf.offline.verify.outcomes import columns_of, compared, report_of, skipped
from elf.offline.verify.published import CLOSED, Result, bounds_of, label_words, status_of, version_of
from elf.offline.verify.report import Report, WindowReport, versions_of
from elf.offline.verify.rows import OfflineRows, Row, RowsPlan, collectable
from elf.offline.verify.soundness import Soundness
from elf.offline.verify.versions import Counting, Countings
from elf.offline.verify.windows import Asker, JobClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Before the name of each column of the last result, among those of events.
_LAST = "__last_"


class IteratedPlan(RowsPlan):
    """A query that joins its last result, over events that are joined with that.

    Raises:
        JobSpecError: the query is not in the job language.
    """

    def __init__(self, text: str, own: Own = NONE) -> None:
        query = parse_query(text)
        assert query.last is not None
        self._last: Last = query.last
        super().__init__(_over_joined(query), own)
        # Its columns of events are read, too.
        self.query = replace(self.query, last=query.last)

    def joined(
        self, events: DataFrame, spark: SparkSession, last: Sequence[Row], columns: Mapping[str, str]
    ) -> DataFrame:
        """Join events with the last result.

        Args:
            events: of the window.
            spark: the session.
            last: its rows; times are int microseconds, dates int days.
            columns: its columns and their SQL types, in order.
        """
        from pyspark.sql import functions as F

        names = [f"{_LAST}{name.lower()}" for name in columns]
        stored = [{"TIMESTAMP": "BIGINT", "DATE": "INT"}.get(kind, kind) for kind in columns.values()]
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in zip(names, stored, strict=True))
        made = {"TIMESTAMP": F.timestamp_micros, "DATE": F.date_from_unix_date}
        cells = [
            made[kind](F.col(f"`{name}`")).alias(name) if kind in made else F.col(f"`{name}`")
            for name, kind in zip(names, columns.values(), strict=True)
        ]
        frame = spark.createDataFrame(list(last), ddl).select(*cells)
        in_events = EventScope(events.columns)
        equal = F.lit(True)
        for event, column in self._last.on:
            ours = in_events(event)
            assert ours is not None
            equal = equal & (ours == F.col(f"`{_LAST}{column.name.lower()}`"))
        return events.join(frame, equal, self._last.how)

    def shown(self, events: DataFrame, window: Window) -> list[Row]:
        """Return the rows of a window as a person gets them, LIMIT and all, with cells as `OfflineRows` has them."""
        grid = Grid(window[0], window[0], window[1] - window[0], window[1] - window[0])
        table = self.table(events, grid)
        cells = table.select(*(collectable(each.dataType, f"`{each.name}`") for each in table.schema.fields[:-1]))
        return [tuple(row) for row in cells.collect()]


def _over_joined(query: Query) -> Query:
    """Return a query over events that have the last result's columns, too."""

    def renamed(node: exp.Expr) -> exp.Expr:
        return node.copy().transform(
            lambda part: exp.column(f"{_LAST}{part.name.lower()}") if is_last(part) else part, copy=False
        )

    return replace(
        query,
        items=tuple(Item(item.name, renamed(item.node)) for item in query.items),
        where=None if query.where is None else renamed(query.where),
        groups=tuple(renamed(node) for node in query.groups),
        having=None if query.having is None else renamed(query.having),
        order=tuple(renamed(node) for node in query.order),
        last=None,
    )


class IteratedVerification:
    """One run over one job's results.

    Args:
        job: what is verified.
        countings: its versions.
        folders: the archives of all agents that have its source.
        client: asks for the result before the first one, and for what has changed.
        master: Spark's master.
        conf: Spark's settings.
        steps: is told how far it is.
    """

    def __init__(
        self,
        job: JobText,
        countings: Countings,
        folders: Sequence[Place],
        client: JobClient,
        master: str,
        conf: Mapping[str, str] | None,
        steps: Steps,
    ) -> None:
        assert job.window is not None
        self._job = job
        self._countings = countings
        self._folders = folders
        self._client = client
        self._asker = Asker(job.agents, job.roster, None, client)
        self._slide_ms = job.window.slide_ms
        self._master = master
        self._conf = conf
        self._steps = steps
        # Neither its query nor its functions are ever changed.
        self._plan = IteratedPlan(job.query, countings.admit(job.functions))
        self._removed = removed_records(folders, job.source)
        self._soundness = Soundness()
        self._spark: SparkSession | None = None
        #: The end of the window that Spark computed last, and its rows.
        self._before: tuple[int, list[Row]] | None = None

    def run(self, results: Iterable[Result]) -> Report:
        """Verify results, ascending in time."""
        reports = []
        for result in results:
            reports.append(self._report(result))
            self._steps.done(1)
        return Report(
            job=self._job.key,
            windows=reports,
            damaged=self._soundness.damages,
            gaps=[],
            archive_files=len(self._soundness.checked),
            archive_events=sum(file.entry.rows for file in self._soundness.checked.values()),
            versions=versions_of(self._countings.versions, reports) if self._countings.changed else [],
        )

    def _report(self, result: Result) -> WindowReport:
        if status_of(result) not in CLOSED:
            return skipped(result, "not final yet, not compared")
        counting = self._countings.of(result)
        if counting is None:
            number = version_of(result)
            return skipped(result, f"counted by version {number}, which the job does not remember: not compared")
        window = bounds_of(result)
        removed = removed_hours(self._removed, counting.within(window)[0], window[1], self._asker.names)
        last = None if removed else self._last_of(result, counting)
        if last is None:
            return skipped(result, removed or "the result before it is no longer there: not compared")
        rows = self._compute(result, counting, last)
        found = compared(result, rows, lambda: self._asker.again(self._job.key, window))
        said = label_words(found.result)
        if found.differences and said:
            found = dataclasses.replace(found, notes=[*found.notes, f"its label says: {', '.join(said)}"])
        return report_of(found, window, counting)

    def _last_of(self, result: Result, counting: Counting) -> list[Row] | None:
        """Return the rows that a window has for its last result; None where nobody has them."""
        start_ms, end_ms = bounds_of(result)
        before_ms = end_ms - self._slide_ms
        if counting.begins_ms is not None and before_ms <= counting.begins_ms:
            return []
        if self._before is not None and self._before[0] == before_ms:
            return self._before[1]
        span = f"{start_ms - self._slide_ms}/{before_ms}"
        try:
            published = msgspec.to_builtins(patiently(lambda: self._client.query(self._job.key, window=span)))
        except (ExpiredError, JobError):
            return None
        kinds = {str(column["name"]): str(column["type"]).lower() for column in published["columns"]}
        return [tuple(read_cell(row[name], kind) for name, kind in kinds.items()) for row in published["rows"]]

    def _compute(self, result: Result, counting: Counting, last: Sequence[Row]) -> OfflineRows:
        """Compute a window, and keep its rows for the next one."""
        if self._spark is None:
            self._steps.say("starting Spark")
            self._spark = open_session(self._master, self._conf)
        window, plan = bounds_of(result), self._plan
        files = find_files(self._folders, self._job.source, counting.within(window)[0], window[1])
        files = self._soundness.readable(files, self._steps)
        columns = columns_of(plan, counting.columns, files)
        events = Counted(self._spark, files, columns, self._asker.names, counting, window).read()
        kinds = {str(column["name"]): str(column["type"]) for column in result["columns"]}
        with in_one_sentence(), self._steps.computing(self._spark, sum(file.entry.rows for file in files)):
            joined = plan.joined(events, self._spark, last, kinds)
            rows = plan.run(joined, window)
            # Where LIMIT cuts, there may be more rows to compare with than there are in a result.
            shown = rows.rows if rows.limit is None else plan.shown(joined, window)
        self._before = window[1], [_typed(row, kinds.values()) for row in shown]
        return rows


def in_time(window: str) -> tuple[bool, int]:
    """The place of a window that is asked for among others: by its end; what is no START/END comes last."""
    with contextlib.suppress(ElfError):
        span = parse_window(window)
        if isinstance(span, Span):
            return False, span.end_ms
    return True, 0


def _typed(row: Row, kinds: Iterable[str]) -> Row:
    """Return a row with cells of the types by which it is read again."""
    cells: list[Any] = [
        float(cell) if kind == "DOUBLE" and cell is not None else cell for cell, kind in zip(row, kinds, strict=True)
    ]
    return tuple(cells)
