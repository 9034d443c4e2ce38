"""Merges the small files of an hour once it is quiet; no reader sees an event twice, or not at all.

Every checkpoint makes a file, thousands an hour, where one would do. A merged file takes their place in three steps,
each of which may be cut short anywhere and is gone on with from what lies on the disk:

    merge     FOLDER/source=X/_merged/HOUR/<agent>-<sequence>-m<number>.parquet, its manifest naming what it replaces.
              From now on readers that go by manifests (`layout.list_files`) take it and leave those out; others
              do not see it.
    show      after `GRACE_MS`, when whoever listed the small files has read them: the merged file gets a second name,
              in its hour, and the small ones go.
    forget    after as long again the first name goes.

Engines that take all files of the tree, without manifests, may meet an hour between two states in the moment of `show`.
A merged file shows the time at which the oldest of its parts was written, so nothing is kept longer for having been
merged. Owns one agent's files; may run beside its `Archive`, which only adds new names. One call at a time.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import polars as pl

from elf.agents.archive.archive import GROUP_ROWS, ZSTD_LEVEL
from elf.agents.archive.inventory import Held, manifest_beside
from elf.agents.archive.layout import HOUR_MS, MERGED, ArchivedFile, ArchiveError, check_file, read_manifest, safe_name
from elf.agents.host import disk
from elf.agents.sources.raw_texts import stacked

#: An hour is quiet when it has ended, and nothing was added to it, for so long.
QUIET_MS = 15 * 60_000
#: How long readers have to read the files that they listed.
GRACE_MS = 15 * 60_000
#: Of one merged file: its parts are in memory together while it is written.
MERGED_ROWS_MAX, MERGED_BYTES_MAX = 500_000, 32 << 20


class Merging:
    """Merges the files of one agent.

    Args:
        agent: the agent's name or address, as its `Archive` has it.
        damaged: told of each file whose bytes are not what was written; it stays where it is, and is not merged.
    """

    def __init__(self, agent: str, damaged: Callable[[Path, str], None]) -> None:
        self._name = safe_name(agent)
        self._damaged = damaged
        #: Small files that were merged, since the start.
        self.merged = 0
        #: Hours in which there was nothing to do: the files that they had.
        self._idle: dict[Path, tuple[Path, ...]] = {}

    def go_on(self, held: Iterable[Held], now_ms: int) -> None:
        """Bring merged files that wait one step further.

        Raises:
            OSError: the disk refused; to be called again later.
        """
        for waiting in held:
            if waiting.kind == "merged":
                self._go_on(waiting, now_ms)

    def merge_quiet(self, held: Iterable[Held], now_ms: int) -> Iterator[Path]:
        """Merge what can be merged in quiet hours and yield each new file, so that the caller may stop in between.

        Raises:
            OSError: the disk refused; nothing has changed for readers.
        """
        hours: dict[Path, list[Held]] = {}
        for file in held:
            hours.setdefault(file.root / file.path.parent.relative_to(_tree(file)), []).append(file)
        self._idle = {hour: files for hour, files in self._idle.items() if hour in hours}
        for hour, files in hours.items():
            visible = [file for file in files if file.kind == "visible"]
            if len(visible) < 2 or not _is_quiet(files, now_ms):
                continue
            paths = tuple(file.path for file in visible)
            if self._idle.get(hour) == paths:
                continue
            groups = list(plan_merges(list(self._entries(visible))))
            for group in groups:
                merged = self._merge(visible[0].root, hour, group, now_ms)
                if merged is not None:
                    yield merged
            if not groups:
                self._idle[hour] = paths

    def _entries(self, files: Sequence[Held]) -> Iterator[ArchivedFile]:
        for file in files:
            try:
                yield ArchivedFile(file.path, read_manifest(file.path))
            except ArchiveError as error:
                self._damaged(file.path, str(error))

    def _merge(self, root: Path, hour: Path, group: Sequence[ArchivedFile], now_ms: int) -> Path | None:
        """Write one merged file under `_merged`; None if a part of it is damaged or gone."""
        frames = []
        for file in group:
            try:
                # Damage must not be handed on under a fresh checksum.
                frames.append(pl.read_parquet(io.BytesIO(check_file(file))))
            except FileNotFoundError:
                return None
            except (ArchiveError, pl.exceptions.PolarsError) as error:
                self._damaged(hour / file.path.name, str(error))
        if len(frames) < len(group):
            return None
        written_ns = min((hour / file.path.name).stat().st_mtime_ns for file in group)
        out = io.BytesIO()
        # In order of time, so that readers can skip groups of rows.
        events = stacked(frames).sort("ts")
        events.write_parquet(out, compression="zstd", compression_level=ZSTD_LEVEL, row_group_size=GROUP_ROWS)
        data = out.getvalue()
        sequence = max(file.entry.sequence for file in group)
        # What its parts replaced, too: whoever copies the archive elsewhere need not have seen every one of them.
        replaces = [name for file in group for name in (file.path.name, *file.entry.replaces)]
        path = _unused(root / MERGED / hour.relative_to(root), hour, f"{self._name}-{sequence:010d}", replaces)
        entry = msgspec.structs.replace(
            group[0].entry,
            columns={name: kind for file in group for name, kind in file.entry.columns.items()},
            path=(hour / path.name).relative_to(root.parent).as_posix(),
            sequence=sequence,
            rows=events.height,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            first_ms=min(file.entry.first_ms for file in group),
            last_ms=max(file.entry.last_ms for file in group),
            replaces=tuple(replaces),
            merged_ms=now_ms,
        )
        hidden = path.with_name(f"_new-{path.name}")
        disk.write_in_folder(hidden, data, written_ns)
        disk.replace_durably(manifest_beside(path), msgspec.json.encode(entry))
        hidden.rename(path)
        disk.sync_folders([path.parent])
        self.merged += len(group)
        return path

    def _go_on(self, waiting: Held, now_ms: int) -> None:
        hour = waiting.root / waiting.path.parent.relative_to(_tree(waiting))
        shown = hour / waiting.path.name
        try:
            entry = read_manifest(waiting.path)
            if now_ms - entry.merged_ms < GRACE_MS:
                return
            parts = [hour / name for name in entry.replaces if (hour / name).exists()]
            if parts:
                check_file(ArchivedFile(waiting.path, entry))
        except FileNotFoundError:
            return
        except ArchiveError as error:
            # Its parts are all there yet, as they go last.
            self._damaged(waiting.path, str(error))
            _forget(waiting)
            return
        if parts or not shown.exists():
            if not shown.exists() and now_ms - entry.merged_ms > GRACE_MS:
                # It is shown late, as nobody looked after it: readers have their time from now on.
                entry = msgspec.structs.replace(entry, merged_ms=now_ms - GRACE_MS)
                disk.replace_durably(manifest_beside(waiting.path), msgspec.json.encode(entry))
            _show(waiting.path, shown)
            for part in parts:
                part.unlink(missing_ok=True)
                manifest_beside(part).unlink(missing_ok=True)
            disk.sync_folders([hour])
        if now_ms - entry.merged_ms >= 2 * GRACE_MS:
            _forget(waiting)


def plan_merges(files: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    """Choose which files of an hour become one: of one schema, in order, within the bounds of a merged file.

    A file larger than all others of its group together stays out: or one late event after the other would have the
    whole hour written anew. So an event is written a logarithmic number of times.
    """
    schemas: dict[tuple[tuple[str, str], ...], list[ArchivedFile]] = {}
    for file in files:
        schemas.setdefault(file.entry.typed, []).append(file)
    for same in schemas.values():
        group: list[ArchivedFile] = []
        rows = size = 0
        for file in sorted(same, key=lambda file: (file.entry.sequence, file.path.name)):
            if rows + file.entry.rows > MERGED_ROWS_MAX or size + file.entry.bytes > MERGED_BYTES_MAX:
                yield from _worth_it(group)
                group, rows, size = [], 0, 0
            group.append(file)
            rows, size = rows + file.entry.rows, size + file.entry.bytes
        yield from _worth_it(group)


def _worth_it(group: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    left = sorted(group, key=lambda file: file.entry.rows)
    while len(left) > 1 and left[-1].entry.rows > sum(file.entry.rows for file in left[:-1]):
        left.pop()
    if len(left) > 1:
        yield left


def _is_quiet(files: Sequence[Held], now_ms: int) -> bool:
    """Tell whether an hour has ended long ago, has no file on its way, and was not added to lately."""
    hour_ms = files[0].hour_ms
    return (
        (hour_ms is None or hour_ms + HOUR_MS + QUIET_MS <= now_ms)
        and all(file.written_ms + QUIET_MS <= now_ms for file in files)
        and not any(file.kind in ("hidden", "merged", "going") for file in files)
    )


def _tree(file: Held) -> Path:
    """Return the folder that a file's date and hour lie in."""
    return file.path.parent.parent.parent


