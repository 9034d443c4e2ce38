"""Where an agent's settings usually are: there `elf init` writes them, and the packages do."""

from __future__ import annotations

import os
from pathlib import Path

_USUAL = (Path("/etc/elf/agent.toml"), Path("~/.config/elf/agent.toml"))
#: As help shows it.
USUAL_SETTINGS = f"{_USUAL[0]}, or {_USUAL[1]}"


def usual_settings() -> Path | None:
    """Return the first settings that are there; None if there are none."""
    return next((each.expanduser() for each in _USUAL if os.path.exists(each.expanduser())), None)
