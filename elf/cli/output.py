"""What the command line prints: tables for people, NDJSON for programs, messages on stderr.

A table goes to a terminal, NDJSON into a pipe or with --json. Text from data never reaches a terminal raw: control
characters, which could rewrite what is on the screen, are shown as escapes. Every command says something, so nothing
heavy is imported here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from elf.cli.exits import INTERRUPTED

if TYPE_CHECKING:
    import msgspec
    from rich.console import Console, Group
    from rich.table import Table

    from elf.agents.wire.result import Completeness, Result

#: Of a table's width, what numbers may take of that of texts; and what separates columns.
_NUMBERS_SHARE, _PADDING = 2 / 3, 3
#: C0, DEL and C1, then the marks that change the direction of text.
_CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        *range(0x200E, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
}
#: JSON escapes C0 itself; these it would pass through.
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in _CONTROLS if code > 0x20}


def printable(value: object) -> str:
    """Render a value for a terminal; None is empty, control characters are visible escapes."""
    if value is None:
        return ""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return text.translate(_CONTROLS)


def wants_json(asked: bool) -> bool:
    """Tell whether to print NDJSON: asked for, or nobody is looking."""
    return asked or not sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print one JSON line, at once; in ASCII where that is not taken as UTF-8."""
    import msgspec

    text = msgspec.json.encode(value).decode().translate(_JSON_CONTROLS)
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        text = json.dumps(json.loads(text), separators=(",", ":"))
    print(text, flush=True)


def say(message: str) -> None:
    """Print a message for a person on stderr; only its line breaks are taken as they are."""
    for line in message.splitlines() or [""]:
        print(printable(line), file=sys.stderr)


def confirm(question: str, yes: bool) -> None:
    """Ask whether to go on, unless `yes` says so; else nothing is done, and the command ends."""
    if yes:
        return
    import typer

    try:
        goes_on = typer.confirm(f"{question} Go on?", err=True)
    except typer.Abort:  # nobody there to answer, or Ctrl-C
        goes_on = False
    if not goes_on:
        say("elf: nothing was done")
        raise typer.Exit(INTERRUPTED)


def console() -> Console:
    """Return a console for stdout; rich honours NO_COLOR and the terminal's width."""
    from rich.console import Console

    return Console(highlight=False)


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Build a table; numbers stand to the right, in one line where that leaves room: folded, one looks like several."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    listed = [[(value, printable(value)) for value in row] for row in rows]
    numbers = {index for index in range(len(columns)) if any(_is_number(row[index][0]) for row in listed)}
    taken = sum(_PADDING + max(len(row[index][1]) for row in listed) for index in numbers)
    has_room = taken <= console().width * (_NUMBERS_SHARE if len(numbers) < len(columns) else 1)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        is_number = index in numbers
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(Text(printable(column)), justify=justify, overflow="fold", no_wrap=is_number and has_room)
    for row in listed:
        table.add_row(*(Text(text) for _, text in row))
    return table


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def result_table(result: Result) -> Group:
    """Lay out a result: its window above its rows, its completeness below."""
    from rich.console import Group
    from rich.text import Text

    names = [column.name for column in result.columns]
    known = result.completeness
    return Group(
        Text(f"{printable(result.job)}  {describe_window(result)}", style="bold"),
        table_of(names, ([row.get(name) for name in names] for row in result.rows)),
        Text(
            describe_completeness(known) + _of_a_total(result) + _converged(result) + describe_others(result),
            style=_style_of(known),
        ),
    )


def _of_a_total(result: Result) -> str:
    """Say what those who are named may lack of a job without a window: for most of them it is no fault."""
    named = result.window is None and result.completeness.missing
    return " · a total lacks what an agent read before the job came" if named else ""


def _converged(result: Result) -> str:
    """Say that a result is the job's last one, of a job that reads that."""
    return " · converged" if result.converged is True else ""


def describe_window(result: Result) -> str:
    """Say which time a result covers, in UTC."""
    from elf.agents.language.instants import clock_time

    if result.window is None:
        return "since the job began"
    if result.window.end_ms <= 0:
        return "no window has closed yet"
    start, end = clock_time(result.window.start_ms), clock_time(result.window.end_ms)
    day, _, clock = end.partition(" ")
    return f"{start} to {clock if start.startswith(f'{day} ') else end} UTC"


def describe_time(at_ms: int) -> str:
    """Write a time for people, to the second."""
    from elf.agents.language.instants import clock_time

    return f"{clock_time(at_ms)} UTC"


def describe_completeness(known: Completeness) -> str:
    """Say how complete a result is, in one line; what is zero is not mentioned."""
    import msgspec

    parts = [known.status.replace("_", ", ").replace("incomplete", "but incomplete")]
    if not isinstance(known.side, msgspec.UnsetType):
        parts.append(f"side of {printable(known.side)}, term {known.term}")
    counted = f"{known.reported} of {known.expected} agents"
    # Who is named may lack little of it: a window that begins before the job does names all, beside what they counted.
    parts.append(f"whole from {counted}" if known.missing else counted)
    if known.missing:
        parts.append("some or all missing of " + ", ".join(map(printable, known.missing)))
    counts = (
        ("late events", known.late),
        ("rows left out", known.shed),
        (f"rejected lines{_of(known.rejected_of)}", known.rejected),
        ("gaps", known.gaps),
        ("void intervals", known.void),
        ("intervals backfilled", known.backfilled or 0),
    )
    parts += [f"{count} {what}" for what, count in counts if count]
    for column, count in sorted((known.mistyped or {}).items()):
        parts.append(f"{count} values of {printable(column)} do not fit")
    if not isinstance(known.overflows, msgspec.UnsetType):
        parts += map(printable, known.overflows.sentences())
    if known.revision:
        parts.append(f"revision {known.revision}")
    if known.semantics != "exactly-once":
        parts.append(printable(known.semantics.replace("-", " ")))
    return " · ".join(parts)


def _of(lines: int | msgspec.UnsetType) -> str:
    return f" of {lines}" if lines else ""


def describe_others(result: Result) -> str:
    """Say how many windows changed, or closed, that are not shown."""
    import msgspec

    others = (("changed", result.also_revised), ("closed", result.also_closed))
    known = [(what, also.windows) for what, also in others if not isinstance(also, msgspec.UnsetType)]
    return "".join(f" · {count} older windows {what}, too" for what, count in known)


def _style_of(known: Completeness) -> str:
    if known.status == "open":
        return "dim"
    return "green" if known.complete else "yellow"
