"""The command top: a job's newest window, live."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agent_url import TIMEOUT_S
from elf.cli.connection import AgentUrls, JobName, Timeout, TokenFile, connect
from elf.cli.exits import NO_RESULT
from elf.cli.output import console, print_json, say

if TYPE_CHECKING:
    from rich.console import Console, Group

    from elf.agents.wire.result import Result
    from elf.client import Client


def top(
    name: JobName,
    once: Annotated[bool, typer.Option("--once", help="Show the newest window, and end.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Most rows to show.", show_default="what fits")] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print NDJSON, one line a window.")] = False,
) -> None:
    """Show a job's newest window, live: its rows, how complete they are, and how late.

    In a pipe: tables one below the other, as plain text. Exit code 1 if there are no rows, with --once.
    """
    with connect(agent, token_file, timeout) as client:
        if once:
            result = client.query(name)
            _print(result, limit, as_json)
            if not result.rows:
                raise typer.Exit(NO_RESULT)
            return
        if as_json or not console().is_terminal:
            for result in newest_of(client.watch(name)):
                _print(result, limit, as_json)
        else:
            _follow(client, name, limit)
    say(f"{name} was stopped")


def _follow(client: Client, name: str, limit: int | None) -> None:
    """Draw the newest window anew with each result, and once a second: it grows older."""
    from rich.live import Live
    from rich.text import Text

    screen = console()
    newest: Result | None = None

    def drawn() -> Group | Text:
        return Text(f"waiting for {name} ...") if newest is None else _view(newest, screen, screen.height, limit)

    with Live(console=screen, get_renderable=drawn, refresh_per_second=1) as live:
        for newest in newest_of(client.watch(name)):  # noqa: B007  # drawn anew meanwhile
            live.refresh()


def newest_of(results: Iterable[Result]) -> Iterator[Result]:
    """Leave out what of a job's results is of an older window than one before: late data changes those, too."""
    end_ms, version = 0, 0
    for result in results:
        own_ms = end_ms if result.window is None else result.window.end_ms
        if own_ms >= end_ms or result.version > version:
            end_ms, version = own_ms, result.version
            yield result


def _view(result: Result, screen: Console, height: int | None, limit: int | None) -> Group:
    """Lay out a result as of now."""
    from elf.cli.view import view

    return view(result, time.time_ns() // 1_000_000, screen.width, height, limit)


def _print(result: Result, limit: int | None, as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        screen = console()
        screen.print(_view(result, screen, None, limit))


def add_commands(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(rich_help_panel="Jobs")(top)
