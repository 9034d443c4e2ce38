"""What one agent has in an archive's folder: its files, their size on disk, and when they were written.

Besides its own files it lists all that were set aside, whoever wrote them: nobody else bounds those. Only names and
sizes are read here, no manifest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from elf.agents.archive.layout import MERGED, hour_of, safe_name

#: A file on its way out whose removal could not be noted yet, for lack of room (`elf.agents.archive.retention`).
GOING = "_removed-"


class Held(msgspec.Struct, frozen=True):
    """One data file of the archive."""

    path: Path
    #: The source's folder.
    root: Path
    #: When its hour begins; None for mixed hours.
    hour_ms: int | None
    #: On disk, its manifest included; 0 for a second name of a file that was listed before.
    bytes: int
    written_ms: int
    #: visible: committed events · aside: no reader's · merged: waits under `_merged` · hidden: on its way in · going:
    #: on its way out.
    kind: str

    @property
    def age_key(self) -> tuple[bool, int, str]:
        """Order of removal: what is set aside, then by hour; an hour ahead of its writing counts as written."""
        hour_ms = self.written_ms if self.hour_ms is None else min(self.hour_ms, self.written_ms)
        return (self.kind != "aside", hour_ms, self.path.name)


class Names:
    """Tells what the name of a file in an hour's folder says, to one agent."""

    def __init__(self, agent: str) -> None:
        name = re.escape(safe_name(agent))
        self._own = re.compile(rf"{name}-\d{{10}}-m?\d+\.parquet")
        self._hidden = re.compile(rf"_staged-{name}-\d+\.parquet|_pending-{name}-\d{{10}}-\d+\.parquet")
        self._going = re.compile(rf"{GOING}{name}-\d{{10}}-m?\d+\.parquet")
        self._aside = re.compile(r"_(?:orphan|damaged)-.*\.parquet")

    def kind(self, name: str) -> str | None:
        """Return the kind of a data file (see `Held`); None for other agents' files and all else."""
        if self._own.fullmatch(name):
            return "visible"
        for kind, pattern in (("hidden", self._hidden), ("going", self._going), ("aside", self._aside)):
            if pattern.fullmatch(name):
                return kind
        return None


def list_held(folder: Path, agent: str) -> list[Held]:
    """List the data files of an agent in all sources, and those that were set aside. O(files)."""
    names, seen = Names(agent), set[tuple[int, int]]()
    held: list[Held] = []
    for root in sorted(folder.glob("source=*")):
        for tree in (root, root / MERGED):
            for hour in sorted(tree.glob("date=*/hour=*")):
                try:
                    hour_ms = hour_of(hour.relative_to(tree).as_posix())
                except ValueError:
                    continue
                held += _in_hour(hour, root, hour_ms, names, tree != root, seen)
    return held


def _in_hour(
    hour: Path, root: Path, hour_ms: int | None, names: Names, merged: bool, seen: set[tuple[int, int]]
) -> Iterator[Held]:
    stats = _stats(hour)
    for name in sorted(stats):
        kind = names.kind(name)
        if kind is None:
            continue
        stat, known = stats[name], stats.get(_manifest_name(name))
        size = 0 if (stat.st_dev, stat.st_ino) in seen else _on_disk(stat)
        size += 0 if known is None else _on_disk(known)
        seen.add((stat.st_dev, stat.st_ino))
        kind = "merged" if merged and kind == "visible" else kind
        yield Held(hour / name, root, hour_ms, size, stat.st_mtime_ns // 1_000_000, kind)


def _stats(hour: Path) -> dict[str, os.stat_result]:
    stats = {}
    try:
        with os.scandir(hour) as entries:
            for entry in entries:
                try:
                    stats[entry.name] = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
    except FileNotFoundError:
        pass
    return stats


def _manifest_name(data: str) -> str:
    """Name the manifest beside a data file; of one that was set aside or is going, as those are named."""
    stem = data.removesuffix(".parquet")
    for prefix in ("_orphan-", "_damaged-", "_pending-"):
        if stem.startswith(prefix):
            return f"{prefix}.{stem.removeprefix(prefix)}.json"
    return f".{stem.removeprefix(GOING)}.json"


def manifest_beside(data: Path) -> Path:
    """Return the manifest's path of a data file of any kind."""
    return data.with_name(_manifest_name(data.name))


def _on_disk(stat: os.stat_result) -> int:
    return max(stat.st_size, stat.st_blocks * 512)
