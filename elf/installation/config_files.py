"""Configuration files of web servers, read within limits: whoever may edit one must not keep root's `elf init` busy."""

from __future__ import annotations

import glob
import os
import stat
from typing import NamedTuple

from elf.agents.errors import ConfigError

#: Real ones have some dozen files of some KB; thousands of virtual hosts have as many files.
FILES_MAX, FILE_BYTES_MAX, BYTES_MAX, DEPTH_MAX = 10_000, 1 << 20, 32 << 20, 16


class Place(NamedTuple):
    """Where something is said."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class ConfigFiles:
    """Reads files one after the other; `unread` has those that this user may not read."""

    def __init__(self) -> None:
        self.unread: list[str] = []
        self._files = 0
        self._bytes = 0

    def read(self, path: str, included_at: Place | None = None, depth: int = 0) -> str:
        """Return the text of a file; empty if this user may not read it, or it has gone.

        Raises:
            ConfigError: it is no text, or it, or all of them, are more than a server has.
        """
        wrong = f"{path}: " if included_at is None else f"{included_at}: {path}, which is included, "
        if depth > DEPTH_MAX:
            raise ConfigError(f"{wrong}stands {DEPTH_MAX} includes deep: a file includes itself")
        self._files += 1
        if self._files > FILES_MAX:
            raise ConfigError(f"{wrong}is one of more than {FILES_MAX} files; name the log with --source instead")
        try:
            # Without waiting: opening a pipe would wait for its writer.
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.unread.append(f"{path}: {error.strerror}")
            return ""
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise ConfigError(f"{wrong}is no file")
        with os.fdopen(number, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        self._bytes += len(data)
        if len(data) > FILE_BYTES_MAX or self._bytes > BYTES_MAX:
            raise ConfigError(f"{wrong}is too large for a server's configuration; name the log with --source instead")
        if b"\0" in data:
            raise ConfigError(f"{wrong}is no text")
        return data.decode("utf-8", "surrogateescape")


def included(pattern: str, folder: str) -> list[str]:
    """Return the files that an include names, in the order that servers read them; below `folder` if it is relative."""
    whole = os.path.join(folder, pattern)
    return sorted(glob.glob(whole))[: FILES_MAX + 1] if glob.has_magic(whole) else [whole]
