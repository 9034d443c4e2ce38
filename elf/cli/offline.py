"""Commands that need no agent: run (one shot over files), verify (Spark over the archive)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from agents.errors import JobError
from elf.cli.connection import DEFAULT_AGENT, AgentUrl, AsJson, JobName, TokenFile, connect
from elf.cli.exits import DIFFERS, NO_RESULT
from elf.cli.mistakes import explained, load_job
from elf.cli.output import console, print_json, say, table_of, wants_json
from elf.cli.spark import HERE, PANEL, Archives, SparkConf, SparkMaster


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job: TOML, or bare SQL in a .sql file.")],
    inputs: Annotated[list[str], typer.Option("--input", metavar="GLOB", help="Log files, .gz too; repeatable.")],
    once: Annotated[
        bool, typer.Option("--once", help="Read the files as they are now, then end (the only mode).")
    ] = True,
    format: Annotated[
        str, typer.Option(help="json, combined, common, or a pasted nginx log_format / Apache LogFormat.")
    ] = "json",
    columns: Annotated[
        str | None, typer.Option(metavar="'a BIGINT, b STRING'", help="Types of JSON columns; else inferred.")
    ] = None,
    time: Annotated[str, typer.Option(metavar="FIELD", help="JSON field with the event time.")] = "ts",
    as_json: AsJson = False,
) -> None:
    """Run a job once over files and print its rows; no agent, no cluster. Exit code 1 if every line was rejected."""
    from agents.sources.allocation import keep_freed_memory, loading

    with loading():
        from polars import selectors

        from agents.once import evaluate, parse_columns
    keep_freed_memory()

    if not once:
        raise JobError("elf run reads files once; for live answers start `elf agent` and publish the job")
    with explained(job):
        outcome = evaluate(load_job(job), inputs, format, parse_columns(columns or ""), time)
    frame = outcome.frame.with_columns(selectors.datetime().dt.replace_time_zone("UTC"))
    if wants_json(as_json):
        for row in frame.iter_rows(named=True):
            print_json(row)
    else:
        console().print(table_of(frame.columns, frame.iter_rows()))
    lines = outcome.counters
    ends = f"{lines.parsed} parsed, {lines.filtered} skipped, {lines.rejected} rejected"
    say(f"{lines.read} lines of {outcome.files} files: {ends}")
    if outcome.rejected is not None:
        line, reason = outcome.rejected
        say(f"first rejected line ({reason}): {line[:200].decode(errors='replace').rstrip()}")
    if lines.rejected and not lines.parsed:
        raise typer.Exit(NO_RESULT)


def verify(
    name: JobName,
    archive: Archives,
    window: Annotated[
        list[str] | None, typer.Option(metavar="START/END", help="Window to verify, or latest; repeatable.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="2h|7d|TIME", help="Verify all windows that closed since then, counted from the newest."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the report as a page that needs nothing else.")
    ] = None,
    master: SparkMaster = HERE,
    conf: SparkConf = None,
    agent: AgentUrl = DEFAULT_AGENT,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Recompute published windows with Spark from the archive; exit code 1 if a cell differs and no label says why."""
    from elf.offline.progress import shown
    from elf.offline.session import parse_conf
    from elf.offline.verify import run_verify

    if since is not None and window:
        raise JobError("--since names all windows since then, --window single ones: give one of the two")
    settings = parse_conf(conf or ())
    if html is not None:
        _require_writable(html)
    with connect(agent, token_file) as client, shown(sys.stderr.isatty()) as steps:
        report = run_verify(
            client, name, window or ["latest"], archive, master, since=since, conf=settings, steps=steps
        )
    if html is not None:
        from elf.offline.html import page

        html.write_text(page(report, time.time_ns() // 1_000_000), encoding="utf-8")
    if wants_json(as_json):
        print_json(report.to_dict())
    else:
        console().print(report)
    if not report.passes:
        raise typer.Exit(DIFFERS)


def _require_writable(file: Path) -> None:
    """Find out before the long work that a report cannot be written."""
    try:
        file.open("a").close()
    except OSError as error:
        raise JobError(f"--html {file} cannot be written: {error.strerror}") from None


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (run, verify):
        app.command(rich_help_panel=PANEL)(command)
