"""A published window against Spark's, cell by cell. Pure: takes rows, returns differences.

Doubles may differ in their last digits and sketches by their stated error (`tolerance`); all else must be equal. Rows
with equal order keys may stand in any order, and where LIMIT cuts through such rows any of them may have been taken.
Where HAVING goes by a sketch, a row more or less is no difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from elf.agents.language.instants import day_text, read_day, read_time, time_text
from elf.offline.verify.report import Difference
from elf.offline.verify.rows import OfflineRows
from elf.offline.verify.tolerance import EXACT, Tolerance

Row = tuple[Any, ...]
TIE = "tie at the cut"
GUESSED = "HAVING by an estimate"


def compare(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], offline: OfflineRows
) -> tuple[list[Difference], list[str]]:
    """Compare a result's rows with Spark's; return the differences and notes.

    Args:
        columns: names of the published columns.
        rows: the published rows, as in the Result JSON.
        offline: Spark's rows.
    """
    if tuple(columns) != offline.names:
        return [Difference(kind="columns", online=list(columns), offline=list(offline.names))], []
    online = [_read_row(row, offline) for row in rows]
    pairs, extra, absent = _match(online, offline)
    differences = [
        each for one, other in pairs for each in _cell_differences(online[one], offline.rows[other], offline)
    ]
    expected, taken_by_tie = _expected(offline, {other for _, other in pairs})
    notes: list[str] = []
    absent = [other for other in absent if other in expected]
    if offline.guessed and (extra or absent):
        extra, absent = [], []
        notes.append(GUESSED)
    differences += [
        Difference(kind="missing_offline", key=_key(online[one], offline), online=_named(online[one], offline))
        for one in extra
    ]
    differences += [
        Difference(
            kind="missing_online",
            key=_key(offline.rows[other], offline),
            offline=_named(offline.rows[other], offline),
        )
        for other in absent
    ]
    if not differences:
        differences = _order_differences(pairs, online, offline)
    if taken_by_tie and not differences:
        notes.append(TIE)
    return differences, notes


def read_cell(value: Any, kind: str) -> Any:
    """Read a cell of the Result JSON as Spark's planner returns cells of this type.

    Times come as ISO-8601 text or int milliseconds and become int microseconds, dates int days: calendars of Python end
    with the year 9999. Text stands for NaN and infinities. A value that is not of the type is returned as it is, and
    will differ.
    """
    try:
        if kind.startswith("array<") and isinstance(value, list):
            return [read_cell(each, kind[len("array<") : -1]) for each in value]
        if kind == "timestamp" and isinstance(value, str):
            return read_time(value)
        if kind == "timestamp" and isinstance(value, int):
            return value * 1_000
        if kind == "date" and isinstance(value, str):
            return read_day(value)
        if (kind in ("double", "float") or kind.startswith("decimal")) and not isinstance(value, bool | None):
            return float(value)
    except (ValueError, TypeError, OverflowError):
        return value
    return value


def _read_row(row: Mapping[str, Any], offline: OfflineRows) -> Row:
    return tuple(read_cell(row.get(name), kind) for name, kind in zip(offline.names, offline.types, strict=True))


def _match(online: list[Row], offline: OfflineRows) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pair rows by their key columns, or by all their cells; return pairs and the rows left over on either side."""
    free: dict[Row, list[int]] = {}
    for other, row in enumerate(offline.rows):
        free.setdefault(_identity(row, offline), []).append(other)
    pairs, extra = [], []
    for one, row in enumerate(online):
        candidates = free.get(_identity(row, offline), [])
        chosen = next(
            (
                other
                for other in candidates
                if offline.keys or offline.single or offline.close(row, offline.rows[other])
            ),
            None,
        )
        if chosen is None:
            extra.append(one)
        else:
            candidates.remove(chosen)
            pairs.append((one, chosen))
    return pairs, extra, sorted(other for rest in free.values() for other in rest)


