"""Commands that change a running job: update, rollback, reset, pause, resume, leap, and its history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agent_url import TIMEOUT_S
from elf.agents.errors import BadRequestError, JobError
from elf.cli.connection import AgentUrls, AsJson, JobName, SigningKey, Timeout, TokenFile, connect
from elf.cli.mistakes import explained
from elf.cli.output import console, describe_time, print_json, printable, say, table_of, wants_json
from elf.job_text import read_job

if TYPE_CHECKING:
    from elf.client import Version

_PANEL = "Jobs"
#: What a query is cut down to in a table.
_QUERY_CHARS = 60


def update(
    name: JobName,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A job file that takes the place of the definition.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="SQL", help="Only the query is another.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="OPTION=VALUE", help="Only this option is another, e.g. lateness=5s; repeatable."
        ),
    ] = None,
    expected: Annotated[
        int | None, typer.Option("--expect", metavar="N", min=0, help="Fail unless the newest version is this one.")
    ] = None,
    key: SigningKey = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Change a running job: on all agents, from one interval on."""
    changes = dict(map(_option, options or ()))
    if (file is None) == (query is None and not changes):
        raise BadRequestError("give either FILE, or --query or --set")
    with connect(agent, token_file, timeout) as client:
        if file is None:
            _show(name, client.update(name, query=query, options=changes, expected=expected), as_json)
            return
        with explained(file, alone=key is None):
            _refuse_another(name, file)
            _show(name, client.update(name, file, expected=expected, key=key), as_json)


def _refuse_another(name: str, file: Path) -> None:
    """Refuse a file that is another job's: its definition would take the place of this one's."""
    from elf.agents.toml.text import TomlError, parse_toml

    try:
        named = None if file.suffix == ".sql" else parse_toml(read_job(file)).get("name")
    except TomlError:
        return  # which the agent explains
    if isinstance(named, str) and named != name.rpartition("/")[2]:
        raise JobError(f"{file} defines job {named!r}, not {name!r}: publish it, or give it that name")


def rollback(
    name: JobName,
    version: Annotated[
        int | None, typer.Option("--to", metavar="N", min=0, help="The version to go back to; default: the one before.")
    ] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Let a running job go on as an earlier version of it."""
    with connect(agent, token_file, timeout) as client:
        _show(name, client.rollback(name, version), as_json)


def reset(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Empty a running job's windows, together on all agents: they begin anew."""
    with connect(agent, token_file, timeout) as client:
        _show(name, client.reset(name), as_json)


def pause(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Let a running job count nothing, until it is resumed; windows say so."""
    with connect(agent, token_file, timeout) as client:
        _show(name, client.pause(name), as_json)


def resume(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Let a paused or stopped job go on; what came meanwhile is not counted, and windows say so."""
    with connect(agent, token_file, timeout) as client:
        _show(name, client.resume(name), as_json)


def leap(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Wait no longer for agents that keep a job's result waiting; it names them, and is revised when they come."""
    with connect(agent, token_file, timeout) as client:
        leapt = client.leap(name)
    if wants_json(as_json):
        print_json(leapt)
    else:
        names = ", ".join(map(printable, leapt.agents))
        print(f"{printable(name)} goes on to {describe_time(leapt.through_ms)} without {names}")


def history(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """List a job's versions: what made each, and which events it counts."""
    with connect(agent, token_file, timeout) as client:
        versions = client.versions(name)
    if wants_json(as_json):
        for version in versions:
            print_json(version)
        return
    rows = [(each.version, each.what, *_counted(each), _cut(each.query)) for each in versions]
    console().print(table_of(("version", "by", "counts from", "until", "query"), rows))


def _option(text: str) -> tuple[str, str | int]:
    option, equals, value = text.partition("=")
    if not option or not equals:
        raise BadRequestError(f"--set {text!r} is not OPTION=VALUE, such as lateness=5s")
    return option.strip(), int(value) if value.isascii() and value.isdecimal() else value.strip()


def _show(name: str, version: Version, as_json: bool) -> None:
    if version.note:
        say(printable(version.note))
    if wants_json(as_json):
        print_json(version)
        return
    print(
        f"{printable(name)} has version {version.version} ({version.what}), for events from "
        f"{_time(version.since_ms, 'the beginning')} on"
    )


def _counted(version: Version) -> tuple[str, str]:
    """Say from when to when a version counts events; a later one may have overtaken it before it began."""
    since_ms, until_ms = version.since_ms, version.until_ms
    if since_ms is not None and since_ms == until_ms:
        return "never", ""
    return _time(since_ms, "the beginning"), _time(until_ms, "")


def _time(at_ms: int | None, otherwise: str) -> str:
    return otherwise if at_ms is None else describe_time(at_ms)


def _cut(query: str) -> str:
    line = " ".join(query.split())
    return line if len(line) <= _QUERY_CHARS else line[: _QUERY_CHARS - 1] + "…"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (update, rollback, reset, pause, resume, leap, history):
        app.command(command.__name__, rich_help_panel=_PANEL)(command)
