"""A result laid out for a terminal of some size: one line a row, no number cut, its label in plain words.

What does not fit is left out and counted, for half a number reads as another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elf.cli.output import describe_completeness, describe_others, describe_window, printable

if TYPE_CHECKING:
    from rich.console import Group

    from elf.agents.wire.result import Completeness, Result

#: Between columns (one of it is where rich would draw a line), and what a text needs to be told from another.
_GAP, _TEXT_MIN = 2, 8
#: Lines beside rows and label: title, head, rule, a blank one below the rows, and where the cursor stands.
_LINES_BESIDE = 5
#: Statuses of results, as who never read of them understands them.
_PLAIN = {
    "final": "complete",
    "revised": "complete, and corrected since it was first shown",
    "final_incomplete": "closed, but not complete",
    "open": "still open: figures grow",
    "partial": "of one side only of agents that are split",
}


def plain_label(known: Completeness) -> str:
    """Say how complete a result is, without a word that has to be looked up."""
    said = describe_completeness(known).split(" · ")
    said[0] = _PLAIN.get(known.status, said[0])
    return " · ".join(each for each in said if not each.startswith("revision "))


def age(result: Result, now_ms: int) -> str:
    """Say how long ago a result's window ended, or up to when it counts if it has none."""
    end_ms = result.window.end_ms if result.window is not None else result.through_ms
    if end_ms is None or end_ms <= 0:
        return "nothing is counted yet"
    what = "ended" if result.window is not None else "counted up to"
    return f"{what} {_duration(max(0, now_ms - end_ms) // 1000)} ago"


def _duration(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def view(result: Result, now_ms: int, width: int, height: int | None = None, rows_max: int | None = None) -> Group:
    """Lay out a result.

    Args:
        result: what.
        now_ms: the time of day.
        width: of the terminal, in cells.
        height: of the terminal, in lines; None: as many as there are.
        rows_max: most rows to show.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    known = result.completeness
    title = f"{printable(result.job)}  {describe_window(result)}  {age(result, now_ms)}"
    label = plain_label(known) + describe_others(result)
    lines = sum(math.ceil(len(text) / max(1, width)) for text in (title, label)) - 1
    room = len(result.rows) if height is None else max(1, height - _LINES_BESIDE - lines)
    rows = result.rows[: min(room, rows_max or room)]
    names = [column.name for column in result.columns]
    cells = [[(row.get(name), printable(row.get(name))) for name in names] for row in rows]
    numbers = [any(_is_number(row[index][0]) for row in cells) for index in range(len(names))]
    heads = [printable(name) for name in names]
    widths = fitted([_widest(heads[i], [row[i][1] for row in cells]) for i in range(len(names))], numbers, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
    for index, cell_width in enumerate(widths):
        table.add_column(
            Text(heads[index]),
            justify="right" if numbers[index] else "left",
            width=cell_width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in cells:
        table.add_row(*(Text(text) for _, text in row[: len(widths)]))
    left_out = [
        f"{count} more {what}{'s' * (count > 1)}" for count, what in _left_out(result, len(rows), len(widths)) if count
    ]
    label += "".join(f" · {each}" for each in left_out)
    return Group(
        Text(title, style="bold"),
        table,
        Text(),
        Text(label, style="green" if known.complete else "dim" if known.status == "open" else "yellow"),
    )


def fitted(wanted: Sequence[int], numbers: Sequence[bool], width: int) -> list[int]:
    """Return the widths of the first columns, as many as fit: numbers as wide as they are, texts share the rest.

    Args:
        wanted: how wide each column would be.
        numbers: which of them must not be cut.
        width: of all, with the gaps between them.
    """
    for count in range(len(wanted), 0, -1):
        texts = sorted(wanted[i] for i in range(count) if not numbers[i])
        room = width - _GAP * count - sum(wanted[i] for i in range(count) if numbers[i])
        if room < sum(min(_TEXT_MIN, each) for each in texts):
            continue
        # The narrow ones have what they want; the wide ones have alike of what is left.
        share = 0
        for place, each in enumerate(texts):
            share = max(min(_TEXT_MIN, each), room // (len(texts) - place))
            if each > share:
                break
            share = each
            room -= each
        return [wanted[i] if numbers[i] else min(wanted[i], share) for i in range(count)]
    return [max(1, min(wanted[0], width - _GAP))] if wanted else []


def _widest(head: str, texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(1, cell_len(head), *map(cell_len, texts)) if texts else max(1, cell_len(head))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _left_out(result: Result, rows: int, columns: int) -> tuple[tuple[int, str], ...]:
    return ((len(result.rows) - rows, "row"), (len(result.columns) - columns, "column"))
