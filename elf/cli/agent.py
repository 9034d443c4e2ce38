"""Commands of the operator: agent, validate, schema."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elf.agents.errors import ConfigError
from elf.cli.connection import is_watched
from elf.cli.exits import CONFIG, USAGE
from elf.cli.output import say

if TYPE_CHECKING:
    from elf.agents.settings.config import AgentConfig

_PANEL = "Agents"
#: Within what service managers wait for the end of a process.
DRAIN_S = 45.0


def agent(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings (TOML); options change them.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A source and what to tail (NAME alone: pushed to)."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="Of the --source lines: json, combined, common, or a pasted log_format / LogFormat.",
            show_default="what their first lines tell",
        ),
    ] = "",
    time: Annotated[
        str, typer.Option(metavar="FIELD", help="JSON field with the event time.", show_default="what the lines tell")
    ] = "",
    join: Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="An agent to join; repeatable.")] = None,
    bind: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where other agents reach this one.")] = None,
    api: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where the HTTP API listens.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for durable state.")] = None,
    name: Annotated[str | None, typer.Option(help="Name shown to people.")] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The cluster's secret (elf keygen), for agents off loopback."),
    ] = None,
    tls_cert_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This agent's certificate (elf certgen): TLS on links.")
    ] = None,
    tls_key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's private key.")] = None,
    tls_ca_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The cluster's CA certificate.")] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="SIGTERM hands on what is open first (45 s at most), as elf drain does.")
    ] = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print all settings as a configuration file (TOML), and end.")
    ] = False,
) -> None:
    """Run an agent until SIGTERM or Ctrl-C."""
    if config is None and not source and not join:
        raise ConfigError("this agent has nothing to do; give --config FILE, --source NAME=PATH, or --join HOST:PORT")
    _prepare_process()
    from elf.cli.effective import render_changes, render_toml

    overlay = {
        "join": join,
        "bind": bind,
        "secret_file": _text(secret_file),
        "tls_cert_file": _text(tls_cert_file),
        "tls_key_file": _text(tls_key_file),
        "tls_ca_file": _text(tls_ca_file),
    }
    options: dict[str, dict[str, Any]] = {
        "overlay": overlay,
        "api": {"bind": api},
        "agent": {"data": _text(data), "name": name},
    }
    load = functools.partial(_load, config, source or [], format, time, options)
    effective = load()
    if print_config:
        print(render_toml(effective), end="")
        return
    say(f"# what is not the default; --print-config prints all settings\n{render_changes(effective).rstrip()}")
    _run(effective, load, DRAIN_S if drain else None)


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A configuration or job file.")],
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="A configuration of another machine: look at nothing but the file.")
    ] = False,
) -> None:
    """Check a configuration or job file; of a configuration also the folders and files that it names, as this user.

    Exit code 2 if a job is wrong; 78 if a configuration is, or an agent could not start with it here, or a file cannot
    be told to be a job.
    """
    from elf.checking.validate import check_file

    checked = check_file(file)
    for finding in checked.findings:
        say(str(finding))
    if checked.findings:
        raise typer.Exit(CONFIG if checked.kind == "configuration" else USAGE)
    later = (
        "; whether its source has these columns, of types that fit, is checked when it is published"
        if checked.kind == "job"
        else ""
    )
    if checked.kind == "configuration" and not elsewhere:
        _look_around(file)
    say(f"{file}: this {checked.kind} is valid{later}")


def schema(
    what: Annotated[Literal["agent", "job"], typer.Argument(metavar="agent|job", help="Of which kind of file.")],
) -> None:
    """Print the JSON Schema of configuration or job files: editors complete TOML by it."""
    import json

    from elf.checking.schema import schema_of

    print(json.dumps(schema_of(what), indent=2, ensure_ascii=False))


def _look_around(file: Path) -> None:
    """Say what a valid configuration would meet on this machine; end if that keeps an agent from starting."""
    from elf.agents.host.allocation import loading

    with loading():
        from elf.checking.environment import look_around
        from elf.checking.validate import load_config

    found = look_around(load_config(file), file.read_text(encoding="utf-8"), str(file))
    for finding in (*found.obstacles, *found.notes):
        say(str(finding))
    if found.obstacles:
        why = "on this machine an agent of this user would not start with it, or lack events"
        say(f"{file}: this configuration is valid, but {why}")
        raise typer.Exit(CONFIG)


def _file_config(file: Path | None) -> AgentConfig:
    if file is None:
        from elf.agents.settings.config import AgentConfig

        return AgentConfig()
    from elf.checking.validate import load_config

    return load_config(file)


def _prepare_process() -> None:
    """Load what an agent needs, into a process that takes little of its machine."""
    from elf.agents.host.allocation import loading, share_freed_memory

    share_freed_memory()
    # An agent takes no more of its web server than it must: more threads cost CPU and only gain time.
    for pool in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(pool, "1")
    with loading():
        import elf.agents.runtime
        import elf.checking.validate
        import elf.cli.effective  # noqa: F401


def _load(
    file: Path | None, sources: list[str], format: str, time: str, options: Mapping[str, Mapping[str, Any]]
) -> AgentConfig:
    """Read the file, let the options change it, a section at a time, and hold both to the same rules."""
    from elf.cli.effective import render_toml, with_settings, with_sources

    effective = with_sources(_file_config(file), sources, format, time)
    # All of a section at once: an address off loopback is refused while there is no secret, one of the files without
    # the others.
    for section, settings in options.items():
        effective = with_settings(effective, section, **settings)
    _check_effective(render_toml(effective))
    return effective


def _check_effective(text: str) -> None:
    """Hold the options to the same rules as a file."""
    from elf.checking.validate import check_config

    findings = check_config(text, "effective configuration")[1]
    if findings:
        raise ConfigError("\n".join(finding.message for finding in findings))


def _run(config: AgentConfig, load: Callable[[], AgentConfig], drain_s: float | None) -> None:
    """Run until stopped; what keeps an agent from starting (a port, a folder, a secret) is a matter of settings."""
    import asyncio
    import logging

    from elf.agent_url import TOKEN_MARK
    from elf.agents.host.allocation import keep_freed_memory
    from elf.agents.host.log_lines import LineFormatter
    from elf.agents.runtime import run
    from elf.overlay.errors import OverlayError

    keep_freed_memory()

    ready = False

    def announce(api_url: str, new_token: str | None) -> None:
        nonlocal ready
        ready = True
        # Once, as notebooks do, and to a person only: what is no terminal may be a log that others read.
        if new_token is not None and is_watched():
            say(f"ready, API at {api_url}/{TOKEN_MARK}{new_token}")
            say("who is to use it from elsewhere, or as another user, gives that to --agent; it is not shown again")
        else:
            say(f"ready, API at {api_url}")

    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=config.agent.log_level.upper(), handlers=[handler])
    # It logs every datagram it sends; its warnings are enough.
    logging.getLogger("kademlia").setLevel(logging.WARNING)
    # It logs a traceback for every connection that does not speak HTTP.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    try:
        asyncio.run(run(config, announce, load, drain_s))
    except (OverlayError, OSError) as error:
        if ready:
            raise
        why = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            why = f"{error.filename}: {error.strerror}"
        raise ConfigError(f"the agent cannot start: {why}") from None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (agent, validate, schema):
        app.command(rich_help_panel=_PANEL)(command)
