"""Who may read a file: what modes and access lists say of a user who is somebody else than who asks."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
import struct
from pathlib import Path
from typing import NamedTuple

#: Of Linux's access lists: their name, a version before all entries, and those of a kind, rights and an id each.
_LIST, _VERSION_BYTES, _ENTRY = "system.posix_acl_access", 4, struct.Struct("<HHI")
_USER, _OWN_GROUP, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10


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

    None if nothing does; what this process cannot see is believed to be open.
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
        if not _may(each, found, wanted, user):
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


def _may(path: Path, found: os.stat_result, others: int, user: User) -> bool:
    """Tell whether a user has a right, which is given as that of others, by the access list if there is one."""
    listed = _listed(path)
    if listed and found.st_uid != user.uid:
        mask = listed.get((_MASK, None), 7)
        if (named := listed.get((_USER, user.uid))) is not None:
            return bool(named & mask & others)
        groups = [right for (tag, gid), right in listed.items() if tag == _GROUP and gid in user.gids]
        groups += [listed.get((_OWN_GROUP, None), 0)] if found.st_gid in user.gids else []
        return any(right & mask & others for right in groups) if groups else bool(found.st_mode & others)
    if found.st_uid == user.uid:
        return bool(found.st_mode & others << 6)
    if found.st_gid in user.gids:
        return bool(found.st_mode & others << 3)
    return bool(found.st_mode & others)


def _listed(path: Path) -> dict[tuple[int, int | None], int]:
    """Return the entries of a file's access list: kind and, of named users and groups, id -> rights."""
    try:
        data = os.getxattr(path, _LIST)[_VERSION_BYTES:]
    except (OSError, AttributeError):  # there is none, or no such thing
        return {}
    whole = data[: len(data) - len(data) % _ENTRY.size]
    return {(tag, own if tag in (_USER, _GROUP) else None): right for tag, right, own in _ENTRY.iter_unpack(whole)}
