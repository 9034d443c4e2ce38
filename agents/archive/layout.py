"""How the archive lies on disk, or at a URL: safe names, what is known of each file, and finding and reading the files.

    FOLDER/source=NAME/date=2026-01-01/hour=13/<agent>-<sequence>-<part>.parquet     visible events
                                              /.<agent>-<sequence>-<part>.json       its manifest
                                              /_pending-<agent>-<sequence>-<part>.*  not committed yet
                                              /_staged-<agent>-<part>.parquet        no sequence yet
              /_orphan-*, _damaged-*                 set aside at a start (`elf.agents.archive.archive.Recovery`)
                      /_merged/date=.../hour=.../    merged files that wait for their turn
                      (`elf.agents.archive.merge`) /.removed-<agent>.json         what is gone
                      (`elf.agents.archive.removed`)

Spark, DuckDB and Polars all read the visible files of such a tree; names that begin with `_` or `.` are hidden by the
Hive convention. Who writes, and when, is `elf.agents.archive`. Readers here prune by folder first, by manifest second.

A file merged of others (`<agent>-<sequence>-m<number>`) names these in its manifest. Readers here take it instead of
them as soon as it is under `_merged`, and have the time of `merging.GRACE_MS` to read the files of one listing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from elf.agents.archive.place import Place
from elf.agents.errors import DamagedError, ElfError
from elf.agents.sources.raw_texts import is_raw

HOUR_MS = 3_600_000
#: What Hive, and so every reader of such trees, takes for a null partition: here, files of events from many hours.
MIXED = "__HIVE_DEFAULT_PARTITION__"

#: Where merged files lie, in a tree of hours of its own, until they take the place of what they were merged of.
MERGED = "_merged"
#: How often a listing is made anew because files went away meanwhile.
LISTINGS_MAX = 20

_Place = TypeVar("_Place", bound=Place)
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOUR_FOLDER = re.compile(r"date=(\d{4})-(\d\d)-(\d\d)/hour=(\d\d)")
_MERGED_NAME = re.compile(r".*-\d{10}-m\d+\.parquet")


class ArchiveError(ElfError):
    """An archive cannot be read or written."""


class DamagedFileError(ArchiveError, DamagedError):
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
    #: Name and SQL type of each column, `ts` first; last, maybe, texts of values that do not fit
    #: (`elf.agents.sources.raw_texts`).
    columns: dict[str, str]
    #: Names of the files in the same folder that it replaces, and when it was merged: those that it was merged of, and,
    #: where one of these was merged before, those that that one replaced.
    replaces: tuple[str, ...] = ()
    merged_ms: int = 0

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Name and type of each column that events have, in order."""
        return tuple((name, kind) for name, kind in self.columns.items() if not is_raw(name))


class ArchivedFile(msgspec.Struct, frozen=True):
    """A visible file and its manifest."""

    path: Place
    entry: FileEntry


def safe_name(name: str) -> str:
    """Return `name` itself where it is safe as a part of any file system's or Hadoop's path, else a readable hash."""
    if _SAFE.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    return f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def source_folder(folder: _Place, source: str) -> _Place:
    """Return where a source's files lie."""
    return folder / f"source={safe_name(source)}"


