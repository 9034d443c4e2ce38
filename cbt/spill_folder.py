"""Who owns which file in a spill folder, so that what a killed process left behind can go and nothing else does.

Any number of stores, of one process or of many, share a folder. A store is known by a random token: it holds a lock on
`<token>.lock` for as long as it lives and writes `<token>-<segment>.spill`. The kernel drops the lock with the process,
however that ends; so a lock that can be taken belongs to nobody, and its files are removed.

Differs from the usual trick of unlinking an open file at once: operators see in the folder where their disk went, and
damage to it can be tested. The price is that a killed process leaves files until the next store opens the folder.

Errors are the operating system's own: `elf.cbt.spill` says what they mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from pathlib import Path

#: Everything is opened by its last name only, never through a link that somebody put there.
FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC

_LOCK = re.compile(r"([0-9a-f]{16})\.lock")
_SEGMENT = re.compile(r"([0-9a-f]{16})-[0-9]{8,}\.spill")


def lock_path(folder: Path, token: bytes) -> Path:
    """Name the file whose lock says that the store is alive."""
    return folder / f"{token.hex()}.lock"


def segment_path(folder: Path, token: bytes, number: int) -> Path:
    """Name a segment of a store."""
    return folder / f"{token.hex()}-{number:08d}.spill"


def claim(folder: Path, token: bytes) -> int:
    """Make the folder where it is missing, remove left-overs, and return the descriptor of this store's own lock.

    Raises:
        OSError: the folder cannot be made or written, is a symbolic link, or lets any user replace files in it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = folder.lstat().st_mode
    if not stat.S_ISDIR(mode):
        raise OSError(errno.ELOOP, "the spill folder must be a folder, not a symbolic link", str(folder))
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "the spill folder may be written by any user", str(folder))
    sweep(folder)
    while True:
        descriptor = os.open(lock_path(folder, token), os.O_RDWR | os.O_CREAT | FLAGS, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if holds(descriptor, lock_path(folder, token)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # A sweep came between making and locking the file, and removed it.


def holds(descriptor: int, path: Path) -> bool:
    """Tell whether the open file is still the one of that name."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def sweep(folder: Path) -> int:
    """Remove the files of stores whose process is gone; return how many. O(files in the folder).

    Stores do so when they first write; an agent does it once at its start. Files of living stores stay, and so does
    everything that no store wrote.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    removed = 0
    for match in filter(None, map(_LOCK.fullmatch, names)):
        path = folder / match[0]
        try:
            descriptor = os.open(path, os.O_RDWR | FLAGS)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if holds(descriptor, path):
                removed += remove(folder, bytes.fromhex(match[1]))
        except OSError:
            pass
        finally:
            os.close(descriptor)
    return removed


def remove(folder: Path, token: bytes) -> int:
    """Remove a store's files, its lock last; for the holder of the lock only. Return how many went."""
    removed = 0
    with contextlib.suppress(OSError):
        for match in filter(None, map(_SEGMENT.fullmatch, os.listdir(folder))):
            if match[1] == token.hex():
                removed += _unlink(folder / match[0])
    return removed + _unlink(lock_path(folder, token))


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
