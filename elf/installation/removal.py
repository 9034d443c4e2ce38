"""An installation taken away: what `elf init` wrote, and the folder of the agent's state; nothing else."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
from dataclasses import dataclass, field

from elf.agents.errors import ConfigError
from elf.agents.settings.config import AgentConfig
from elf.installation.files import MARK

#: What an agent has in its data folder (docs/OPERATIONS.md); one with anything else in it is not only the agent's.
KNOWN = {
    *("state.db", "state.db-wal", "state.db-shm", "state.mark", "api.token", "audit.jsonl", "audit.jsonl.1"),
    *("lock", "contacts.json", "push", "rejected", "archive"),
}


@dataclass(slots=True)
class Removal:
    """What there is to take away: files, and folders with all that is in them; and what is left for a person."""

    files: list[pathlib.Path] = field(default_factory=list)
    folders: list[pathlib.Path] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def carry_out(self) -> None:
        """Remove it; raises ConfigError if something cannot be removed."""
        try:
            for folder in self.folders:
                shutil.rmtree(folder)
            for file in self.files:
                file.unlink(missing_ok=True)
            for parent in {file.parent for file in self.files}:
                if not any(parent.iterdir()):
                    parent.rmdir()
        except OSError as error:
            raise ConfigError(f"{error.filename} cannot be removed: {error.strerror}") from None


def planned(folder: pathlib.Path, config: AgentConfig | None) -> Removal:
    """Look what of an installation is in a folder of settings.

    Args:
        folder: where its settings are.
        config: the settings; None if there are none that `elf init` wrote.

    Raises:
        ConfigError: an agent runs on it.
    """
    found = Removal()
    if config is None:
        return found
    found.files += [file for file in (folder / "agent.toml", *folder.glob("*.sql")) if is_ours(file)]
    for secret in (config.overlay.secret_file, config.api.token_file):
        if secret and os.path.dirname(secret) == str(folder) and os.path.exists(secret):
            found.files.append(pathlib.Path(secret))
    data = pathlib.Path(config.agent.data)
    if not data.is_dir():
        return found
    if strange := sorted({each.name for each in data.iterdir()} - KNOWN):
        found.left.append(f"{data} has {strange[0]} in it, which is no agent's: look at it, and remove it by hand")
        return found
    if _is_held(data):
        raise ConfigError(f"an agent runs with {data}; stop it first, and say this again")
    found.folders.append(data)
    return found


def is_ours(file: pathlib.Path) -> bool:
    """Tell whether `elf init` wrote a file of settings or a job."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.readline().lstrip("-# ").startswith(MARK.lstrip("# "))
    except OSError:
        return False


def _is_held(data: pathlib.Path) -> bool:
    try:
        with (data / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
