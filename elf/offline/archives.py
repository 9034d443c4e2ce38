"""Where archives lie, as people and Spark write it: folders of this machine, or URLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from elf.agents.archive.layout import ArchivedFile
from elf.agents.archive.place import Place
from elf.agents.archive.remote import open_url
from elf.agents.settings.urls import is_url
from elf.offline.session import OfflineError

#: What Hadoop calls stores that go by another name elsewhere.
_HADOOP = {"s3://": "s3a://", "gcs://": "gs://"}


def open_archives(words: Iterable[str | Path]) -> list[Place]:
    """Return the folders that words of the command line name.

    Raises:
        OfflineError: there is no such folder, or it is none of archives.
        ArchiveError: a URL is wrong, or there is no package here for its scheme.
    """
    return [open_url(str(word)) if is_url(str(word)) else _folder(Path(word)) for word in words]


def _folder(path: Path) -> Path:
    """Check that a folder may be an archive: one that is left out by mistake would leave events out."""
    if not path.is_dir():
        what = "is no folder" if path.exists() else "does not exist"
        raise OfflineError(f"{path} {what}; name each agent's archive, DATA/archive, with --archive")
    if (path / "archive").is_dir() and not any(path.glob("source=*")):
        raise OfflineError(f"{path} is no archive, but has one; use --archive {path / 'archive'}")
    return path


def distinct(places: Iterable[Place]) -> list[Place]:
    """Return each folder once, however it was written, in order."""
    return sorted({place.resolve() for place in places}, key=str)


def refuse_copies(files: Sequence[ArchivedFile]) -> None:
    """Refuse a file that lies in two archives, a folder and its copy, say: its events would count twice.

    Raises:
        OfflineError: there is one.
    """
    seen: dict[str, Place] = {}
    for file in files:
        other = seen.setdefault(file.entry.path, file.path)
        if other != file.path:
            raise OfflineError(f"{file.path} is in another archive, too: {other}; name only one of them with --archive")


def spark_path(place: Place) -> str:
    """Return what Spark calls a file."""
    text = str(place)
    for known, hadoop in _HADOOP.items():
        if text.startswith(known):
            return hadoop + text.removeprefix(known)
    return text


def name_of(place: Place) -> str:
    """Return what `name_in_url` makes of the URL by which Spark says that an event is of this file."""
    return spark_path(place).removeprefix("file://")


def name_in_url(url: str) -> str:
    """Return the file that a URL of Spark's (column `FILE`) is about; its path is quoted, as in all such URLs."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    return path if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}{path}"
