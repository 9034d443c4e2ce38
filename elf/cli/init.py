"""The command init: an agent put in place on this server, and taken away again."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agents.errors import BadRequestError, ConfigError
from elf.cli.output import confirm, say

if TYPE_CHECKING:
    from elf.agents.settings.config import AgentConfig
    from elf.installation.files import Owner
    from elf.installation.sources import FoundSource

#: Of root, and of others below their home.
_SETTINGS, _DATA = Path("/etc/elf"), Path("/var/lib/elf")
_OWN_SETTINGS, _OWN_DATA = Path("~/.config/elf"), Path("~/.local/share/elf")
_USER = "elf"
#: What such an agent's logs are, so that the group may read what is written about them.
_LOGS_GROUP = "adm"
_JOB = "first"


def init(
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]PATH", help="A log to follow; else those that nginx and Apache write."),
    ] = None,
    format: Annotated[
        str, typer.Option(help="Of the --source lines.", show_default="what their first lines tell")
    ] = "",
    server_config: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Main configuration of nginx or Apache.", show_default="the usual ones"),
    ] = None,
    join: Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="An agent to join; repeatable.")] = None,
    secret: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The cluster's secret, copied from another server.")
    ] = None,
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where other agents reach this one.")] = "",
    api: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the HTTP API listens.")] = "",
    name: Annotated[str, typer.Option(help="Name shown to people.", show_default="this machine's")] = "",
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for settings.", show_default=f"{_SETTINGS}, or {_OWN_SETTINGS}"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for state.", show_default=f"{_DATA}, or {_OWN_DATA}"),
    ] = None,
    systemd: Annotated[bool, typer.Option("--systemd", help="Run it as a service, from now on.")] = False,
    user: Annotated[str, typer.Option(help="Of the service; made if there is none.")] = _USER,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take all of it away: service, settings, secret, state.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Put an agent in place: find the logs of this server, and write settings and a secret. What is there stays."""
    from elf.agents.host.allocation import loading

    with loading():
        import elf.installation.settings  # noqa: F401
    is_root = os.geteuid() == 0
    folder = (to or (_SETTINGS if is_root else _OWN_SETTINGS)).expanduser().absolute()
    state = (data or (_DATA if is_root else _OWN_DATA)).expanduser().absolute()
    if systemd and not is_root:
        raise BadRequestError("--systemd writes into /etc and starts a service: run it as root")
    if remove:
        _remove(folder, yes)
        return
    file = folder / "agent.toml"
    if os.path.lexists(file):
        say(f"{file} is there already and stays as it is")
    else:
        sources = _found(source or [], format, server_config or [], yes)
        for each, found in sources.items():
            say(f"{each}: {found.config.path}")
            say(f"  {found.said}")
        config = _config(sources, folder, state, secret, name, bind, join or [], api)
        confirm(f"This goes into {folder}.", yes)
        _write(folder, config, sources, secret, user)
    _check(file)
    if systemd:
        _start(file, user)
    _say_next(folder, systemd)


def _found(named: list[str], format: str, server_configs: list[Path], yes: bool) -> Mapping[str, FoundSource]:
    """Find the sources: those that are named, or those of web servers, or that which a person is asked for."""
    from elf.installation import sources
    from elf.installation.servers import logs_of_servers

    if format and not named:
        raise BadRequestError("--format is of --source lines; name the log, too")
    if not named:
        found, said = logs_of_servers(server_configs)
        for each in said:
            say(each)
        if found:
            return sources.named([sources.source_of(log) for log in found])
        if yes or not sys.stdin.isatty():
            raise ConfigError("no log of a web server was found; name one: elf init --source access=/path/to.log")
        named = [typer.prompt("Which log is to be followed?", err=True)]
    try:
        made = {name: sources.source_at(path, format) for name, path in map(_split, named)}
    except ConfigError as error:
        raise BadRequestError(str(error)) from None
    if len(made) < len(named):
        raise BadRequestError("two --source have the same name; write NAME=PATH")
    return made


def _split(text: str) -> tuple[str, str]:
    from elf.installation.sources import ACCESS

    name, equals, path = text.partition("=")
    if equals and "/" in name:  # the path itself has the sign
        name, equals, path = "", "", text
    if not (path or text) or (equals and not path):
        raise BadRequestError(f"--source {text}: write NAME=PATH, or the path of the log")
    return (name, path) if equals else (ACCESS, text)


def _config(
    sources: Mapping[str, FoundSource],
    folder: Path,
    state: Path,
    secret: Path | None,
    name: str,
    bind: str,
    join: list[str],
    api: str,
) -> AgentConfig:
    from elf.installation.settings import config_of

    kept = folder / "secret"
    if join and secret is None and not kept.exists():
        from_there = f"copy it from there (`scp SERVER:{kept} .`) and say --secret FILE"
        raise ConfigError(f"agents that are to be joined have a secret, which this one needs, too: {from_there}")
    return config_of(
        sources,
        data=state,
        secret=kept,
        name=name or socket.gethostname(),
        bind=bind,
        join=join,
        api=api,
        token=folder / "token",
    )


