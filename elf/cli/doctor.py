"""The command doctor: what is wrong with an agent, why that matters, and what mends it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agents.errors import BadRequestError, ConfigError
from elf.cli.connection import TokenFile
from elf.cli.exits import FOUND, UNAVAILABLE
from elf.cli.output import print_json, printable, say
from elf.cli.settings import USUAL_SETTINGS, usual_settings

if TYPE_CHECKING:
    from elf.doctor.finding import Finding


def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The agent's settings.", show_default=USUAL_SETTINGS),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="URL", help="The agent's API.", show_default="where its settings say")
    ] = None,
    token_file: TokenFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print NDJSON, a line a finding.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.tar.gz",
            help="Also pack what helps others to help: no secret, address or line is in it.",
        ),
    ] = None,
) -> None:
    """Say what is wrong with an agent, why that matters, and the command that mends it. Changes nothing.

    Best run as root on the agent's server. Exit code 1 if anything is wrong; 69 if the agent does not answer and
    nothing else is wrong.
    """
    from elf.agents.host.allocation import loading

    with loading():
        from elf.doctor.bundle import pack
        from elf.doctor.examination import examine
        from elf.doctor.finding import Check

    settings = file or usual_settings()
    if settings is None and agent is None:
        raise BadRequestError("there are no settings where they usually are; write elf doctor FILE, or --agent URL")
    found = examine(settings, agent.partition("#")[0].rstrip("/") if agent else None, _token(agent, token_file))
    for each in found.findings:
        if as_json:
            print_json(each)
        else:
            _print(each)
    if bundle is not None:
        _write(bundle, pack(found.findings, found.config, found.answers))
        say(f"wrote {bundle}")
    if not found.findings:
        say("nothing is wrong")
        return
    count = len(found.findings)
    say(f"{count} finding{'s' * (count > 1)}")
    is_only_silent = found.is_silent and all(each.check is Check.AGENT for each in found.findings)
    raise typer.Exit(UNAVAILABLE if is_only_silent else FOUND)


def _print(finding: Finding) -> None:
    print(f"{finding.check}: {printable(finding.what)}")
    print(f"    why:  {printable(finding.why)}")
    print(f"    mend: {printable(finding.mend)}", flush=True)


def _token(agent: str | None, token_file: Path | None) -> str | None:
    from elf.agent_url import TOKEN_MARK, check_url

    if agent is not None:
        try:
            check_url(agent)
        except ConfigError as error:
            raise BadRequestError(str(error)) from None
        if token := agent.partition(TOKEN_MARK)[2]:
            return token
    if token_file is None:
        return None
    from elf.cli.connection import read_token

    return read_token(token_file)


def _write(file: Path, data: bytes) -> None:
    """Write a new file, for its owner alone."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)
    except FileExistsError:
        raise BadRequestError(f"{file} exists already and is not overwritten") from None
    except OSError as error:
        raise BadRequestError(f"{file} cannot be written: {error.strerror}") from None


def add_commands(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(rich_help_panel="Agents")(doctor)
