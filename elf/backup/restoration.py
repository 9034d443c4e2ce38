"""An agent's folder made again of a backup, and the texts that are in it."""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import re
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Iterator

import msgspec

from elf.agents.errors import BadRequestError, ConfigError
from elf.agents.host.private_folder import close_folder
from elf.agents.store.backup import restore_state
from elf.backup.manifest import FOLDER, FORMAT, MANIFEST, PART_BYTES_MAX, STATE, Manifest

#: What a restore that was interrupted leaves behind.
_UNFINISHED, _COPY = f"{STATE}.restoring", f"{STATE}.copy"
_LEFTOVERS = {_UNFINISHED, f"{_UNFINISHED}-journal", _COPY, "lock"}
_CHUNK_BYTES = 1 << 20
#: Of settings, a job and a secret: nothing that leads out of a folder.
_NAME = re.compile(r"(?:[A-Za-z0-9_-][\w.-]*/){0,2}[A-Za-z0-9_-][\w.-]*")


def restore(file: pathlib.Path, data: pathlib.Path, now_ms: int) -> Manifest:
    """Put the state of a backup into an empty folder: whole, or not at all.

    Args:
        file: the backup.
        data: the data folder of the agent to be; made if it is not there, and then its owner's alone.
        now_ms: the time of day, ms; windows up to now will count a gap.

    Raises:
        BadRequestError: the file is no backup, or cannot be read.
        ConfigError: the folder is not empty, or cannot be written; the backup is damaged, or a later release's.
    """
    close_folder(data)
    # An agent that starts meanwhile finds it empty, or with all that is put there.
    if left := sorted({each.name for each in data.iterdir()} - _LEFTOVERS):
        raise ConfigError(f"{data} is not empty ({left[0]}): restore into a new folder, or move that away first")
    copy, state = data / _COPY, data / _UNFINISHED
    owner = data.stat()
    try:
        with _opened(file) as archive:
            manifest = _manifest(archive, file)
            if (
                entry := next((each for each in archive if each.isreg() and each.name == f"{FOLDER}/{STATE}"), None)
            ) is None:
                raise tarfile.ReadError("it has no state")
            _write(archive, entry, copy)
        restore_state(copy, state, now_ms)
        os.chmod(state, 0o600)
        if os.geteuid() == 0:
            os.chown(state, owner.st_uid, owner.st_gid)
        os.link(state, data / STATE)
    except FileExistsError:
        raise ConfigError(f"an agent has started in {data} meanwhile; stop it, and restore into a new folder") from None
    except sqlite3.Error as error:
        raise ConfigError(f"the state of {file} cannot be written into {data}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{error.filename or data} cannot be written: {error.strerror}") from None
    finally:
        for each in (data / name for name in _LEFTOVERS - {"lock"}):
            each.unlink(missing_ok=True)
    return manifest


def write_texts(file: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Write the small parts of a backup, settings, jobs and secrets, into a new folder; return their paths.

    Raises:
        BadRequestError: it is no backup, or cannot be read; the folder is there already, or cannot be made.
    """
    written = []
    try:
        with _opened(file) as archive:
            _manifest(archive, file)
            folder.mkdir(mode=0o700)
            for entry in archive:
                name = entry.name.removeprefix(f"{FOLDER}/")
                if name == STATE:
                    continue
                if not entry.isreg() or not _NAME.fullmatch(name) or entry.size > PART_BYTES_MAX:
                    raise BadRequestError(f"{file} is no backup that elf has made: it has a part {entry.name!r}")
                to = folder / name
                to.parent.mkdir(mode=0o700, exist_ok=True, parents=True)
                _write(archive, entry, to)
                written.append(str(to))
    except FileExistsError:
        raise BadRequestError(f"{folder} is there already; name a new folder for the texts") from None
    except OSError as error:
        raise BadRequestError(f"{error.filename or folder} cannot be made: {error.strerror}") from None
    return written


@contextlib.contextmanager
def _opened(file: pathlib.Path) -> Iterator[tarfile.TarFile]:
    """Open a backup to be read; what is wrong with its bytes is told in a sentence."""
    try:
        with file.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:gz") as archive:
            yield archive
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error):
        raise BadRequestError(f"{file} is no backup that elf has made, or is cut off or damaged") from None


def _manifest(archive: tarfile.TarFile, file: pathlib.Path) -> Manifest:
    entry = archive.next()
    content = archive.extractfile(entry) if entry is not None and entry.name == f"{FOLDER}/{MANIFEST}" else None
    try:
        manifest = msgspec.json.decode(b"" if content is None else content.read(PART_BYTES_MAX), type=Manifest)
    except msgspec.DecodeError:
        raise BadRequestError(f"{file} is no backup that elf has made") from None
    if manifest.format > FORMAT:
        raise BadRequestError(f"{file} was made by elf {manifest.release}: restore it with that release or a later one")
    return manifest


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, to: pathlib.Path) -> None:
    """Write a part to a file, for its owner alone."""
    content = archive.extractfile(entry)
    if content is None:
        raise tarfile.ReadError(f"{entry.name} is no file")
    with content, os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        shutil.copyfileobj(content, out, _CHUNK_BYTES)
