"""A disk that ends the process in the middle of a chosen operation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import elf.agents.host.disk


class CrashError(BaseException):
    """The process ends here; not an Exception, so no handler may tidy up."""


class Disk:
    """Counts operations on the file system, lets a reader look before each, and ends the process in the chosen one."""

    Crash: type[BaseException] = CrashError

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        #: Called before each operation.
        self.watch: Callable[[], object] = lambda: None
        operations = ((Path, "rename replace unlink mkdir rmdir hardlink_to"), (os, "truncate"), (shutil, "copy2"))
        for owner, names in operations:
            for name in names.split():
                monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))
        # The process ends here, not the machine: what was written stays, synced or not.
        monkeypatch.setattr(os, "fsync", self.counted(lambda *_: None))
        monkeypatch.setattr(elf.agents.host.disk, "write_durably", self.write)

    def counted(self, operation: Callable[..., object]) -> Callable[..., object]:
        def stepped(*args: object, **options: object) -> object:
            self.step()
            return operation(*args, **options)

        return stepped

    def step(self) -> None:
        self.watch()
        self.left -= 1
        if self.left == 0:
            raise self.Crash

    def write(self, path: Path, data: bytes, written_ns: int | None = None) -> None:
        path.write_bytes(data[: len(data) // 2])
        self.step()
        path.write_bytes(data)
        if written_ns is not None:
            os.utime(path, ns=(written_ns, written_ns))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return a disk that works until told otherwise."""
    return Disk(monkeypatch)
