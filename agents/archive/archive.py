"""The agent's Parquet copy of the events it parsed, in step with its checkpoint (DESIGN section 3.7).

Invariant: an event is visible in the archive if and only if its line lies before the committed offset. The agent's
checkpoint is one SQLite transaction that files cannot join, so they go through two steps around it:

    prepare(n)    the events since the last checkpoint become durable files under hidden names
                  (now SQLite commits offsets, snapshots and n)
    commit(n)     the files get their visible names
    recover(n)    at start, n being the last sequence in SQLite: finishes a commit, removes what was never committed

If SQLite refuses n, the agent must start again from its last checkpoint. Every checkpoint closes its files, so a slow
source makes many small ones. Owns writing; names, manifests and reading are `elf.agents.archive.layout`. Calls may come
from any thread, one at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import polars as pl

from elf.agents.archive.layout import (
    HOUR_MS,
    MERGED,
    ArchivedFile,
    ArchiveError,
    FileEntry,
    check_file,
    hour_folder,
    hour_of,
    is_merged,
    list_files,
    manifest_path,
    read_manifest,
    safe_name,
    source_folder,
)
from elf.agents.archive.removed import EVER_MS, add_removed
from elf.agents.host import disk
from elf.agents.language.types import SqlType
from elf.agents.sources.raw_texts import is_raw, stacked

__all__ = ["Archive", "ArchiveError", "Manifest", "Recovery", "check_file", "list_files"]

#: One batch opens at most this many hours; the events of its other hours share one file. Bounds the folders that a
#: log with nonsense times, or a quiet site's backlog of months, can create.
HOURS_MAX = 48
#: 1970 to 9999: the years whose folder names all readers agree on, as hours since 1970.
YEARS_HOURS = (0, 253_402_300_800_000 // HOUR_MS)
#: Events of a Parquet row group: what a reader may skip by its time range.
GROUP_ROWS = 128_000
#: Events in memory are written out, hidden, once they hold so much, however few they are: wide ones of a backlog took
#: as much as all else. Of a log with ten columns of texts, which are codes here, these are some 25,000 events. With
#: four times as much files are 7 % smaller together, and an agent that reads a backlog has 20 MB more at its peak.
HELD_BYTES_MAX = 2 << 20
#: Events are written once and mostly never read: the fastest level costs 10 % more bytes and half the CPU of level 3.
ZSTD_LEVEL = 1

#: The name, in a file's footer, of what Polars says of its columns.
_OWN_SCHEMA = b"ARROW:schema"


class Manifest(msgspec.Struct, frozen=True):
    """What one checkpoint adds to the archive."""

    sequence: int
    files: tuple[FileEntry, ...]


class Recovery(msgspec.Struct, frozen=True):
    """What a start found: files made visible, removed, and set aside.

    Set aside (`_orphan-...`) are visible files newer than the checkpoint, and those of an agent whose state was lost:
    their lines will be read again, and to keep both would count events twice.
    """

    finished: int = 0
    removed: int = 0
    orphaned: int = 0
    #: Committed files that are not as they were written; set aside as `_damaged-...`, their events are missing.
    damaged: int = 0


class _Hidden(msgspec.Struct):
    """A durable file that is not visible yet, where it lies now."""

    path: Path
    entry: FileEntry


class Archive:
    """Writes one source's events for one agent.

    Args:
        folder: the archive's folder, shared by sources and, on one machine, by agents.
        source: the source's name.
        agent: the agent's name or address, different for every agent.
        rows_max: events held in memory; more are written out, still hidden, before the checkpoint.
    """

    def __init__(self, folder: Path, source: str, agent: str, *, rows_max: int) -> None:
        self._folder = folder
        self._source = source
        self._agent = agent
        self._root = source_folder(folder, source)
        self._name = safe_name(agent)
        #: May be set.
        self.rows_max = rows_max
        self._buffer: list[pl.DataFrame] = []
        self._rows = 0
        self._bytes = 0
        self._staged: list[_Hidden] = []
        self._staged_count = 0
        self._prepared: dict[int, list[_Hidden]] = {}
        self._sequence = -1

    def append(self, events: pl.DataFrame) -> None:
        """Take parsed events: `ts` and typed columns, which may differ from call to call.

        Raises:
            ArchiveError: a column has a type that is none of the job language's.
        """
        if events.is_empty():
            return
        _sql_types(events.schema)
        self._buffer.append(events)
        self._rows += events.height
        self._bytes += int(events.estimated_size())
        if self._rows >= self.rows_max or self._bytes >= HELD_BYTES_MAX:
            # What the disk refuses now stays in memory, and `prepare`, which may be repeated, writes it.
            with contextlib.suppress(OSError):
                self._stage()

    def prepare(self, sequence: int) -> Manifest:
        """Make all events since the last `prepare` durable, hidden, as part of checkpoint `sequence` (rising).

        Repeating it before its `commit`, with nothing appended meanwhile, does nothing.

        Raises:
            OSError: the disk refused; nothing is lost and the call may be repeated.
        """
        if sequence in self._prepared:
            return Manifest(sequence, tuple(file.entry for file in self._prepared[sequence]))
        if sequence <= self._sequence:
            raise ValueError(f"checkpoint {sequence} after {self._sequence}: sequences must rise")
        self._stage()
        for part, file in enumerate(self._staged):
            visible = file.path.with_name(f"{self._name}-{sequence:010d}-{part:03d}.parquet")
            path = visible.relative_to(self._folder).as_posix()
            file.entry = msgspec.structs.replace(file.entry, path=path, sequence=sequence)
            disk.write_durably(_pending(manifest_path(visible)), msgspec.json.encode(file.entry))
            file.path = file.path.rename(_pending(visible))
        disk.sync_folders(file.path.parent for file in self._staged)
        manifest = Manifest(sequence, tuple(file.entry for file in self._staged))
        self._prepared[sequence] = self._staged
        self._staged = []
        self._sequence = sequence
        return manifest

    def commit(self, sequence: int) -> None:
        """Make the files of a prepared checkpoint that SQLite has committed visible; repeating it does nothing."""
        files = self._prepared.get(sequence, [])
        for file in files:
            _show(_pending(manifest_path(self._folder / file.entry.path)))
            _show(file.path)
        disk.sync_folders(file.path.parent for file in files)
        self._prepared.pop(sequence, None)

    def recover(self, committed_sequence: int, predecessor: str | None = None) -> Recovery:
        """Bring the folder in step with the checkpoint, before the first `append`. O(files of this source).

        Args:
            committed_sequence: the last one in the state database, -1 if it holds none.
            predecessor: an agent whose state was lost and whose lines this one reads again.
        """
        finished, removed, orphaned = [], [], []
        others = self._files_of(safe_name(predecessor)) if predecessor else ()
        for path, _, is_hidden in others:
            path.rename(path.with_name(f"_orphan-{path.name}"))
            orphaned += [] if is_hidden else [path]
        for path, sequence, is_hidden in self._files_of(self._name):
            if is_hidden and sequence is not None and sequence <= committed_sequence:
                _show(path)
                finished.append(path)
            elif is_hidden:
                path.unlink()
                removed.append(path)
            elif sequence is not None and sequence > committed_sequence:
                self._note_merged(path)
                path.rename(path.with_name(f"_orphan-{path.name}"))
                orphaned.append(path)
        self._drop_merged(committed_sequence, predecessor)
        damaged = [path for path in finished if path.suffix == ".parquet" and not _is_whole(_visible(path))]
        for path in map(_visible, damaged):
            for part in (path, manifest_path(path)):
                with contextlib.suppress(FileNotFoundError):
                    part.rename(part.with_name(f"_damaged-{part.name}"))
        disk.sync_folders(path.parent for path in (*finished, *removed, *orphaned))
        self._sequence = committed_sequence
        return Recovery(_data_count(finished) - len(damaged), _data_count(removed), _data_count(orphaned), len(damaged))

    def _note_merged(self, path: Path) -> None:
        """Put on record that a merged file will be set aside, with older events too. Its manifest comes first."""
        data = path.with_name(f"{path.stem.removeprefix('.')}.parquet")
        if path.suffix != ".json" or not is_merged(data.name):
            return
        hour_ms = hour_of(path.parent.relative_to(self._root).as_posix())
        span = (EVER_MS, -EVER_MS) if hour_ms is None else (hour_ms, hour_ms + HOUR_MS)
        if hour_ms is None:
            with contextlib.suppress(ArchiveError):
                entry = read_manifest(data)
                span = (entry.first_ms, entry.last_ms + 1)
        add_removed(self._root, self._agent, [span])

    def _drop_merged(self, committed_sequence: int, predecessor: str | None) -> None:
        """Drop merged files that hold lines which will be read again; what they were merged of is judged by itself."""
        for agent, bound in ((predecessor, -1), (self._agent, committed_sequence)):
            pattern = re.compile(rf"{re.escape(safe_name(agent or ''))}-(\d{{10}})-m\d+\.parquet")
            for path in [] if agent is None else self._root.glob(f"{MERGED}/date=*/hour=*/*"):
                match = pattern.fullmatch(path.name)
                if match and int(match[1]) > bound:
                    path.unlink()
                    manifest_path(path).unlink(missing_ok=True)

    def _stage(self) -> None:
        """Write the buffer to durable files that belong to no checkpoint yet, one per schema and hour."""
        if not self._buffer:
            return
        written: list[_Hidden] = []
        try:
            for _, frames in itertools.groupby(self._buffer, key=_typed_schema):
                for hour_ms, events in _by_hour(stacked(list(frames))):
                    written.append(self._write(hour_ms, events))
        except OSError:
            for file in written:
                file.path.unlink(missing_ok=True)
            raise
        self._staged += written
        self._forget_buffer()

    def _forget_buffer(self) -> None:
        self._buffer.clear()
        self._rows = 0
        self._bytes = 0

    def _write(self, hour_ms: int | None, events: pl.DataFrame) -> _Hidden:
        self._staged_count += 1
        path = self._root / hour_folder(hour_ms) / f"_staged-{self._name}-{self._staged_count}.parquet"
        # Spark reads a time without a zone as TIMESTAMP_NTZ; ours are instants.
        unused = [each.name for each in events if is_raw(each.name) and each.null_count() == events.height]
        events = events.drop(unused)  # those that had one are in another hour
        zoned = events.with_columns(pl.selectors.datetime(time_zone=None).dt.replace_time_zone("UTC"))
        out = io.BytesIO()
        zoned.write_parquet(out, compression="zstd", compression_level=ZSTD_LEVEL, row_group_size=GROUP_ROWS)
        data = _without_codes(out)
        disk.write_in_folder(path, data)
        at_ms = events["ts"].dt.epoch("ms")
        entry = FileEntry(
            path="",
            source=self._source,
            agent=self._agent,
            sequence=-1,
            rows=events.height,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            first_ms=int(at_ms.min()),  # type: ignore[arg-type]
            last_ms=int(at_ms.max()),  # type: ignore[arg-type]
            columns=_sql_types(events.schema),
        )
        return _Hidden(path, entry)

    def _files_of(self, agent: str) -> Iterator[tuple[Path, int | None, bool]]:
        """Yield an agent's files: path, sequence (None while staged), hidden or not; manifests before their data."""
        name = re.escape(agent)
        pattern = re.compile(rf"_staged-{name}-\d+\.parquet|(_pending-)?\.?{name}-(\d{{10}})-m?\d+\.(?:parquet|json)")
        paths = [path for path in self._root.glob("date=*/hour=*/*") if pattern.fullmatch(path.name)]
        for path in sorted(paths, key=lambda path: (path.suffix != ".json", path)):
            match = pattern.fullmatch(path.name)
            assert match is not None
            sequence = None if match[2] is None else int(match[2])
            yield path, sequence, sequence is None or match[1] is not None


