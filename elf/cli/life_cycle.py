"""Commands to one running agent about itself: reload."""

from __future__ import annotations

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


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=_PANEL)(reload)
