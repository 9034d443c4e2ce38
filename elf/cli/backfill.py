"""The command backfill: windows of before a job was published, from the agents' archives, by Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.cli.connection import DEFAULT_AGENT, AgentUrl, AsJson, JobName, TokenFile, connect
from elf.cli.output import print_json, printable, say, wants_json
from elf.cli.spark import HERE, PANEL, Archives, SparkMaster, describe_span

if TYPE_CHECKING:
    from elf.offline.backfill import Backfill, Progress


def backfill(
    name: JobName,
    archive: Archives,
    since: Annotated[str, typer.Option(metavar="LENGTH", help="How far back from now: 7d, 12h, 30m.")] = "7d",
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Go on without the archives of some agents; windows name them missing.")
    ] = False,
    scratch: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where Spark puts what it computed; a cluster has to see it.")
    ] = None,
    master: SparkMaster = HERE,
    agent: AgentUrl = DEFAULT_AGENT,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Compute a job's windows of before it was published from the archives; can be repeated, counts nothing twice."""
    from agents.jobs.durations import parse_duration_ms

    try:
        since_ms = round(time.time() * 1000) - parse_duration_ms(since)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    from elf.offline.backfill import run_backfill

    with connect(agent, token_file) as client, _bar() as progress:
        done = run_backfill(
            client,
            name,
            since_ms,
            archive,
            master,
            incomplete=incomplete,
            scratch=scratch,
            progress=progress,
            waiting=say,
        )
    if wants_json(as_json):
        print_json(done)
    else:
        print(_describe(done))
    for note in done.notes:
        say(note)
    if done.missing:
        say(f"some of it is missing of: {', '.join(map(printable, done.missing))}")


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    """Show how far it is on a terminal."""
    if not sys.stderr.isatty():
        yield lambda now: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), TextColumn("{task.percentage:.0f} %"), TextColumn("{task.fields[rows]}"))
    with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("backfill", rows="starting Spark")

        def show(now: Progress) -> None:
            rows = f"{now.events:,} events read, {now.rows:,} rows loaded"
            bars.update(task, total=now.end_ms - now.start_ms, completed=now.done_ms - now.start_ms, rows=rows)

        yield show


def _describe(done: Backfill) -> str:
    if not done.intervals:
        return f"{printable(done.job)}: nothing to backfill"
    span = describe_span(done.start_ms, done.end_ms)
    return (
        f"{printable(done.job)}: {done.intervals:,} intervals from {span}, {done.rows:,} rows of {done.events:,} events"
    )


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=PANEL)(backfill)
