"""The command run: a job once over files, with no agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elf.agents.errors import BadRequestError, ConfigError, JobError
from elf.agents.wire.result import json_value
from elf.cli.connection import AsJson
from elf.cli.exits import NO_RESULT
from elf.cli.mistakes import explained, load_job
from elf.cli.output import console, print_json, say, table_of, wants_json
from elf.cli.spark import PANEL


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job: TOML, or bare SQL in a .sql file.")],
    inputs: Annotated[list[str], typer.Option("--input", metavar="GLOB", help="Log files, .gz too; repeatable.")],
    once: Annotated[
        bool, typer.Option("--once", help="Read the files as they are now, then end (the only mode).")
    ] = True,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="json (the default), combined or another name, or a pasted nginx log_format / Apache LogFormat; "
            "repeatable: the first that fits a line.",
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="'a BIGINT, b STRING'", help="Types of JSON columns; else inferred.")
    ] = None,
    time: Annotated[str, typer.Option(metavar="FIELD", help="JSON field with the event time.")] = "ts",
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Of times that do not say theirs: Europe/Berlin, UTC.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run a job once over files and print its rows; no agent, no cluster. Exit code 1 if no line came to anything.

    Lines are read as they are: no agent's settings count, so nothing is redacted as a source's privacy has it.
    """
    from elf.agents.host.allocation import keep_freed_memory, loading

    with loading():
        import polars as pl

        from elf.agents.oneshot import WINDOW_COLUMNS, evaluate, parse_columns
        from elf.agents.sources.format import make_format
        from elf.agents.sources.times.zones import named_zone
    keep_freed_memory()

    if not once:
        raise JobError("elf run reads files once; for live answers start `elf agent` and publish the job")
    try:
        zone = named_zone(time_zone) if time_zone else None
    except ConfigError as error:
        raise BadRequestError(f"--time-zone: {error}") from None
    format = formats or ["json"]
    try:
        make_format(format, time=time, zone=zone)
    except ConfigError as error:
        # A setting of a source elsewhere, and here the command line.
        raise BadRequestError(f"--format: {error}") from None
    with explained(job):
        outcome = evaluate(load_job(job), inputs, format, parse_columns(columns or ""), time, zone)
    if wants_json(as_json):
        bounds = pl.col(WINDOW_COLUMNS).dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ")
        frame = outcome.frame.with_columns(bounds) if WINDOW_COLUMNS[0] in outcome.frame.columns else outcome.frame
        for row in frame.iter_rows(named=True):
            print_json({name: json_value(value) for name, value in row.items()})
    else:
        frame = outcome.frame.with_columns(pl.selectors.datetime().dt.replace_time_zone("UTC"))
        console().print(table_of(frame.columns, frame.iter_rows()))
    lines = outcome.counters
    skipped = f"{lines.filtered} skipped" + (" unparsed, which the filter rules out" if lines.filtered else "")
    ends = f"{lines.parsed} parsed, {skipped}, {lines.rejected} rejected"
    files = "1 file" if outcome.files == 1 else f"{outcome.files} files"
    say(f"{lines.read} lines of {files}: {ends}")
    if outcome.failed:
        events = "1 event" if outcome.failed == 1 else f"{outcome.failed} events"
        say(f"{events} left out, on which the job's expressions or functions fail")
    if outcome.rejected is not None:
        line, reason = outcome.rejected
        say(f"first rejected line ({reason}): {line[:200].decode(errors='replace').rstrip()}")
    if outcome.advice is not None:
        say(outcome.advice)
    if outcome.advice is not None or (outcome.failed and outcome.failed == lines.parsed):
        raise typer.Exit(NO_RESULT)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=PANEL)(run)
