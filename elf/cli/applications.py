"""Commands about what applications say: feedback, route."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from elf.agent_url import TIMEOUT_S
from elf.agents.errors import BadRequestError
from elf.cli.connection import AgentUrls, AsJson, JobName, Timeout, TokenFile, connect
from elf.cli.output import console, print_json, result_table, wants_json

_PANEL = "Jobs"


def feedback(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show what has come back to this very agent: a job's newest result, or what its application has published."""
    with connect(agent, token_file, timeout) as client:
        result = client.feedback(name)
    if wants_json(as_json):
        print_json(result)
    else:
        console().print(result_table(result))


def route(
    name: JobName,
    query: Annotated[str, typer.Argument(metavar="JSON", help="""The query, such as '"tetris"' or '{"n": 3}'.""")],
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Ask a job's application; prints its answer as JSON."""
    with connect(agent, token_file, timeout) as client:
        print(json.dumps(client.route(name, _parsed(query)), ensure_ascii=False))


def _parsed(query: str) -> Any:
    try:
        return json.loads(query)
    except (ValueError, RecursionError):
        raise BadRequestError(f"""{query[:100]!r} is no JSON; a text is written '"{query[:20]}"'""") from None


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (feedback, route):
        app.command(command.__name__, rich_help_panel=_PANEL)(command)
