"""The settings that `elf init` writes: sources, and how other agents are met; as a text with what it was made from."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from elf.agents.errors import ConfigError
from elf.agents.settings.config import (
    OVERLAY_PORT,
    AgentConfig,
    AgentSection,
    ApiSection,
    OverlaySection,
    is_loopback,
    split_address,
)
from elf.cli.effective import render_changes
from elf.cli.output import printable
from elf.installation.files import MARK
from elf.installation.sources import FoundSource


def config_of(
    sources: Mapping[str, FoundSource],
    *,
    data: Path,
    secret: Path,
    name: str,
    bind: str,
    join: list[str],
    api: str,
    token: Path,
) -> AgentConfig:
    """Put settings together.

    Args:
        sources: by name.
        data: folder for the agent's state.
        secret: file with the cluster's secret.
        name: shown to people; empty: its address.
        bind: where others reach it; empty: loopback, or where it is seen from those that it joins.
        join: agents to join.
        api: where the API listens; empty: loopback.
        token: file with the API's token, which is used off loopback.

    Raises:
        ConfigError: an address is none, or there is no way to those that are to be joined.
    """
    overlay, bound = OverlaySection(), bind or (_seen_from(join[0]) if join else "")
    overlay = replace(overlay, secret_file=str(secret), join=join, **({"bind": bound} if bound else {}))
    section = ApiSection()
    if api:
        is_open = not is_loopback(split_address(api)[0])
        section = ApiSection(bind=api, token_file=str(token) if is_open else "")
    agent = AgentSection(data=str(data), name=name)
    configs = {source: found.config for source, found in sources.items()}
    return AgentConfig(agent=agent, overlay=overlay, api=section, sources=configs)


def text_of(config: AgentConfig, sources: Mapping[str, FoundSource]) -> str:
    """Write settings as a file, with what each source was made from above it."""
    lines = [f"{MARK}; yours to change. `elf validate FILE` checks it.", ""]
    tables = {f"[sources.{name}]": found.said for name, found in sources.items()}
    tables |= {f'[sources."{name}"]': found.said for name, found in sources.items()}
    for line in render_changes(config).rstrip().splitlines():
        if line in tables:
            lines.append(f"# {printable(tables[line])}")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _seen_from(address: str) -> str:
    """Return the address of this machine that leads to another one; nothing is sent."""
    host, port = split_address(address)
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            own = probe.getsockname()[0]
    except OSError as error:
        raise ConfigError(f"--join {address}: there is no way there ({error.strerror or error})") from None
    return f"[{own}]:{OVERLAY_PORT}" if ":" in own else f"{own}:{OVERLAY_PORT}"