def _by_hour(events: pl.DataFrame) -> Iterator[tuple[int | None, pl.DataFrame]]:
    """Split events by the hour of their time; those beyond `HOURS_MAX` hours or `YEARS_HOURS` come under None."""
    hours = (events["ts"].dt.epoch("ms") // HOUR_MS).alias("hour")
    counts = hours.value_counts(sort=True)
    kept = counts["hour"].filter(counts["hour"].is_between(*YEARS_HOURS, closed="left")).head(HOURS_MAX)
    if kept.len() == 1 and counts.height == 1:
        yield kept[0] * HOUR_MS, events
        return
    for hour in kept:
        yield hour * HOUR_MS, events.filter(hours == hour)
    others = events.filter(~hours.is_in(kept.implode()))
    if others.height:
        yield None, others


def _typed_schema(events: pl.DataFrame) -> tuple[tuple[str, pl.DataType], ...]:
    # Codes are of texts.
    kinds = ((name, pl.String() if isinstance(kind, pl.Categorical) else kind) for name, kind in events.schema.items())
    return tuple((name, kind) for name, kind in kinds if not is_raw(name))


def _sql_types(schema: pl.Schema) -> dict[str, str]:
    names: dict[pl.DataType, str] = {kind.dtype: kind.ddl for kind in SqlType}
    types = {}
    for column, dtype in schema.items():
        ddl = "TIMESTAMP" if isinstance(dtype, pl.Datetime) else names.get(dtype)
        if isinstance(dtype, pl.Categorical):
            ddl = SqlType.STRING.ddl
        if ddl is None:
            known = ", ".join(kind.ddl for kind in SqlType)
            raise ArchiveError(f"column {column!r} of type {dtype} cannot be archived; cast it to one of {known}")
        types[column] = ddl
    return types


def _without_codes(file: io.BytesIO) -> bytes:
    """Return a Parquet file whose readers take its codes for the texts that they are, as the file itself says.

    Polars would have them back as codes, and says so in a text of its own beside.
    """
    data = file.getbuffer()
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    at = bytes(data[-8 - footer_bytes :]).rfind(_OWN_SCHEMA)
    if at >= 0:
        begin = len(data) - 8 - footer_bytes + at
        data[begin : begin + len(_OWN_SCHEMA)] = _OWN_SCHEMA.lower()
    return bytes(data)


def _pending(visible: Path) -> Path:
    return visible.with_name(f"_pending-{visible.name}")


def _show(hidden: Path) -> None:
    """Give a pending file its visible name, unless that was done before."""
    if hidden.exists():
        hidden.rename(_visible(hidden))


def _visible(pending: Path) -> Path:
    return pending.with_name(pending.name.removeprefix("_pending-"))


def _is_whole(data: Path) -> bool:
    """Tell whether a visible file is what its manifest says."""
    try:
        check_file(ArchivedFile(data, read_manifest(data)))
    except ArchiveError:
        return False
    return True


def _data_count(paths: Iterable[Path]) -> int:
    return sum(path.suffix == ".parquet" for path in paths)
