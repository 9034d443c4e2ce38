"""What of the archive has to go, by age and by bytes, and its removal.

Only files that are visible, and so committed, go, and those that were set aside. What goes is on record first
(`elf.agents.archive.removed`), so a reader can tell an hour that was removed from one that had no events.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import polars as pl

from elf.agents.archive.inventory import GOING, Held, manifest_beside
from elf.agents.archive.layout import HOUR_MS, ArchiveError, read_manifest
from elf.agents.archive.reader import hours_in
from elf.agents.archive.removed import EVER_MS, Span, add_removed
from elf.agents.host import disk

_REMOVABLE = ("visible", "merged", "aside")


def choose(held: Sequence[Held], now_ms: int, retain_ms: int | None, bytes_max: int | None) -> list[Held]:
    """Choose what has to go: all that was written longer than `retain_ms` ago, then the oldest hours above `bytes_max`.

    None is no bound. Age counts from when a file was written, not from its events' time: a backlog of last year is
    kept as long as what is logged today, and nonsense times keep nothing.
    """
    removable = sorted((file for file in held if file.kind in _REMOVABLE), key=lambda file: file.age_key)
    chosen = [file for file in removable if retain_ms is not None and file.written_ms < now_ms - retain_ms]
    used = sum(file.bytes for file in held) - sum(file.bytes for file in chosen)
    gone = {file.path for file in chosen}
    for file in removable:
        if bytes_max is None or used <= bytes_max:
            break
        if file.path not in gone:
            chosen.append(file)
            used -= file.bytes
    return chosen


def remove(files: Sequence[Held], agent: str) -> None:
    """Note what goes, then remove it.

    Raises:
        OSError: the disk refused; what could not be noted is still there.
    """
    for root in sorted({file.root for file in files}):
        ours = [file for file in files if file.root == root]
        spans = [span for file in ours for span in _spans(file)]
        try:
            add_removed(root, agent, spans)
        except OSError:
            # A full disk has no room for the note. Files without bytes make some, and their names still say the hours.
            ours = [_emptied(file) for file in ours]
            add_removed(root, agent, spans)
        for file in ours:
            _unlink(file)
        disk.sync_folders(file.path.parent for file in ours)
        for folder in {file.path.parent for file in ours}:
            disk.remove_empty(folder, root)


def finish(held: Iterable[Held], agent: str) -> None:
    """Remove what was on its way out when the agent stopped."""
    going = [file for file in held if file.kind == "going"]
    if going:
        remove(going, agent)


def _spans(file: Held) -> list[Span]:
    """Return the hours that a file's events are of."""
    if file.kind == "aside":
        return []
    if file.hour_ms is not None:
        return [(file.hour_ms, file.hour_ms + HOUR_MS)]
    try:
        return hours_in(file.path)
    except (OSError, pl.exceptions.PolarsError):
        pass
    try:
        entry = read_manifest(file.path.with_name(file.path.name.removeprefix(GOING)))
    except ArchiveError:
        return [(EVER_MS, file.written_ms + 1)]
    return [(entry.first_ms, entry.last_ms + 1)]


def _emptied(file: Held) -> Held:
    if file.kind == "going":
        return file
    if file.kind == "aside":
        _unlink(file)
        return file
    going = file.path.with_name(GOING + file.path.name)
    file.path.rename(going)
    os.truncate(going, 0)
    return Held(going, file.root, file.hour_ms, 0, file.written_ms, "going")


def _unlink(file: Held) -> None:
    """Remove the events first: a manifest alone misleads nobody."""
    file.path.unlink(missing_ok=True)
    manifest_beside(file.path).unlink(missing_ok=True)
