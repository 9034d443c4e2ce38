"""Whether what a label says accounts for what differs: Spark leaves out what the label names, and compares again.

A difference is explained if Spark, without the events that the label says are lacking, has the published value; or if
the published value lies within the bounds that these events leave open (`elf.offline.verify.bounds`). That an agent was
missing somewhere in the window is not enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from elf.agents.language.instants import instant
from elf.offline.grid import Grid, Window, grids
from elf.offline.verify.bounds import Bounds, Limits
from elf.offline.verify.compare import compare
from elf.offline.verify.counted import Counted
from elf.offline.verify.lacks import Lack, joined
from elf.offline.verify.report import Difference
from elf.offline.verify.rows import OfflineRows, Row, RowsPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Agents named in one explanation.
_NAMED_MAX = 5


class Case(NamedTuple):
    """A window that differs.

    Attributes:
        window: its event time.
        result: as published.
        rows: Spark's.
        differences: between the two.
        lacks: what its label says that it lacks.
        repeats: whether events may have been counted more than once (`at-least-once`).
        unfit: the columns of which its label says that values do not fit their types.
    """

    window: Window
    result: Mapping[str, Any]
    rows: OfflineRows
    differences: list[Difference]
    lacks: list[Lack]
    repeats: bool = False
    unfit: frozenset[str] = frozenset()


class Explaining:
    """Explains differences of one version of a job.

    Args:
        plan: the version's.
        events: that it counts, of at least all windows asked about.
        slide_ms: the distance of windows.
    """

    def __init__(self, plan: RowsPlan, events: Counted, slide_ms: int) -> None:
        self._plan = plan
        self._events = events
        self._slide_ms = slide_ms

    def explain(self, cases: Sequence[Case]) -> dict[Window, list[Difference]]:
        """Return each window's differences, with the explanation of those that have one."""
        found = {case.window: case.differences for case in cases}
        for group in alike([case for case in cases if case.lacks or case.repeats or case.unfit]):
            lacks = joined(lack for case in group for lack in case.lacks)
            certain = [lack for lack in lacks if lack.certain]
            unfit = group[0].unfit
            for chosen in [certain] if certain == lacks else [certain, lacks]:
                if chosen or unfit:
                    self._leave_out(_open(group, found), chosen, found, unfit)
            if lacks or any(case.repeats for case in group):
                self._bound(_open(group, found), lacks, found, unfit)
        return found

    def _leave_out(
        self, cases: Sequence[Case], lacks: list[Lack], found: dict[Window, list[Difference]], unfit: frozenset[str]
    ) -> None:
        """Explain what is the same once some events, and the values of some columns that do not fit, are left out."""
        by_window = {case.window: case for case in cases}
        for grid in self._grids(cases):
            rows = self._plan.run_all(self._without(lacks, grid, unfit), grid)
            for start_ms, without in rows.items():
                window = start_ms, start_ms + grid.size_ms
                case = by_window[window]
                names = [str(column["name"]) for column in case.result["columns"]]
                left, _ = compare(names, case.result["rows"], without)
                said = f"without {', '.join(_left_out(lacks, window, unfit))} Spark has the same"
                found[window] = [
                    replace(each, why=said) if not each.why and not _still(each, left) else each
                    for each in found[window]
                ]

    def _bound(
        self, cases: Sequence[Case], lacks: list[Lack], found: dict[Window, list[Difference]], unfit: frozenset[str]
    ) -> None:
        """Explain what lies within the bounds that lacking, or repeated, events leave open."""
        bounds = Bounds(self._plan)
        cut = self._plan.query.having is not None or self._plan.query.limit is not None
        by_window = {case.window: case for case in cases}
        for grid in self._grids(cases):
            full = self._totals(self._events.read(unfit=unfit), grid, bounds)
            least = self._totals(self._without(lacks, grid, unfit), grid, bounds) if lacks else full
            for start_ms in grid.starts:
                window = start_ms, start_ms + grid.size_ms
                case = by_window[window]
                limits = Limits(bounds, full, least, case.repeats)
                parts = _left_out(lacks, window, unfit)
                parts += ["at-least-once"] if case.repeats else []
                said = f"within what the label leaves open ({', '.join(parts)})"
                found[window] = [
                    replace(each, why=said) if not each.why and limits.allow(each, start_ms, case.rows, cut) else each
                    for each in found[window]
                ]

    def _totals(self, events: DataFrame, grid: Grid, bounds: Bounds) -> dict[Row, Row]:
        return self._plan.totals(events, grid, bounds.aggregates)

    def _without(self, lacks: list[Lack], grid: Grid, unfit: frozenset[str]) -> DataFrame:
        window = grid.first_ms, grid.end_ms
        inside = [part for lack in lacks if (part := lack.within(window)) is not None]
        return self._events.read(inside, unfit=unfit)

    def _grids(self, cases: Sequence[Case]) -> list[Grid]:
        windows = sorted({case.window for case in cases})
        return grids(windows, self._slide_ms, len(windows))


def alike(cases: Iterable[Case]) -> list[list[Case]]:
    """Put cases together whose labels say the same of the event time that they have in common: one pass serves them."""
    groups: list[list[Case]] = []
    for case in cases:
        for group in groups:
            lacks = joined(lack for each in (*group, case) for lack in each.lacks)
            same = all(_inside(lacks, each.window) == joined(each.lacks) for each in (*group, case))
            if same and group[0].unfit == case.unfit:
                group.append(case)
                break
        else:
            groups.append([case])
    return groups


def told(lacks: Iterable[Lack], window: Window) -> str:
    """Say what a window lacks."""
    parts = _inside(lacks, window)
    said = [
        f"{lack.why}{' ' if lack.agent else ''}{lack.agent} {instant(lack.start_ms)}/{instant(lack.end_ms)}"
        for lack in parts[:_NAMED_MAX]
    ]
    return ", ".join(said) + (f" and {len(parts) - _NAMED_MAX} more" if len(parts) > _NAMED_MAX else "")


def _left_out(lacks: Sequence[Lack], window: Window, unfit: Collection[str]) -> list[str]:
    parts = [told(lacks, window)] if lacks else []
    return [*parts, *(f"the values of {column} that do not fit its type" for column in sorted(unfit))]


def _inside(lacks: Iterable[Lack], window: Window) -> list[Lack]:
    return joined(part for lack in lacks if (part := lack.within(window)) is not None)


def _open(cases: Iterable[Case], found: Mapping[Window, list[Difference]]) -> list[Case]:
    return [case for case in cases if not all(each.why for each in found[case.window])]


def _still(difference: Difference, left: Sequence[Difference]) -> bool:
    """Whether anything about the difference's row or cell is among those left; without a key, whether anything is."""
    if _is_of_all(difference):
        return bool(left)
    cells = {"cell"} & {difference.kind}
    return any(
        _is_of_all(other)
        or (other.key == difference.key and (other.kind not in cells or other.column == difference.column))
        for other in left
    )


def _is_of_all(difference: Difference) -> bool:
    """Whether a difference is not about one row that has a key."""
    return difference.kind in ("order", "columns") or (not difference.key and difference.kind != "cell")
