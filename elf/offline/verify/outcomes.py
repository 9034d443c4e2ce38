"""What came of one published window: the rows of both sides, compared, as its line of the report. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from elf.agents.archive.layout import ArchivedFile
from elf.agents.language.query import columns_read
from elf.offline.grid import Window
from elf.offline.plan import SparkPlan
from elf.offline.unfit_values import UnfitTimes
from elf.offline.verify.compare import compare
from elf.offline.verify.published import CLOSED, Result, label_words, span_of, status_of, unfit_words, version_of
from elf.offline.verify.report import Difference, WindowReport
from elf.offline.verify.rows import OfflineRows
from elf.offline.verify.unsaid import unsaid
from elf.offline.verify.versions import Counting

#: Before all events: where a job without windows begins.
_BEGINNING_MS = -(2**40)


@dataclasses.dataclass(frozen=True)
class Compared:
    """A published window and Spark's."""

    result: Result
    rows: OfflineRows
    differences: list[Difference]
    notes: list[str]


def differences_of(result: Result, rows: OfflineRows) -> tuple[list[Difference], list[str]]:
    """Compare a published window with Spark's: what differs, and what need not worry."""
    return compare([str(column["name"]) for column in result["columns"]], result["rows"], rows)


def compared(result: Result, rows: OfflineRows, again: Callable[[], Result | None]) -> Compared:
    """Compare a published window with Spark's; if they differ, as it is by now.

    Late events may have revised it since it was asked for, and the archive was read after that. A revision shows in its
    label: other rows under the same one are no excuse.

    Args:
        result: what was published.
        rows: Spark's.
        again: asks for the window again; None from who cannot.
    """
    differences, notes = differences_of(result, rows)
    newer = again() if differences else None
    if (
        newer is not None
        and newer["completeness"] != result["completeness"]
        and status_of(newer) in CLOSED
        and version_of(newer) == version_of(result)
    ):
        result = newer
        differences, notes = differences_of(result, rows)
    return Compared(result, rows, differences, notes)


def window_of(result: Result, counting: Counting) -> Window:
    """Return the event time that a result is compared over; without windows, from the first event that it counts."""
    start_ms, end_ms = span_of(result)
    if start_ms is None:
        start_ms = _BEGINNING_MS if counting.begins_ms is None else counting.begins_ms
    return start_ms, _BEGINNING_MS if end_ms is None else end_ms


def report_of(compared: Compared, window: Window, counting: Counting, unfit: UnfitTimes | None = None) -> WindowReport:
    """Return what is said of a window that was compared; `unfit`: values that Spark has read the texts of."""
    result, rows, differences = compared.result, compared.rows, compared.differences
    start_ms, end_ms = span_of(result)
    label = result["completeness"]
    judged = frozenset[str]() if unfit is None else unfit.columns
    notes = [*compared.notes, *unfit_words(result, judged)]
    told = [] if unfit is None else unsaid(unfit, window, label, counting)
    if start_ms is not None:
        told, notes = [*told, counting.unsaid(window, label)], [*notes, *counting.notes(window)]
    for said in filter(None, told):
        differences = [*differences, Difference(kind="label", online=status_of(result), offline=said)]
    return WindowReport(
        start_ms=start_ms,
        end_ms=end_ms,
        status=status_of(result),
        rows_online=len(result["rows"]),
        rows_offline=len(rows.rows) if rows.limit is None else min(rows.limit, len(rows.rows)),
        width=len(rows.names),
        expected=label.get("expected", 0),
        reported=label.get("reported", 0),
        differences=differences,
        notes=notes,
        label=label_words(result),
        version=version_of(result),
    )


def columns_of(plan: SparkPlan, declared: Mapping[str, str], files: Sequence[ArchivedFile]) -> dict[str, str]:
    """Return name and type of the columns the query reads: as the definition froze them, else as they are stored."""
    known = {name.lower(): (name, kind) for file in files for name, kind in file.entry.typed}
    known |= {name.lower(): (name, kind) for name, kind in declared.items()}
    return dict(known[name.lower()] for name in columns_read(plan.query) if name.lower() in known)


def skipped(result: Result, why: str) -> WindowReport:
    """Return what is said of a window that was not compared."""
    start_ms, end_ms = span_of(result)
    return WindowReport(
        start_ms=start_ms,
        end_ms=end_ms,
        status=status_of(result),
        rows_online=len(result["rows"]),
        rows_offline=0,
        skipped=why,
        version=version_of(result),
    )
