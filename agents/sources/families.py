"""Which files on disk are one log: its live file, and those that it was rotated to. Looks at folders, opens nothing."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence

from agents.sources import rotation
from agents.sources.readers import look_at
from agents.sources.rotation import Seen


def live_paths(patterns: Sequence[str]) -> tuple[dict[str, set[str]], list[str]]:
    """Return the live path of each family with the paths that patterns match in it, and patterns that match nothing."""
    matched: set[str] = set()
    unmatched = []
    for pattern in patterns:
        found = glob.glob(pattern, recursive=True)
        if not found:
            unmatched.append(pattern)
        matched.update(found if glob.has_magic(pattern) else [pattern])
    # An escaped path has magic, but only ever matches one name, which may not exist yet.
    matched.update(path for pattern in patterns if (path := _unescaped(pattern)))
    families: dict[str, set[str]] = {}
    for path in matched:
        families.setdefault(rotation.live_of(path, matched) or path, set()).add(path)
    return families, unmatched


def family_on_disk(live: str) -> list[Seen]:
    """Return the files of a family that exist now, oldest first."""
    folder, _, name = live.rpartition("/")
    files = []
    with contextlib.suppress(OSError), os.scandir(folder or "/") as entries:
        for entry in entries:
            if entry.name == name or rotation.is_rotated_name(entry.name, name):
                with contextlib.suppress(OSError):
                    files.append(look_at(entry.path))
    return rotation.oldest_first(files, live)


def _unescaped(pattern: str) -> str | None:
    """Return the one path an escaped pattern stands for, None for a real glob."""
    path = pattern.replace("[*]", "*").replace("[?]", "?").replace("[[]", "[")
    return path if glob.escape(path) == pattern else None
