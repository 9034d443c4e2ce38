"""Files of an installation: made whole and once, never written over, with the modes that agents ask for."""

from __future__ import annotations

import contextlib
import grp
import os
import pathlib
import pwd
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from elf.agents.errors import ConfigError

#: What only the agent may read, and what its group may, too: a person who may look at settings.
SECRET_MODE, SETTINGS_MODE, UNIT_MODE = 0o600, 0o640, 0o644
SECRET_BYTES = 32
#: The first line of all that `elf init` writes: only what has it is taken away again.
MARK = "# Written by `elf init`"


class Owner(NamedTuple):
    """Who is to own files: a user, and the group that may read settings; -1: as whoever runs this."""

    uid: int = -1
    gid: int = -1


def create(file: pathlib.Path, text: str, mode: int, owner: Owner) -> bool:
    """Create a file, whole or not at all; return whether it is new. One that is there stays as it is.

    Raises:
        ConfigError: it cannot be created.
    """
    if os.path.lexists(file):
        return False
    try:
        number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as opened:
                opened.write(text)
                opened.flush()
                os.fchmod(number, mode)
                if owner != Owner():
                    os.fchown(number, owner.uid if mode == SECRET_MODE else -1, owner.gid)
                os.fsync(number)
            with contextlib.suppress(FileExistsError):  # somebody else was faster, and theirs stays
                os.link(name, file)
                return True
            return False
        finally:
            os.unlink(name)
    except OSError as error:
        raise ConfigError(f"{file} cannot be created: {error.strerror}") from None


def create_folder(folder: pathlib.Path, owner: Owner) -> None:
    """Create a folder for settings unless it is there; raises ConfigError if that cannot be."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o750)
            if owner != Owner():
                os.chown(folder, -1, owner.gid)
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder; name another one with --to")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be created: {error.strerror}; name another one with --to") from None


def new_secret() -> str:
    """Return a secret, as `elf keygen` makes them."""
    return os.urandom(SECRET_BYTES).hex() + "\n"


def owner_of(user: str) -> Owner:
    """Return whom files for an agent of this user belong to; as whoever runs this, unless that is root."""
    if os.geteuid() != 0:
        return Owner()
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return Owner()
    return Owner(found.pw_uid, found.pw_gid)


def group_exists(name: str) -> bool:
    """Tell whether this machine has a group."""
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def make_state(folder: pathlib.Path, owner: Owner) -> None:
    """Make the folder of an agent's state, for its user alone, unless there is one; ConfigError if that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True)
        os.chown(folder, owner.uid, owner.gid)
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigError(f"{folder} cannot be created: {error.strerror}") from None


def give(readable: Iterable[pathlib.Path], secret: Iterable[pathlib.Path], owner: Owner) -> None:
    """Let a user read files that are there, and own those that only the owner reads; links are left alone."""
    for file in readable:
        if file.exists() and not file.is_symlink():
            os.chown(file, -1, owner.gid)
    for file in secret:
        if file.exists() and not file.is_symlink():
            os.chown(file, owner.uid, owner.gid)
