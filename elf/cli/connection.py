"""What commands that ask an agent share: their options, and the connection."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agent_url import DEFAULT_URL, TIMEOUT_S_MAX, TIMEOUT_S_MIN, urls_of
from elf.agents.errors import BadRequestError, ConfigError
from elf.cli.output import say

if TYPE_CHECKING:
    from elf.client import Client

AgentUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="URL",
        envvar="ELF_AGENT",
        show_default=DEFAULT_URL,
        help="The agent to ask; any agent will do. Of several (repeated, or with commas) each that answers.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=TIMEOUT_S_MIN,
        max=TIMEOUT_S_MAX,
        help="Ask again so long while no agent answers, or a job has no master.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", envvar="ELF_TOKEN_FILE", help="File with the agent's API token."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print NDJSON also on a terminal.")]
SigningKey = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Key that functions of the job's own are signed with."),
]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="NAME, or CREATOR/NAME.")]


@contextmanager
def connect(agents: Sequence[str] | None, token_file: Path | None, timeout_s: float) -> Iterator[Client]:
    """Connect to agents for the length of a block; people are told when one keeps them waiting."""
    from elf.client import Client

    given = agents or DEFAULT_URL
    try:
        urls_of(given)
    except ConfigError as error:
        raise BadRequestError(str(error)) from None
    notice = _notice if is_watched() else None
    with Client(given, read_token(token_file), timeout=timeout_s, notice=notice) as client:
        yield client


def is_watched() -> bool:
    """Tell whether messages reach a person."""
    return sys.stderr.isatty()


def _notice(sentence: str) -> None:
    say(f"elf: {sentence}")


def read_token(file: Path | None) -> str | None:
    """Return the token in a file, if one is named; raises ConfigError if it cannot be read."""
    if file is None:
        return None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "a token is ASCII text"
        raise ConfigError(f"token file {file} cannot be read: {why}") from None
