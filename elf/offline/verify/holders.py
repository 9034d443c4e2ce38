"""Which agents' files hold the events of a key that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from msgspec.structs import replace

from elf.offline.archives import name_in_url, name_of
from elf.offline.events import FILE
from elf.offline.grid import START, Grid, Window
from elf.offline.verify.compare import cell_identity, read_cell
from elf.offline.verify.counted import Counted
from elf.offline.verify.report import Difference
from elf.offline.verify.rows import OfflineRows, Row, RowsPlan, collectable

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Keys of one pass whose files are looked for, and files named for each.
KEYS_MAX = 100
FILES_MAX = 8


def name_holders(
    plan: RowsPlan, events: Counted, grid: Grid, found: Mapping[Window, tuple[OfflineRows, list[Difference]]]
) -> dict[Window, list[Difference]]:
    """Note on differences how many events of their key each agent has, and in which files; on the first `KEYS_MAX`.

    Args:
        plan: the version's.
        events: that it counts.
        grid: of the windows.
        found: window -> Spark's rows and the differences, the first ones to be noted first.
    """
    wanted: dict[Row, Row] = {}
    for (start_ms, _), (rows, differences) in found.items():
        for each in differences:
            key = _key_of(each, rows)
            if key is not None and len(wanted) < KEYS_MAX:
                wanted[cell_identity((start_ms, *key))] = (start_ms, *key)
    if not wanted or not events.files:
        return {window: differences for window, (_, differences) in found.items()}
    held = _held(plan, events, grid, list(wanted.values()))
    agents = {name_of(file.path): events.names.get(file.entry.agent, file.entry.agent) for file in events.files}
    noted: dict[Window, list[Difference]] = {}
    for window, (rows, differences) in found.items():
        noted[window] = []
        for each in differences:
            key = _key_of(each, rows)
            counts = held.get(cell_identity((window[0], *key)), {}) if key is not None else {}
            by_agent: dict[str, int] = {}
            for path, count in sorted(counts.items()):
                agent = agents.get(path, path)
                by_agent[agent] = by_agent.get(agent, 0) + count
            noted[window].append(replace(each, agents=by_agent, files=sorted(counts)[:FILES_MAX]))
    return noted


def _held(plan: RowsPlan, events: Counted, grid: Grid, wanted: Sequence[Row]) -> dict[Row, dict[str, int]]:
    """Count the events of keys by file: identity of (start, *key) -> path -> events."""
    from pyspark.sql import functions as F

    chosen = plan.chosen(events.read(with_file=True), grid)
    names = [START, *(f"__k{i}" for i in range(len(wanted[0]) - 1))]
    cells = chosen.select(*[collectable(chosen.schema[name].dataType, name) for name in names], FILE)

    def same(row: Row) -> Column:
        return reduce(and_, [F.col(name).eqNullSafe(F.lit(cell)) for name, cell in zip(names, row, strict=True)])

    counted = cells.filter(reduce(or_, map(same, wanted))).groupBy(*names, FILE).count()
    held: dict[Row, dict[str, int]] = {}
    for *key, url, count in counted.collect():
        held.setdefault(cell_identity(tuple(key)), {})[name_in_url(url)] = count
    return held


def _key_of(difference: Difference, rows: OfflineRows) -> Row | None:
    """Return the group keys of a difference; None where the result does not show them."""
    if (not rows.keys and not rows.single) or len(difference.key) != len(rows.keys):
        return None
    return tuple(read_cell(difference.key[rows.names[i]], rows.types[i]) for i in rows.keys)
