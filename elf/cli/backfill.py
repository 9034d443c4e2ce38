"""The command backfill: windows of before a job was published, from the agents' archives, by Spark."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agent_url import LONG_TIMEOUT_S
from elf.cli.connection import AgentUrls, AsJson, JobName, Timeout, TokenFile, connect
from elf.cli.output import print_json, printable, say, wants_json
from elf.cli.spark import HERE, PANEL, Archives, SparkConf, SparkMaster, describe_span

if TYPE_CHECKING:
    from elf.offline.backfill.run import Backfill


def backfill(
    name: JobName,
    archive: Archives,
    since: Annotated[str, typer.Option(metavar="7d|TIME", help="From when on, or how far back from now.")] = "7d",
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Go on without the archives of some agents; windows name them missing.")
    ] = False,
    scratch: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where Spark puts what it computed; a cluster has to see it.")
    ] = None,
    master: SparkMaster = HERE,
    conf: SparkConf = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = LONG_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Compute a job's windows of before it was published from the archives; can be repeated, counts nothing twice."""
    from elf.offline.archives import open_archives
    from elf.offline.backfill.run import run_backfill
    from elf.offline.progress import shown
    from elf.offline.session import parse_conf
    from elf.offline.since import parse_since

    settings, since_ms = parse_conf(conf or ()), parse_since(since, time.time_ns() // 1_000_000)
    with connect(agent, token_file, timeout) as client, shown(sys.stderr.isatty()) as steps:
        done = run_backfill(
            client,
            name,
            since_ms,
            open_archives(archive),
            master,
            conf=settings,
            incomplete=incomplete,
            scratch=scratch,
            steps=steps,
            say=say,
        )
    if wants_json(as_json):
        print_json(done)
    else:
        print(_describe(done))
    for note in done.notes:
        say(note)
    if done.missing:
        say(f"some of it is missing of: {', '.join(map(printable, done.missing))}")


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