def _identity(row: Row, offline: OfflineRows) -> Row:
    """Return what rows are paired by; without key columns, all cells that must be equal exactly."""
    if offline.keys or offline.single:
        return cell_identity(tuple(row[i] for i in offline.keys))
    exact = (
        i
        for i, kind in enumerate(offline.types)
        if not any(word in kind for word in ("double", "float", "decimal")) and not _near(offline, i).estimate
    )
    return cell_identity(tuple(row[i] for i in exact))


def _near(offline: OfflineRows, column: int) -> Tolerance:
    return offline.near[column] if offline.near else EXACT


def cell_identity(cells: Row) -> Row:
    """Turn cells into what is equal for equal ones: NaN is no key of a dict, 1 and True are one key."""
    return tuple((type(cell).__name__, str(cell)) for cell in cells)


def _expected(offline: OfflineRows, matched: set[int]) -> tuple[set[int], bool]:
    """Return which of Spark's rows the result must hold, and whether a tie at the cut left a choice that was used.

    Rows before the cut must be there. Of those that tie at the cut, as many as LIMIT leaves room for: any will do.
    """
    count = len(offline.rows)
    if offline.limit is None or count <= offline.limit:
        return set(range(count)), False
    cut = offline.orders[-1]
    ties = [other for other in range(count) if offline.tie(offline.orders[other], cut)]
    before = set(range(count)) - set(ties)
    room = offline.limit - len(before)
    chosen = [other for other in ties if other in matched]
    # Too few were taken: the first ones that were not stand for what is missing.
    lacking = [other for other in ties if other not in matched][: max(0, room - len(chosen))]
    return before | set(chosen) | set(lacking), True


def _cell_differences(online: Row, offline_row: Row, offline: OfflineRows) -> list[Difference]:
    return [
        Difference(
            kind="cell",
            key=_key(offline_row, offline),
            column=offline.names[i],
            online=_shown(online[i], offline.types[i]),
            offline=_shown(offline_row[i], offline.types[i]),
        )
        for i in range(len(offline.names))
        if not _near(offline, i).close(online[i], offline_row[i])
    ]


def _order_differences(pairs: list[tuple[int, int]], online: list[Row], offline: OfflineRows) -> list[Difference]:
    """Find rows that stand before a row that must come earlier; and more rows than LIMIT allows."""
    found = []
    if offline.limit is not None and len(online) > offline.limit:
        found.append(Difference(kind="order", column="LIMIT", online=len(online), offline=offline.limit))
    ranks = _ranks(offline)
    for (_, earlier), (one, later) in itertools.pairwise(pairs):
        if ranks[later] < ranks[earlier]:
            key = _key(online[one], offline) or _named(online[one], offline)
            found.append(Difference(kind="order", key=key, online=one + 1, offline=later + 1))
    return found


def _ranks(offline: OfflineRows) -> list[int]:
    orders = offline.orders
    ranks: list[int] = []
    for position, order in enumerate(orders):
        same = position > 0 and offline.tie(order, orders[position - 1])
        ranks.append(0 if position == 0 else ranks[-1] + (not same))
    return ranks


def _key(row: Row, offline: OfflineRows) -> dict[str, Any]:
    return {offline.names[i]: _shown(row[i], offline.types[i]) for i in offline.keys}


def _named(row: Row, offline: OfflineRows) -> dict[str, Any]:
    return {name: _shown(cell, kind) for name, cell, kind in zip(offline.names, row, offline.types, strict=True)}


def _shown(cell: Any, kind: str) -> Any:
    """Turn a cell into what JSON can hold and a person can read."""
    if isinstance(cell, list):
        return [_shown(each, kind[len("array<") : -1]) for each in cell]
    if kind == "timestamp" and isinstance(cell, int):
        return time_text(cell).replace(".000000Z", "Z")
    if kind == "date" and isinstance(cell, int):
        return day_text(cell)
    if isinstance(cell, float) and cell not in (cell, float("inf"), float("-inf")):
        return str(cell)
    return cell
