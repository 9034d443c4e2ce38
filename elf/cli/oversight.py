"""Commands of who looks after a cluster that several people use: audit, purge."""

from __future__ import annotations

from typing import Annotated

import typer

from elf.agent_url import TIMEOUT_S
from elf.cli.connection import AgentUrls, AsJson, Timeout, TokenFile, connect
from elf.cli.exits import UNAVAILABLE
from elf.cli.output import confirm, console, describe_time, print_json, printable, say, table_of, wants_json

_PANEL = "Agents"


def audit(
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Only the newest so many.")] = 100,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """List who did what through an agent: published, changed, stopped, retired, purged, or was refused."""
    with connect(agent, token_file, timeout) as client:
        entries = client.audit(limit)
    if wants_json(as_json):
        for entry in entries:
            print_json(entry)
        return
    rows = [
        (
            describe_time(each.at_ms),
            " ".join(filter(None, (each.who, each.key and f"key {each.key}", each.peer))),
            each.what,
            each.on or (f"{each.more} more" if each.more else ""),
            " ".join(filter(None, (str(each.status or ""), each.why))),
        )
        for each in entries
    ]
    console().print(table_of(("at", "who", "what", "on", "answer"), rows))


def purge(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A job, NAME or CREATOR/NAME; or an agent's name or id.")],
    member: Annotated[bool, typer.Option("--member", help="It is an agent's name or id, not a job's.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Erase a job of anybody's, or what is known of an agent, on all agents; takes an operator's key."""
    what = f"agent {name}" if member else f"job {name}"
    confirm(f"Nothing of {what} will be left on any agent, and nothing brings it back.", yes)
    with connect(agent, token_file, timeout) as client:
        purged = client.purge(agent=name) if member else client.purge(name)
    if wants_json(as_json):
        print_json(purged)
    else:
        done = sum(each.purged for each in purged.agents)
        print(f"{printable(purged.purged)} is purged on {done} agents, by operator {printable(purged.by)}")
    for each in purged.agents:
        if not each.purged:
            say(f"not on {printable(each.agent)}: {printable(each.why)}")
    if not all(each.purged for each in purged.agents):
        raise typer.Exit(UNAVAILABLE)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (audit, purge):
        app.command(rich_help_panel=_PANEL)(command)