def _unused(folder: Path, hour: Path, name: str, replaced: Sequence[str]) -> Path:
    """Return a path for a merged file whose name none has, nor had any that it replaces."""
    names = (f"{name}-m{number:03d}.parquet" for number in itertools.count())
    return next(folder / each for each in names if each not in replaced and not _exists(each, folder, hour))


def _exists(name: str, *folders: Path) -> bool:
    return any((folder / name).exists() for folder in folders)


def _show(merged: Path, shown: Path) -> None:
    """Give a merged file its name in its hour, the manifest first."""
    disk.make_folder(shown.parent)
    for path, visible in ((manifest_beside(merged), manifest_beside(shown)), (merged, shown)):
        if visible.exists():
            continue
        try:
            visible.hardlink_to(path)
        except OSError:  # a file system without links
            hidden = visible.with_name(f"_new-{visible.name.lstrip('.')}")
            shutil.copy2(path, hidden)
            with hidden.open("rb") as copied:
                os.fsync(copied.fileno())
            hidden.rename(visible)
    disk.sync_folders([shown.parent])


def _forget(waiting: Held) -> None:
    waiting.path.unlink(missing_ok=True)
    manifest_beside(waiting.path).unlink(missing_ok=True)
    disk.remove_empty(waiting.path.parent, waiting.root)


def tidy(root: Path, agent: str) -> None:
    """Remove what a crash left half written, or half removed, in a source's folder; before anything is merged."""
    name = re.escape(safe_name(agent))
    new = re.compile(rf"_new-\.?{name}-\d{{10}}-m\d+\.(?:parquet|json)")
    manifest = re.compile(rf"\.({name}-\d{{10}}-m?\d+)\.json")
    for path in [*root.glob("date=*/hour=*/*"), *root.glob(f"{MERGED}/date=*/hour=*/*")]:
        known = manifest.fullmatch(path.name)
        # A commit may be under way, which shows a manifest before its data: in this order none is taken for left over.
        data = [path.with_name(f"{prefix}{known[1]}.parquet") for prefix in ("_pending-", "")] if known else []
        if new.fullmatch(path.name) or (known and not any(part.exists() for part in data)):
            path.unlink()
    for pattern in ("date=*/hour=*", "date=*"):
        for folder in [*root.glob(pattern), *root.glob(f"{MERGED}/{pattern}")]:
            disk.remove_empty(folder, root)
    disk.remove_empty(root / MERGED, root)