def hour_folder(hour_ms: int | None) -> str:
    """Return the partition of the hour that begins at `hour_ms`, or of mixed hours for None."""
    if hour_ms is None:
        return f"date={MIXED}/hour={MIXED}"
    moment = datetime.fromtimestamp(hour_ms / 1_000, UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"


def manifest_path(data: _Place) -> _Place:
    """Return the manifest's path beside a visible file."""
    return data.with_name(f".{data.stem}.json")


def hour_of(folder: str) -> int | None:
    """Return when the hour of a partition begins; None for the one of mixed hours.

    Raises:
        ValueError: the path is no partition of the archive.
    """
    match = _HOUR_FOLDER.fullmatch(folder)
    if match is None:
        if folder == hour_folder(None):
            return None
        raise ValueError(f"{folder!r} is no hour of the archive")
    year, month, day, hour = map(int, match.groups())
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000


def is_merged(name: str) -> bool:
    """Tell a merged file by its name."""
    return _MERGED_NAME.fullmatch(name) is not None


def list_files(
    folder: Place, source: str, start_ms: int | None = None, end_ms: int | None = None
) -> list[ArchivedFile]:
    """Return the visible files that may hold events of [start_ms, end_ms), in order of path.

    An event is in one of them exactly, whatever is merged meanwhile: a listing is not one moment, so it counts only if
    nothing has gone, and nothing merged has come, until it was repeated.

    Raises:
        ArchiveError: a manifest is missing or unreadable, or files go faster than they can be listed.
    """
    root = source_folder(folder, source)
    before = _names(root, start_ms, end_ms)
    for _ in range(LISTINGS_MAX):
        files = _resolved(before)
        after = _names(root, start_ms, end_ms)
        steady = before.keys() <= after.keys() and not any(is_merged(name) for _, name in after.keys() - before.keys())
        if files is not None and steady:
            return [
                file
                for file in sorted(files, key=lambda file: file.path)
                if (end_ms is None or file.entry.first_ms < end_ms)
                and (start_ms is None or file.entry.last_ms >= start_ms)
            ]
        before = after
    raise ArchiveError(f"{root}: files are removed faster than they can be listed; try again")


#: Hour folder and name of a visible file, and where it lies.
_Names = Mapping[tuple[str, str], Place]


def _names(root: Place, start_ms: int | None, end_ms: int | None) -> _Names:
    """List the data files of hours that may hold events of the range, merged ones too.

    First those that wait under `_merged`: they leave it only after they are in their hour.
    """
    found: dict[tuple[str, str], Place] = {}
    for tree in (root / MERGED, root):
        for hour in _hours(tree, start_ms, end_ms):
            for path in hour.glob("*.parquet"):
                if not path.name.startswith(("_", ".")):
                    found[hour.relative_to(tree).as_posix(), path.name] = path
    return found


def _resolved(names: _Names) -> list[ArchivedFile] | None:
    """Read manifests and leave out what merged files replace; None if a file has gone since it was listed."""
    files: list[ArchivedFile] = []
    replaced: set[tuple[str, str]] = set()
    # A merged file may be merged again, so the newest come first.
    for name in sorted(names, key=lambda name: (is_merged(name[1]), name[1]), reverse=True):
        if name in replaced:
            continue
        path = names[name]
        try:
            entry = read_manifest(path)
        except ArchiveError:
            if path.exists():
                raise
            return None
        replaced.update((name[0], each) for each in entry.replaces)
        files.append(ArchivedFile(path, entry))
    return files


def read_manifest(data: Place) -> FileEntry:
    """Read the manifest of a visible file.

    Raises:
        ArchiveError: it is missing or unreadable; a DamagedFileError unless the disk or store refuses to tell.
    """
    try:
        return msgspec.json.decode(manifest_path(data).read_bytes(), type=FileEntry)
    except (OSError, msgspec.DecodeError) as error:
        kind = DamagedFileError if isinstance(error, FileNotFoundError | msgspec.DecodeError) else ArchiveError
        raise kind(f"{data}: its manifest {manifest_path(data).name} cannot be read: {error}") from None


def check_file(file: ArchivedFile) -> bytes:
    """Compare a file's bytes with its manifest and return them, O(bytes).

    Raises:
        DamagedFileError: they differ.
        OSError: the file cannot be read.
    """
    data = file.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != file.entry.sha256:
        raise DamagedFileError(
            f"{file.path}: its bytes are not those that agent {file.entry.agent} wrote "
            f"(manifest: {file.entry.bytes} bytes, sha256 {file.entry.sha256[:12]}...)"
        )
    return data


def _hours(root: _Place, start_ms: int | None, end_ms: int | None) -> Iterator[_Place]:
    """Yield the hour folders that may hold events of the range, and always the mixed one."""
    for path in sorted(root.glob("date=*/hour=*")):
        try:
            hour_ms = hour_of(path.relative_to(root).as_posix())
        except ValueError:
            continue
        if hour_ms is None or (
            (end_ms is None or hour_ms < end_ms) and (start_ms is None or hour_ms + HOUR_MS > start_ms)
        ):
            yield path
