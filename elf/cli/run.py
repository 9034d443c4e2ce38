"""The command run: a job once over files, with no agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agents.errors import JobError
from elf.agents.language.json_rows import json_rows
from elf.cli.connection import AsJson
from elf.cli.exits import NO_RESULT
from elf.cli.mistakes import explained, load_job, written
from elf.cli.output import console, print_json, say, table_of, wants_json
from elf.cli.spark import PANEL

if TYPE_CHECKING:
    from elf.agents.oneshot import Outcome
    from elf.agents.sources.files.inputs import Input
    from elf.agents.sources.format import Format

INPUT = "Log files, compressed or not; - for standard input; repeatable. Each file counts once."
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="json, combined or another name, or a pasted nginx log_format / Apache LogFormat; else the lines are "
        "looked at. Repeatable: the first that fits a line.",
    ),
]
#: Windows of which it is told that they lack values.
_WINDOWS_MAX = 5


def run(
    inputs: Annotated[list[str], typer.Option("--input", metavar="GLOB", help=INPUT)],
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB",
            help="A job: TOML, or SQL in a .sql file; a query itself; - for stdin. Without: what is asked for most.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read the files as they are now, then end (the only mode).")
    ] = True,
    formats: Formats = None,
    columns: Annotated[
        str | None, typer.Option(metavar="'a BIGINT, b STRING'", help="Types of JSON columns; else inferred.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Field with the event time; without --format the one that has it, else ts."),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Of times that do not say theirs: Europe/Berlin, UTC.")
    ] = "",
    unwrap: Annotated[str, typer.Option(metavar="FIELD", help="JSON field whose text is an object, too.")] = "",
    as_json: AsJson = False,
) -> None:
    """Run a job once over files and print its rows; no agent, no cluster.

    Exit code 1 if no line of some file came to anything, or one that a glob matches cannot be read.

    Lines are read as they are: no agent's settings count, so nothing is redacted as a source's privacy has it.
    """
    from elf.agents.host.allocation import keep_freed_memory, loading

    with loading():
        from elf.agents.oneshot import evaluate, parse_columns
        from elf.agents.sources.files.inputs import find_inputs
        from elf.agents.sources.json_lines import JSON
        from elf.cli.recognised import FormatSpec, format_of, spec_of, zone_of
    keep_freed_memory()

    if not once:
        raise JobError("elf run reads files once; for live answers start `elf agent` and publish the job")
    zone = zone_of(time_zone)
    if formats or unwrap:
        format_of(FormatSpec(formats or [JSON], time or "ts", unwrap), zone)
    # Once: a pipe gives nothing twice.
    found = find_inputs(inputs) if job is None else None
    if found is not None:
        spec = spec_of(found.files, formats or ([JSON] if unwrap else None), time, zone=zone)
        formats, time = [*spec.formats], spec.time
        job = _first_question(format_of(spec, zone), found.files)
    file, text = written(job or "")
    with explained(file, text=text):
        definition = load_job(file, text)
        found = found or find_inputs(inputs)
        spec = spec_of(found.files, formats or ([JSON] if unwrap else None), time, zone=zone)
        spec = spec._replace(unwrap=unwrap)
        format_of(spec, zone)
        types = parse_columns(columns or "")
        outcome = evaluate(definition, found, spec.formats, types, spec.time, zone, unwrap)
    _show(outcome, wants_json(as_json))
    _say(outcome)
    _end(outcome)


def _end(outcome: Outcome) -> None:
    """End the command with the exit code of having no result if lines came to nothing."""
    fails_on_all = outcome.failed and outcome.failed == outcome.counters.parsed
    if outcome.misfits or outcome.inputs.unreadable or fails_on_all:
        raise typer.Exit(NO_RESULT)


def _first_question(format: Format, files: Sequence[Input]) -> str:
    """Make a question for whoever has none yet, and say what is asked."""
    from elf.installation.first_job import first_question
    from elf.installation.sources import ACCESS, columns_of

    front = next((front for file in files if (front := file.front())), b"")
    question = first_question(ACCESS, columns_of(format, front))
    say(f"asked: {question}")
    return question


def _show(outcome: Outcome, as_json: bool) -> None:
    """Print the rows."""
    import polars as pl

    from elf.agents.oneshot import WINDOW_COLUMNS

    bounds = pl.col(WINDOW_COLUMNS).dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ")
    frame = outcome.frame.with_columns(bounds) if WINDOW_COLUMNS[0] in outcome.frame.columns else outcome.frame
    rows = json_rows(frame)
    if as_json:
        for row in rows:
            print_json(row)
    else:
        console().print(table_of(frame.columns, ([*row.values()] for row in rows)))


def _say(outcome: Outcome) -> None:
    """Say what became of the lines."""
    lines = outcome.counters
    skipped = f"{lines.filtered} skipped" + (" unparsed, which the filter rules out" if lines.filtered else "")
    headers = f", {lines.headers} of headers" if lines.headers else ""
    headers += f", {lines.parts} parts of others" if lines.parts else ""
    ends = f"{lines.parsed} parsed, {skipped}, {lines.rejected} rejected{headers}"
    say(f"{lines.read} lines of {_files(outcome.inputs.files)}: {ends}")
    for name, (kind, count) in outcome.mistyped.items():
        values, fit, are = ("1 value", "does", "is") if count == 1 else (f"{count} values", "do", "are")
        say(f"{values} of {name} {fit} not fit {kind.value} and {are} null")
    if outcome.failed:
        events = "1 event" if outcome.failed == 1 else f"{outcome.failed} events"
        say(f"{events} left out, on which the job's expressions or functions fail")
    for window, overflows in outcome.overflows[:_WINDOWS_MAX]:
        for sentence in overflows.sentences():
            say(f"{sentence}, in the window {window}" if window else sentence)
    if len(outcome.overflows) > _WINDOWS_MAX:
        say(f"values are not there in {len(outcome.overflows) - _WINDOWS_MAX} more windows")
    if outcome.rejected is not None:
        line, reason = outcome.rejected
        say(f"first rejected line ({reason}): {line[:200].decode(errors='replace').rstrip()}")
    for name, why in outcome.misfits.items():
        say(f"{name}: no line is an event: {why}")
    for name, why in outcome.inputs.unreadable.items():
        say(f"{name}: left out: {why}")


def _files(files: Sequence[Input]) -> str:
    """Count files, and their names if these are more."""
    names = sum(len(file.names) for file in files)
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return count if names == len(files) else f"{count} with {names} names"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=PANEL)(run)
