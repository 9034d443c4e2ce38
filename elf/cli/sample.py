"""The command sample: what the lines of a file are, and one of them taken apart."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from elf.cli.exits import NO_RESULT
from elf.cli.output import console, print_json, say, table_of, wants_json
from elf.cli.spark import PANEL

if TYPE_CHECKING:
    from elf.agents.sources.format import Format
    from elf.agents.sources.inputs import Input
    from elf.cli.recognised import Reading

#: Lines that do not fit are told of by the field where they stop, of so many of these.
_STOPS_MAX = 5


def sample(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A log, packed or not; - is standard input.")],
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="FORMAT", help="What its lines are; else they are looked at."),
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="FIELD", help="JSON field with the event time.")] = None,
    time_zone: Annotated[str, typer.Option(metavar="ZONE", help="Of times that do not say theirs.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="NDJSON, a line a field, also to a terminal.")] = False,
) -> None:
    """Say what the first lines of a file are, take one apart, and show where others stop to fit.

    Exit code 1 if no line fits.
    """
    from elf.agents.host.allocation import loading

    with loading():
        from elf.agents.sources.inputs import find_inputs
        from elf.cli.recognised import format_of, reading_of, zone_of

    zone = zone_of(time_zone)
    (found,) = find_inputs([file]).files
    reading = reading_of([found], formats, time, hints=False)
    format = format_of(reading, zone)
    lines = [line.rstrip(b"\r") for line in found.front().split(b"\n") if line.strip()]
    fitting = [line for line in lines if _fits(format, line)]
    if fitting:
        _show(format, fitting[0], as_json)
    say(f"{len(fitting)} of {len(lines)} lines fit {format.name}")
    _say_stops(format, lines)
    if not fitting:
        raise typer.Exit(NO_RESULT)
    say(_settings(found, reading, time_zone))


def _fits(format: Format, line: bytes) -> bool:
    from elf.agents.sources.format import parse_chunk

    return parse_chunk(format, line, {}).counters.parsed == 1


def _show(format: Format, line: bytes, as_json: bool) -> None:
    """Print a line's fields: where each is, its column, kind and value."""
    from elf.agents.sources.layout_lines import LayoutLines

    rows: list[tuple[str | int, ...]]
    if isinstance(format, LayoutLines):
        names: tuple[str, ...] = ("bytes", "column", "kind", "value")
        rows = [
            (f"{begin}-{end}", field.column, field.shown.partition(" (")[2].rstrip(")"), line[begin:end].decode())
            for field, begin, end in format.taken_apart(line)
        ]
    else:
        names = ("column", "value")
        rows = _columns(format, line)
    if wants_json(as_json):
        for row in rows:
            print_json(dict(zip(names, row, strict=True)))
    else:
        console().print(table_of(names, rows))


def _columns(format: Format, line: bytes) -> list[tuple[str | int, ...]]:
    """Return the columns of an object and their values: those that a format declares, or all paths to single values."""
    import msgspec

    from elf.agents.language.paths import Step, column_of
    from elf.agents.sources.format import parse_chunk

    if format.columns is not None:
        row = parse_chunk(format, line, format.columns).events.drop("ts").row(0, named=True)
        return [(name, msgspec.json.encode(value).decode()) for name, value in row.items()]
    rows = list[tuple[str | int, ...]]()

    def walk(steps: tuple[Step, ...], value: object) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                walk((*steps, name), inner)
        elif isinstance(value, list) and value and isinstance(value[0], dict | list):
            walk((*steps, 0), value[0])
        else:
            # At the top a name is itself, whatever is in it.
            name = str(steps[0]) if len(steps) == 1 else column_of(steps)
            rows.append((name, msgspec.json.encode(value).decode()))

    for name, value in msgspec.json.decode(line).items():
        walk((name,), value)
    return rows


def _say_stops(format: Format, lines: list[bytes]) -> None:
    """Say where lines stop to fit, those that stop at one field together."""
    from elf.agents.sources.layout_lines import LayoutLines

    if not isinstance(format, LayoutLines):
        return
    counts, first = Counter[str](), dict[str, str]()
    for number, line in enumerate(lines, 1):
        misfit = format.misfit(line)
        if misfit is not None:
            counts[misfit.where] += 1
            first.setdefault(misfit.where, f"line {number} {misfit.shown(line)}")
    for where, count in counts.most_common(_STOPS_MAX):
        others = f" ({count} lines do)" if count > 1 else ""
        say(f"{first[where]}{others}")


def _settings(file: Input, reading: Reading, zone: str) -> str:
    """Return the settings of a source whose log this is."""
    formats = ", ".join(_quoted(format) for format in reading.formats)
    settings = [f"path = {_quoted(file.name)}", f"format = {formats if len(reading.formats) == 1 else f'[{formats}]'}"]
    if list(reading.formats) == ["json"]:
        settings.append(f"time = {_quoted(reading.time)}")
    if zone:
        settings.append(f"time_zone = {_quoted(zone)}")
    return "\n".join(["to follow it:", "[sources.NAME]", *settings])


def _quoted(text: str) -> str:
    """Return a text as TOML has it; one with both kinds of quotes needs escapes, which are those of JSON."""
    is_plain = "'" not in text and text.isprintable() and ('"' in text or "\\" in text)
    return f"'{text}'" if is_plain else json.dumps(text, ensure_ascii=False)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=PANEL)(sample)
