"""Where an agent's API is reached on its own machine without a port: a Unix socket, found by the number of its port.

Whoever may open the file may use the API; nobody else learns of it. Two folders are looked into: `/run/elf`, which only
root makes (systemd's `RuntimeDirectory=elf`), for the agent's user and its group; and `elf` below `$XDG_RUNTIME_DIR`,
which is one user's own. Two agents cannot have one port, so they do not meet here either. Imports nothing heavy: the
client looks here, too.
"""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterator, Mapping

#: Made by root, or by systemd for the agent's user.
SERVICE_FOLDER = pathlib.Path("/run/elf")
_OTHERS_WRITE = 0o022


def name_of(port: int) -> str:
    """Return the file name of the socket of the agent whose API has a port."""
    return f"api-{port}.sock"


def socket_to_make(port: int, environment: Mapping[str, str]) -> pathlib.Path | None:
    """Return where an agent of this user makes its socket, folder and all; None: nowhere, it does without."""
    for folder in _folders(environment):
        parent = folder if folder == SERVICE_FOLDER else folder.parent
        if _is_of(parent, {os.geteuid()}):
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except OSError:
                continue
            return folder / name_of(port)
    return None


def socket_to_use(port: int, environment: Mapping[str, str]) -> pathlib.Path | None:
    """Return the socket of the agent whose API has a port, if there is one that this process may open.

    One that somebody else could have put there is none: the folder is root's gift, or this user's own.
    """
    for folder in _folders(environment):
        place = folder / name_of(port)
        owners = None if folder == SERVICE_FOLDER else {0, os.geteuid()}
        if _is_of(folder, owners) and _is_socket(place) and os.access(place, os.W_OK):
            return place
    return None


def _folders(environment: Mapping[str, str]) -> Iterator[pathlib.Path]:
    yield SERVICE_FOLDER
    own = environment.get("XDG_RUNTIME_DIR", "")
    if own.startswith("/"):
        yield pathlib.Path(own) / "elf"


def _is_of(folder: pathlib.Path, owners: set[int] | None) -> bool:
    """Tell whether a folder is there, belongs to one of `owners` (None: to anybody), and nobody else writes in it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and not status.st_mode & _OTHERS_WRITE
        and (owners is None or status.st_uid in owners)
    )


def _is_socket(place: pathlib.Path) -> bool:
    try:
        return stat.S_ISSOCK(place.lstat().st_mode)
    except OSError:
        return False
