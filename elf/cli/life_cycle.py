"""Commands to one running agent about itself: reload, drain."""

from __future__ import annotations

from typing import Annotated

import typer

from elf.agent_url import TIMEOUT_S
from elf.cli.connection import AgentUrls, AsJson, Timeout, TokenFile, connect
from elf.cli.output import print_json, wants_json

_PANEL = "Agents"


def reload(
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Have the agent read its settings again; they hold as a whole when this returns, or nothing changes (exit 78)."""
    with connect(agent, token_file, timeout) as client:
        reloaded = client.reload()
    if wants_json(as_json):
        print_json(reloaded)
    elif reloaded.changed:
        print(f"changed: {', '.join(reloaded.changed)}")
    else:
        print("the settings are what they were; secrets, tokens and certificates were read again")


def drain(
    within: Annotated[str, typer.Option(metavar="DURATION", help="How long it may take.")] = "120s",
    cancel: Annotated[bool, typer.Option("--cancel", help="Keep the agent in service after all.")] = False,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Take the agent out of service: it reads no more, hands on what is open, and ends; no window waits for it."""
    with connect(agent, token_file, timeout) as client:
        drained = client.cancel_drain() if cancel else client.drain(within)
    sources = ", ".join(drained.sources) or "no source"
    if wants_json(as_json):
        print_json(drained)
    elif cancel:
        print(f"the agent stays, and reads {sources}")
    else:
        print(f"the agent hands on {sources}, and ends by itself within {within}; `elf drain --cancel` keeps it")


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (reload, drain):
        app.command(rich_help_panel=_PANEL)(command)
