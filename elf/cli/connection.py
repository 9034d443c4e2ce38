"""What commands that ask an agent share: their options, and the connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agent_url import check_url
from elf.agents.errors import BadRequestError, ConfigError

if TYPE_CHECKING:
    from elf.client import Client

AgentUrl = Annotated[
    str, typer.Option("--agent", metavar="URL", envvar="ELF_AGENT", help="The agent to ask; any agent will do.")
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
def connect(url: str, token_file: Path | None) -> Iterator[Client]:
    """Connect to an agent for the length of a block."""
    from elf.client import Client

    try:
        check_url(url)
    except ConfigError as error:
        raise BadRequestError(str(error)) from None
    with Client(url, _read_token(token_file)) as client:
        yield client


def _read_token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "a token is ASCII text"
        raise ConfigError(f"token file {file} cannot be read: {why}") from None
