"""Where the World's agents keep their files: names and numbers of files that are the same whenever a seed is run.

Positions in logs hold the path, device and inode of a file, and go to neighbours in checkpoints: so the folder has one
name for each seed, used by one run at a time, and inodes are numbered in the order in which they are first looked at.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from elf.agents.sources.files import readers

#: A disk in memory: syncing costs nothing there.
MEMORY = pathlib.Path("/dev/shm")


@contextlib.contextmanager
def folder_of(name: str) -> Iterator[pathlib.Path]:
    """Give a run an empty folder of this name, which goes with it; another run of that name waits."""
    top = (MEMORY if MEMORY.is_dir() else pathlib.Path(tempfile.gettempdir())) / f"elf-world-{os.getuid()}"
    top.mkdir(mode=0o700, exist_ok=True)
    folder, lock = top / name, top / f"{name}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def numbered_files() -> Iterator[None]:
    """Let files be told apart by numbers in the order in which they are met, instead of by inodes."""
    numbers: dict[tuple[int, int], int] = {}

    def key_of(status: os.stat_result) -> tuple[int, int]:
        return 1, numbers.setdefault((status.st_dev, status.st_ino), len(numbers) + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "key_of", key_of)
        yield