def _write(
    folder: Path, config: AgentConfig, sources: Mapping[str, FoundSource], secret: Path | None, user: str
) -> None:
    """Write it all, settings last: where they are, the rest is."""
    from elf.checking.validate import check_config
    from elf.installation.files import SECRET_MODE, SETTINGS_MODE, create, create_folder, new_secret, owner_of
    from elf.installation.first_job import first_job
    from elf.installation.settings import text_of

    text = text_of(config, sources)
    findings = check_config(text, str(folder / "agent.toml"))[1]
    if findings:
        raise ConfigError("\n".join(finding.message for finding in findings))
    secrets = [(folder / "secret", _read_secret(secret) if secret else new_secret())]
    owner = owner_of(user)
    create_folder(folder, owner)
    if config.api.token_file:
        secrets.append((folder / "token", new_secret()))
    job = first_job(next(iter(sources)), next(iter(sources.values())).columns)
    written = [(file, kept, SECRET_MODE) for file, kept in secrets]
    written += [(folder / f"{_JOB}.sql", job, SETTINGS_MODE), (folder / "agent.toml", text, SETTINGS_MODE)]
    for file, content, mode in written:
        is_new = create(file, content, mode, owner)
        say(f"wrote {file}" if is_new else f"{file} is there already and stays as it is")


def _read_secret(file: Path) -> str:
    from elf.overlay.dht.auth import Secret
    from elf.overlay.errors import OverlayError

    try:
        Secret.load(str(file))
        return file.read_text(encoding="ascii")
    except OverlayError as error:
        raise ConfigError(str(error)) from None
    except UnicodeDecodeError:
        raise ConfigError(f"--secret {file}: it is not what `elf keygen` makes; copy it by hand") from None


def _check(file: Path) -> None:
    """Say what of the settings, new or old, an agent would meet on this machine."""
    from elf.checking.environment import look_around
    from elf.checking.validate import load_config

    config = load_config(file)
    found = look_around(config, file.read_text(encoding="utf-8"), str(file))
    for finding in (*found.obstacles, *found.notes):
        say(str(finding))


def _start(file: Path, user: str) -> None:
    from elf.checking.validate import load_config
    from elf.installation import unit
    from elf.installation.files import group_exists, make_state, owner_of

    program = unit.program()
    is_new = unit.ensure_user(user)
    if is_new:
        say(f"made the system user {user}")
    _give(file, user)
    groups = [_LOGS_GROUP] if group_exists(_LOGS_GROUP) else []
    data = Path(load_config(file).agent.data)
    if data != unit.STATE:
        make_state(data, owner_of(user))
    text = unit.text_of(user, groups, program, file, data)
    for said in unit.install(unit.with_own_user(text, user) if is_new else text):
        say(said)


def _give(file: Path, user: str) -> None:
    """Let the service's user read what was written for root, or before there was one."""
    from elf.installation.files import give, owner_of
    from elf.installation.removal import is_ours

    owner: Owner = owner_of(user)
    if is_ours(file):
        give([file.parent, file, *file.parent.glob("*.sql")], [file.parent / "secret", file.parent / "token"], owner)


def _remove(folder: Path, yes: bool) -> None:
    from elf.checking.validate import load_config
    from elf.installation import unit
    from elf.installation.removal import is_ours, planned

    file = folder / "agent.toml"
    config = load_config(file) if is_ours(file) else None
    if config is None:
        raise ConfigError(f"{file} was not written by `elf init`; nothing is removed")
    user = unit.own_user()
    if unit.is_ours():
        confirm("The service is stopped, and removed.", yes)
        for said in unit.take_away():
            say(said)
    found = planned(folder, config)
    for each in found.left:
        say(each)
    listed = ", ".join(map(str, [*found.folders, *found.files]))
    confirm(f"Removed for good: {listed}.", yes)
    found.carry_out()
    say(f"removed {listed}")
    if user:
        unit.run("userdel", user)
        say(f"removed the system user {user}")


def _say_next(folder: Path, is_started: bool) -> None:
    from elf.agent_url import DEFAULT_URL
    from elf.checking.validate import load_config
    from elf.doctor.answers import url_of

    file, job = folder / "agent.toml", folder / f"{_JOB}.sql"
    url = url_of(load_config(file))
    at = "" if url == DEFAULT_URL else f" --agent {url}"
    say("next:")
    if not is_started:
        say(f"  elf agent --config {file}")
    if job.exists():
        say(f"  elf publish {job}{at}")
        say(f"  elf top {_JOB}{at}")
    say(f"  elf doctor {file}     # what is wrong, if anything is")
    say(f"  elf init --to {folder} --remove     # takes all of it away again")


def add_commands(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(rich_help_panel="Begin")(init)
