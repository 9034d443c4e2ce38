"""Which files on disk are one log: its live file, and those that it was rotated to. Looks at folders, opens nothing."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from elf.agents.sources.files import rotation
from elf.agents.sources.files.readers import look_at
from elf.agents.sources.files.rotation import Seen


class Matched(NamedTuple):
    """What patterns match.

    Attributes:
        families: the live path of each family, with the paths that are matched in it.
        unmatched: patterns that match nothing.
        unreadable: path -> why what a pattern names, and not just matches, can be no log.
    """

    families: dict[str, set[str]]
    unmatched: list[str]
    unreadable: dict[str, str]


def live_paths(patterns: Sequence[str]) -> Matched:
    """Return the logs that patterns match."""
    matched: set[str] = set()
    unmatched = []
    named: set[str] = set()
    for pattern in patterns:
        if glob.has_magic(pattern):
            found = matched_files(pattern)
            matched.update(found)
            is_there = bool(found)
        else:
            named.add(pattern)
            is_there = os.path.lexists(pattern)
        if not is_there:
            unmatched.append(pattern)
    # An escaped path has magic, but only ever matches one name, which may not exist yet.
    named.update(path for pattern in patterns if (path := _unescaped(pattern)))
    matched |= named
    families: dict[str, set[str]] = {}
    for path in matched:
        families.setdefault(rotation.live_of(path, matched) or path, set()).add(path)
    return Matched(families, unmatched, {path: reason for path in named if (reason := why_no_log(path))})


def matched_files(pattern: str) -> list[str]:
    """Return the regular files that a glob matches, and links to such.

    What else it matches is no log: a folder beside the logs, or a FIFO, which others write to for somebody else.
    """
    return [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]


def why_no_log(path: str) -> str | None:
    """Say why what is at a path can be no log; None if it can be one, or is not there."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    return "a pipe or a socket, not a file" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def family_on_disk(live: str, *, is_own: bool = False) -> list[Seen]:
    """Return the regular files of a family that exist now, oldest first; `is_own`: they are ours."""
    folder, _, name = live.rpartition("/")
    files = []
    with contextlib.suppress(OSError), os.scandir(folder or "/") as entries:
        for entry in entries:
            if entry.name == name or rotation.is_rotated_name(entry.name, name):
                with contextlib.suppress(OSError):
                    files += [look_at(entry.path, is_own=is_own)] if entry.is_file() else []
    return rotation.oldest_first(files, live)


def _unescaped(pattern: str) -> str | None:
    """Return the one path an escaped pattern stands for, None for a real glob."""
    path = pattern.replace("[*]", "*").replace("[?]", "?").replace("[[]", "[")
    return path if glob.escape(path) == pattern else None
