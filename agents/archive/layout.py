"""How the archive lies on disk: safe names, what is known of each file, and finding and reading the files.

    FOLDER/source=NAME/date=2026-01-01/hour=13/<agent>-<sequence>-<part>.parquet     visible events
                                              /.<agent>-<sequence>-<part>.json       its manifest
                                              /_pending-<agent>-<sequence>-<part>.*  not committed yet
                                              /_staged-<agent>-<part>.parquet        no sequence yet
              /_orphan-*, _damaged-*                 set aside at a start (`agents.archive.archive.Recovery`)

Spark, DuckDB and Polars all read the visible files of such a tree; names that begin with `_` or `.` are hidden by the
Hive convention. Who writes, and when, is `agents.archive`. Readers here prune by folder first, by manifest second.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from agents.errors import ElfError

HOUR_MS = 3_600_000
#: What Hive, and so every reader of such trees, takes for a null partition: here, files of events from many hours.
MIXED = "__HIVE_DEFAULT_PARTITION__"

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOUR_FOLDER = re.compile(r"date=(\d{4})-(\d\d)-(\d\d)/hour=(\d\d)")


class ArchiveError(ElfError):
    """A file of the archive is damaged or is not what its manifest says."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest of one archived file."""

    #: Path below the archive's folder, once visible.
    path: str
    source: str
    agent: str
    sequence: int
    rows: int
    bytes: int
    sha256: str
    #: Event times of the first and the last event, both included.
    first_ms: int
    last_ms: int
    #: Name and SQL type of each column, `ts` first.
    columns: dict[str, str]


class ArchivedFile(msgspec.Struct, frozen=True):
    """A visible file and its manifest."""

    path: Path
    entry: FileEntry


def safe_name(name: str) -> str:
    """Return `name` itself where it is safe as a part of any file system's or Hadoop's path, else a readable hash."""
    if _SAFE.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    return f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def source_folder(folder: Path, source: str) -> Path:
    """Return where a source's files lie."""
    return folder / f"source={safe_name(source)}"


def hour_folder(hour_ms: int | None) -> str:
    """Return the partition of the hour that begins at `hour_ms`, or of mixed hours for None."""
    if hour_ms is None:
        return f"date={MIXED}/hour={MIXED}"
    text = pl.select(pl.from_epoch(pl.lit(hour_ms), time_unit="ms").dt.to_string("date=%Y-%m-%d/hour=%H")).item()
    return str(text)


def manifest_path(data: Path) -> Path:
    """Return the manifest's path beside a visible file."""
    return data.with_name(f".{data.stem}.json")


def list_files(folder: Path, source: str, start_ms: int | None = None, end_ms: int | None = None) -> list[ArchivedFile]:
    """Return the visible files that may hold events of [start_ms, end_ms), in order of path.

    Raises:
        ArchiveError: a manifest is missing or unreadable.
    """
    found = []
    for hour in _hours(source_folder(folder, source), start_ms, end_ms):
        for path in sorted(hour.glob("*.parquet")):
            if path.name.startswith(("_", ".")):
                continue
            entry = read_manifest(path)
            if (end_ms is None or entry.first_ms < end_ms) and (start_ms is None or entry.last_ms >= start_ms):
                found.append(ArchivedFile(path, entry))
    return found


def read_manifest(data: Path) -> FileEntry:
    """Read the manifest of a visible file.

    Raises:
        ArchiveError: it is missing or unreadable.
    """
    try:
        return msgspec.json.decode(manifest_path(data).read_bytes(), type=FileEntry)
    except (OSError, msgspec.DecodeError) as error:
        raise ArchiveError(f"{data}: its manifest {manifest_path(data).name} cannot be read: {error}") from None


def check_file(file: ArchivedFile) -> None:
    """Compare a file's bytes with its manifest, O(bytes).

    Raises:
        ArchiveError: they differ.
    """
    data = file.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != file.entry.sha256:
        raise ArchiveError(
            f"{file.path}: its bytes are not those that agent {file.entry.agent} wrote "
            f"(manifest: {file.entry.bytes} bytes, sha256 {file.entry.sha256[:12]}...)"
        )


def read_archive(folder: Path, source: str, start_ms: int | None = None, end_ms: int | None = None) -> pl.DataFrame:
    """Return the visible events of a source with time in [start_ms, end_ms), in no particular order.

    Columns that a file lacks are null in its events; times are naive UTC, as in event frames.
    """
    frames = [
        pl.read_parquet(file.path, hive_partitioning=False) for file in list_files(folder, source, start_ms, end_ms)
    ]
    if not frames:
        return pl.DataFrame(schema={"ts": pl.Datetime("ms")})
    events = pl.concat(frames, how="diagonal_relaxed")
    events = events.with_columns(pl.selectors.datetime(time_zone="UTC").dt.replace_time_zone(None))
    at_ms = pl.col("ts").dt.epoch("ms")
    if start_ms is not None:
        events = events.filter(at_ms >= start_ms)
    return events if end_ms is None else events.filter(at_ms < end_ms)


def _hours(root: Path, start_ms: int | None, end_ms: int | None) -> Iterator[Path]:
    """Yield the hour folders that may hold events of the range, and always the mixed one."""
    for path in sorted(root.glob("date=*/hour=*")):
        match = _HOUR_FOLDER.fullmatch(path.relative_to(root).as_posix())
        if match is None:
            if path.relative_to(root).as_posix() == hour_folder(None):
                yield path
            continue
        year, month, day, hour = map(int, match.groups())
        hour_ms = int(pl.select(pl.datetime(year, month, day, hour).dt.epoch("ms")).item())
        if (end_ms is None or hour_ms < end_ms) and (start_ms is None or hour_ms + HOUR_MS > start_ms):
            yield path
