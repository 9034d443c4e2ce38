"""Who may read a file: what the modes of it and its folders say of a user who is somebody else than who asks."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import NamedTuple


class User(NamedTuple):
    """A user of this machine, with all groups."""

    uid: int
    gids: frozenset[int]
    name: str


def user_of(uid: int) -> User:
    """Return a user; one without an entry has no group."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(uid, frozenset(), str(uid))
    if uid == os.geteuid():
        return User(uid, frozenset({os.getegid(), *os.getgroups()}), entry.pw_name)
    return User(uid, frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid)), entry.pw_name)


def agents_user(data: Path) -> User:
    """Return the user that an agent runs as: whose its state is, or who asks if it has none yet."""
    for path in (data / "state.db", data):
        try:
            return user_of(path.stat().st_uid)
        except OSError:
            continue
    return user_of(os.geteuid())


def barrier(path: str, user: User) -> Path | None:
    """Return what keeps a user from reading a file: the file, or the first folder that may not be looked into.

    None if nothing does, as far as modes say: access lists may say more, and what this process cannot see is believed
    to be open.
    """
    if user.uid == 0:
        return None
    target = Path(os.path.realpath(path))
    for each, wanted in [*((folder, stat.S_IXOTH) for folder in reversed(target.parents)), (target, stat.S_IROTH)]:
        try:
            found = each.stat()
        except FileNotFoundError:
            return None
        except PermissionError:
            return each.parent
        if not _may(found, wanted, user):
            return each
    return None


def way_in(barrier: Path, user: User) -> str:
    """Return the command that lets a user read what a barrier keeps: its group if that may, else an access list."""
    found = barrier.stat()
    is_folder = stat.S_ISDIR(found.st_mode)
    if found.st_mode & (stat.S_IXGRP if is_folder else stat.S_IRGRP) and found.st_gid != 0:
        try:
            return f"usermod --append --groups {grp.getgrgid(found.st_gid).gr_name} {user.name}"
        except KeyError:
            pass
    return f"setfacl --modify u:{user.name}:{'rx' if is_folder else 'r'} {shlex.quote(str(barrier))}"


def _may(found: os.stat_result, others: int, user: User) -> bool:
    if found.st_uid == user.uid:
        return bool(found.st_mode & others << 6)
    if found.st_gid in user.gids:
        return bool(found.st_mode & others << 3)
    return bool(found.st_mode & others)
