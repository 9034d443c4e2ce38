"""The command verify: published windows beside what Spark computes from the agents' archives."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from elf.agent_url import LONG_TIMEOUT_S
from elf.agents.errors import JobError
from elf.cli.connection import AgentUrls, AsJson, JobName, Timeout, TokenFile, connect
from elf.cli.exits import DIFFERS
from elf.cli.output import console, print_json, wants_json
from elf.cli.spark import HERE, PANEL, Archives, SparkConf, SparkMaster


def verify(
    name: JobName,
    archive: Archives,
    window: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WINDOW",
            help="latest (if nothing is said), START/END (ISO-8601 or epoch ms), or a length: 300s; repeatable.",
        ),
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
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CREATOR=PUBLICKEY", help="Run functions that this creator has signed for the job; repeatable."
        ),
    ] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = LONG_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Recompute published windows with Spark from the archive; exit code 1 if a cell differs and no label says why."""
    from elf.offline.archives import open_archives
    from elf.offline.own import parse_trusted
    from elf.offline.progress import shown
    from elf.offline.session import parse_conf
    from elf.offline.verify.run import run_verify

    if since is not None and window:
        raise JobError("--since names all windows since then, --window single ones: give one of the two")
    settings, trusted, archives = parse_conf(conf or ()), parse_trusted(trust or ()), open_archives(archive)
    if html is not None:
        _require_writable(html)
    with connect(agent, token_file, timeout) as client, shown(sys.stderr.isatty()) as steps:
        report = run_verify(
            client,
            name,
            window or ["latest"],
            archives,
            master,
            since=since,
            conf=settings,
            steps=steps,
            trusted=trusted,
        )
    if html is not None:
        from elf.offline.verify.html import page

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
    app.command(rich_help_panel=PANEL)(verify)
