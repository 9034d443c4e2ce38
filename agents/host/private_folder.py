"""The folder of an agent's data: nobody else's business on a machine that several people use.

What visitors did is in it, and who writes it may be root: so others can neither look into it, whatever the umask and
whoever made the folder, nor lead its writes elsewhere by a link that they have left there.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
from collections.abc import Iterator

from elf.agents.errors import ConfigError

#: What a process of an agent takes from all files and folders that it makes: the rights of all but its user.
UMASK = 0o077
_OTHERS = 0o077


def close_folder(folder: pathlib.Path) -> None:
    """Make the folder, if need be, and leave it to its owner alone. O(files in it).

    Raises:
        ConfigError: it is somebody else's, or has a link, or a file of somebody else, in it.
    """
    setting = f"agent.data = {str(folder)!r}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid != os.geteuid() and os.geteuid() != 0:
            raise ConfigError(f"{setting} belongs to another user; give this agent a folder of its own")
        if stat.S_IMODE(status.st_mode) & _OTHERS:
            folder.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
        trusted = {0, os.geteuid(), status.st_uid}
        for entry in _entries(folder):
            if entry.is_symlink():
                raise ConfigError(
                    f"{entry.path} is a link, and elf follows none in its data; put the file itself there"
                )
            with contextlib.suppress(FileNotFoundError):  # another agent may be running here, as is said later
                if entry.stat(follow_symlinks=False).st_uid not in trusted:
                    raise ConfigError(f"{entry.path} belongs to another user; remove it, or change its owner")
    except OSError as error:
        raise ConfigError(f"{setting} cannot be used: {error.strerror or error}") from None


def _entries(folder: str | pathlib.Path) -> Iterator[os.DirEntry[str]]:
    """Yield all that is in a folder and below, links themselves and not where they lead; some may be gone by then."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path)
