"""A job's results on disk: one Parquet file a window, replaced whole, and the pipeline's records beside them.

    OUT/<creator>/<name>/window=1767225600000/rows.parquet        a window, by its start in ms since 1970
                        /rows.parquet                             the total of a job without windows
    OUT/.elf/<creator>/<name>/definition                          what the table holds
                             /progress                            files taken in, windows that wait
                             /lock                                held by whoever works on the table
                             /staging-*/                          what Spark has computed, not yet in its place

Records are JSON behind the SHA-256 of it, and are replaced whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from elf.agents.archive.removed import Span
from elf.agents.errors import JobSpecError
from elf.agents.host import disk
from elf.agents.language.query import parse_query
from elf.offline.pipeline.growth import Taken
from elf.offline.session import OfflineError

_STAGING = "staging-"
_ROWS = "rows.parquet"


class TableText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a table holds: the job, its declared columns, and for a total the event time it counts from."""

    source: str
    query: str
    columns: dict[str, str]
    since_ms: int | None = None


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a table is.

    Attributes:
        taken: the files whose events are in the table, but for windows that wait; by path below an archive's folder.
        waiting: starts of windows that have to be computed, see `due`.
        columns: names and SQL types in which the query reads the archive, once they are known.
    """

    taken: dict[str, Taken] = {}
    waiting: tuple[Span, ...] = ()
    columns: dict[str, str] | None = None


Record = TypeVar("Record", TableText, Progress)


class Table:
    """The results of one job.

    Args:
        out: the folder of all jobs' results.
        creator: the job's creator.
        name: the job's name.
    """

    def __init__(self, out: Path, creator: str, name: str) -> None:
        self.folder = out / creator / name
        self._inner = out / ".elf" / creator / name

    @contextlib.contextmanager
    def locked(self, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Be the only one at work on the table; `waits` is called once if somebody else is, until he is done.

        Raises:
            OfflineError: the folder cannot be written.
        """
        try:
            disk.make_folder(self._inner)
            handle = os.open(self._inner / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise OfflineError(f"{self._inner} cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waits()
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def open(self, text: TableText) -> None:
        """Check that the table holds what this definition says, or begin it; with the lock.

        Raises:
            OfflineError: it holds the results of another definition.
        """
        path = self._inner / "definition"
        known = _read(path, TableText)
        if known is None:
            disk.replace_durably(path, _sealed(text))
            return
        differs = _difference(known, text)
        if differs:
            raise OfflineError(
                f"{self.folder} holds windows of another definition of the job ({differs}), and would mix both; "
                "give another --out, or the job another name"
            )

    def progress(self) -> Progress:
        """Read how far the table is.

        Raises:
            OfflineError: the record is damaged.
        """
        return _read(self._inner / "progress", Progress) or Progress()

    def note(self, progress: Progress) -> None:
        """Write durably how far the table is; with the lock."""
        disk.replace_durably(self._inner / "progress", _sealed(progress))

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """Have an empty folder for the length of a block; with the lock. What others left there by a crash goes."""
        for left in self._inner.glob(f"{_STAGING}*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self._inner))
        # A cluster's workers may run as somebody else of the same group.
        folder.chmod(0o775)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def replace(self, starts: Iterable[int | None], staged: Mapping[int | None, Path]) -> None:
        """Put computed windows in their places, each at once; those without a staged file have no rows.

        Args:
            starts: of all windows that were computed; None for the total.
            staged: a Parquet file for each window with rows.
        """
        changed: list[Path] = []
        for start in starts:
            folder = self.folder if start is None else self.folder / window_folder(start)
            if (file := staged.get(start)) is not None:
                disk.make_folder(folder)
                with file.open("rb") as written:
                    os.fsync(written.fileno())
                file.replace(folder / _ROWS)
                changed.append(folder)
            elif (folder / _ROWS).exists():
                (folder / _ROWS).unlink()
                disk.remove_empty(folder, self.folder)
                changed.append(folder.parent)
        disk.sync_folders(changed)


def window_folder(start_ms: int) -> str:
    """Name the partition of a window: a whole number, the only thing that all readers take for the same."""
    return f"window={start_ms}"


def _sealed(record: TableText | Progress) -> bytes:
    data = msgspec.json.encode(record)
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _read(path: Path, kind: type[Record]) -> Record | None:
    try:
        seal, _, data = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OfflineError(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest().encode() != seal:
        raise OfflineError(
            f"{path} is damaged; remove it, and all windows that the archives still have are computed anew"
        )
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise OfflineError(f"{path} was written by another version of elf ({error}); give another --out") from None


def _difference(known: TableText, text: TableText) -> str:
    """Say what two definitions differ in; "" where they mean the same."""
    if known.source != text.source:
        return f"source {known.source!r}, not {text.source!r}"
    try:
        if parse_query(known.query).select != parse_query(text.query).select:
            return "its query differs"
    except JobSpecError:
        return "its query is no longer in the job language"
    odd = [name for name in known.columns.keys() & text.columns.keys() if known.columns[name] != text.columns[name]]
    if odd:
        name = min(odd)
        return f"column {name!r} is {known.columns[name]}, not {text.columns[name]}"
    if known.since_ms != text.since_ms:
        return "its total counts from another --since"
    return ""
