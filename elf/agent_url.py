"""Where an agent's API is unless somebody says so. Loads next to nothing: the command line starts with it."""

from __future__ import annotations

from elf.agents.errors import ConfigError

#: Of an agent on this machine that is told nothing else.
DEFAULT_URL = "http://127.0.0.1:4260"


def check_url(url: str) -> None:
    """Refuse what is no agent's URL; raises ConfigError."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is not an agent's URL; write it like {DEFAULT_URL}")
