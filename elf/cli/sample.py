"""The command sample: what the lines of a file are, and one of them taken apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, cast

import typer

from elf.cli.exits import NO_RESULT
from elf.cli.output import console, print_json, say, table_of, wants_json
from elf.cli.spark import PANEL

if TYPE_CHECKING:
    from elf.agents.sources.files.inputs import Input
    from elf.agents.sources.format import Format
    from elf.agents.sources.layouts.layout import Field
    from elf.agents.sources.layouts.misfit import Misfit
    from elf.cli.recognised import FormatSpec

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
        from elf.agents.sources.files.inputs import find_inputs
        from elf.cli.recognised import format_of, spec_of, zone_of

    zone = zone_of(time_zone)
    (found,) = find_inputs([file]).files
    spec = spec_of([found], formats, time, zone=zone, hints=False)
    format = format_of(spec, zone)
    lines = _lines(format, found)
    fitting = [each for each in lines if each.fits]
    if fitting:
        _show(format, fitting[0], as_json)
    say(f"{len(fitting)} of {len(lines)} lines fit {format.name}")
    _say_stops(format, lines)
    if not fitting:
        raise typer.Exit(NO_RESULT)
    say(_settings(found, spec, time_zone))


class _Line(NamedTuple):
    """A line that is no header, and no part of one; its number, and the lines before it that it needs."""

    number: int
    line: bytes
    carried: Sequence[bytes]
    fits: bool


def _lines(format: Format, file: Input) -> list[_Line]:
    from elf.agents.sources.carried import Carrying
    from elf.agents.sources.exported_lines import ExportedLines
    from elf.agents.sources.format import parse_chunk
    from elf.agents.sources.headed_lines import HeadedLines

    front = file.front()
    if isinstance(format, ExportedLines):
        front, format = format.objects_in(front), format.of_objects
    found, carrying = list[_Line](), Carrying(format.carrier)
    for number, line in enumerate((line for line in front.split(b"\n") if line.strip()), 1):
        carried = carrying.before(line + b"\n")
        ends = parse_chunk(format, line, {}, carried=carried).counters
        if ends.read > ends.headers:
            row = format.row(line, carried) if isinstance(format, HeadedLines) else line
            found.append(_Line(number, row.rstrip(b"\r"), carried, ends.parsed == 1 and not ends.rejected))
    return found


class _TakesApart(Protocol):
    """A format whose lines can be taken apart."""

    def taken_apart(self, line: bytes, carried: Sequence[bytes]) -> list[tuple[Field, int, int]]: ...

    def misfit(self, line: bytes, carried: Sequence[bytes]) -> Misfit | None: ...


def _of_fields(format: Format) -> _TakesApart | None:
    """Return a format as one of fields; None if it is JSON, or in a wrapper."""
    from elf.agents.sources.json_lines import JsonLines
    from elf.agents.sources.wrapped_lines import WrappedLines

    return None if isinstance(format, JsonLines | WrappedLines) else cast(_TakesApart, format)


def _show(format: Format, shown: _Line, as_json: bool) -> None:
    """Print a line's fields: where each is, its column, kind and value."""
    rows: list[tuple[str | int, ...]]
    line, of_fields = shown.line, _of_fields(format)
    if of_fields is not None:
        names: tuple[str, ...] = ("bytes", "column", "kind", "value")
        rows = [
            (f"{begin}-{end}", field.column, field.shown.partition(" (")[2].rstrip(")"), line[begin:end].decode())
            for field, begin, end in of_fields.taken_apart(line, shown.carried)
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
    from elf.agents.sources.wrapped_lines import WrappedLines

    if isinstance(format, WrappedLines):
        return [(name, msgspec.json.encode(value).decode()) for name, value in format.fields_of(line).items()]
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


def _say_stops(format: Format, lines: list[_Line]) -> None:
    """Say where lines stop to fit, those that stop at one field together."""
    counts, first = Counter[str](), dict[str, str]()
    of_fields = _of_fields(format)
    for each in lines if of_fields is not None else ():
        misfit = of_fields.misfit(each.line, each.carried) if of_fields is not None else None
        if misfit is not None:
            counts[misfit.where] += 1
            first.setdefault(misfit.where, f"line {each.number} {misfit.shown(each.line)}")
    for where, count in counts.most_common(_STOPS_MAX):
        others = f" ({count} lines do)" if count > 1 else ""
        say(f"{first[where]}{others}")


def _settings(file: Input, spec: FormatSpec, zone: str) -> str:
    """Return the settings of a source whose log this is."""
    formats = ", ".join(_quoted(format) for format in spec.formats)
    settings = [f"path = {_quoted(file.name)}", f"format = {formats if len(spec.formats) == 1 else f'[{formats}]'}"]
    if spec.formats[0] == "json" or spec.formats[0].endswith("+json"):
        settings.append(f"time = {_quoted(spec.time)}")
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
