"""A backup made of an agent that runs, or of one that is stopped."""

from __future__ import annotations

import io
import os
import pathlib
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator

import msgspec

from elf import __version__
from elf.agents.errors import BadRequestError, ConfigError
from elf.agents.jobs.definition_text import text_of
from elf.agents.settings.config import AgentConfig
from elf.agents.store.backup import copy_state, masters_in, records_in
from elf.agents.wire.records import JOB, JobRecord
from elf.backup.manifest import FOLDER, FORMAT, JOBS, MANIFEST, SECRETS, SETTINGS, STATE, Manifest

_MODE = 0o600


def pack(settings: pathlib.Path, config: AgentConfig, out: pathlib.Path, now_ms: int, *, secrets: bool) -> Manifest:
    """Write a backup: whole, or not at all; for its owner alone.

    Args:
        settings: the agent's settings, as they are read.
        config: what is in them.
        out: the file to write, which is not there yet.
        now_ms: the time of day, ms.
        secrets: whether the files with secrets that the settings name are packed, too.

    Raises:
        BadRequestError: `out` is there already, or cannot be written.
        ConfigError: the agent's state or settings cannot be read.
    """
    if os.path.lexists(out):
        raise BadRequestError(f"{out} exists already and is not overwritten")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
            copy, packed = pathlib.Path(folder, STATE), pathlib.Path(folder, "packed")
            agent_id = copy_state(pathlib.Path(config.agent.data) / STATE, copy)
            jobs = _jobs(copy)
            kept = sorted({JobRecord.decode(body).definition.first.key for body in masters_in(copy)})
            manifest = Manifest(
                format=FORMAT, release=__version__, agent=agent_id, name=config.agent.name, made_ms=now_ms, jobs=kept
            )
            with packed.open("xb") as raw:
                os.fchmod(raw.fileno(), _MODE)
                with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as archive:
                    _add(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)), now_ms)
                    _add(archive, SETTINGS, settings.read_bytes(), now_ms)
                    for name, text in jobs.items():
                        _add(archive, f"{JOBS}/{name}.toml", text.encode(), now_ms)
                    for name, file in _secret_files(config) if secrets else ():
                        _add(archive, f"{SECRETS}/{name}", file.read_bytes(), now_ms)
                    archive.add(copy, f"{FOLDER}/{STATE}", filter=_of_nobody)
                raw.flush()
                os.fsync(raw.fileno())
            os.link(packed, out)
    except FileExistsError:
        raise BadRequestError(f"{out} exists already and is not overwritten") from None
    except sqlite3.Error as error:
        raise ConfigError(f"the state in {config.agent.data} cannot be copied: {error}") from None
    except OSError as error:
        raise BadRequestError(f"{error.filename or out} cannot be read or written: {error.strerror}") from None
    return manifest


def _jobs(copy: pathlib.Path) -> dict[str, str]:
    """Return the files of all jobs that the agent knows and that are not over: `creator/name` -> text."""
    found = {}
    for record in records_in(copy):
        if record.key.startswith(JOB):
            job = JobRecord.decode(record.body)
            if not job.stopped and job.definition.is_first:
                found[job.definition.key] = text_of(job.definition)
    return found


def _secret_files(config: AgentConfig) -> Iterator[tuple[str, pathlib.Path]]:
    """Yield the files with secrets that settings name, by the names of the settings; not what a service hands over."""
    named = {
        "secret_file": config.overlay.secret_file,
        "tls_cert_file": config.overlay.tls_cert_file,
        "tls_key_file": config.overlay.tls_key_file,
        "tls_ca_file": config.overlay.tls_ca_file,
        "token_file": config.api.token_file,
        **{f"{name}.key_file": source.privacy.key_file for name, source in config.sources.items()},
    }
    for name, file in named.items():
        if file and not file.startswith("${"):
            yield name, pathlib.Path(file)


def _add(archive: tarfile.TarFile, name: str, data: bytes, now_ms: int) -> None:
    entry = tarfile.TarInfo(f"{FOLDER}/{name}")
    entry.size = len(data)
    entry.mode = _MODE
    entry.mtime = now_ms // 1000
    archive.addfile(entry, io.BytesIO(data))


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who made the copy: that means nothing on another machine."""
    entry.uid = 0
    entry.gid = 0
    entry.uname = ""
    entry.gname = ""
    entry.mode = _MODE
    return entry
