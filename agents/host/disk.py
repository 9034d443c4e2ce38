"""Durable writes: a file's bytes, whole or appended, and the names of files in their folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

#: A folder that was just made may be taken away as empty by the one who removes old hours; then it is made again.
_TRIES = 5


def write_durably(path: Path, data: bytes, written_ns: int | None = None) -> None:
    """Write a whole file and sync its bytes, not yet its name; `written_ns` is the time of writing it shall show."""
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        if written_ns is not None:
            os.utime(out.fileno(), ns=(written_ns, written_ns))
        os.fsync(out.fileno())


def write_in_folder(path: Path, data: bytes, written_ns: int | None = None) -> None:
    """Write a whole file as `write_durably` does, in a folder that need not be there."""
    for left in reversed(range(_TRIES)):
        try:
            make_folder(path.parent)
            write_durably(path, data, written_ns)
        except FileNotFoundError:
            if not left:
                raise
        else:
            return


def replace_durably(path: Path, data: bytes) -> None:
    """Give a file new bytes, all or none of them whenever the machine stops; its folder is there."""
    new = path.with_name(f"_new-{path.name}")
    write_durably(new, data)
    new.replace(path)
    sync_folders([path.parent])


def open_log(path: Path) -> int:
    """Open a file of ours to append to and to read, made if need be; OSError if there is a link in its place."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it; where that raises OSError a part may be there."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, each made durable in its parent."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folders([folder.parent])


def sync_folders(folders: Iterable[Path]) -> None:
    """Make renames and new names in folders durable; a folder that is gone held nothing any more."""
    for folder in set(folders):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_empty(folder: Path, top: Path) -> None:
    """Remove a folder and the parents below `top` that are empty."""
    while folder != top:
        try:
            folder.rmdir()
        except OSError:  # not empty, or gone
            return
        folder = folder.parent
