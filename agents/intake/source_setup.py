"""From a source's settings to the parts that run it, and what its columns are."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import logging
import os
import pathlib
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence

from elf.agents.archive.archive import Archive
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.mirror import Mirror
from elf.agents.archive.remote import StoreError, open_url
from elf.agents.errors import ConfigError
from elf.agents.host.clock import Clock
from elf.agents.host.disk_damage import Damages
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import PumpSettings
from elf.agents.intake.push import PushLog
from elf.agents.language.types import SqlType
from elf.agents.settings.config import AgentConfig, SourceConfig
from elf.agents.sources.carried import Carrier, lines_of
from elf.agents.sources.families import live_paths, matched_files
from elf.agents.sources.format import Format, make_format
from elf.agents.sources.inference import infer
from elf.agents.sources.machine_time import wall_clock_ms
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.readers import look_at, open_reader
from elf.agents.sources.rejected import RejectedLines
from elf.agents.sources.tail import Tail
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.wire.positions import Json

log = logging.getLogger(__name__)
#: Newest bytes of a source's newest file from which the types of undeclared columns are inferred.
SAMPLE_BYTES = 1 << 20
#: A shorter key might be guessed, and with it all addresses.
KEY_BYTES_MIN = 16


def make_pump(
    name: str,
    source: SourceConfig,
    config: AgentConfig,
    data: pathlib.Path,
    agent_id: str,
    checkpoints: Checkpoints,
    clock: Clock,
) -> tuple[Pump, PushLog]:
    """Build the pump of a source and the spool behind its `/v1/ingest` route.

    Raises:
        ConfigError: the format or a column type is not one of ours.
    """
    format = source_format(name, source, clock)
    _, unmatched, unreadable = live_paths([source.path] if source.path else [])
    for path in unmatched:
        # A web server may begin its log only now; a path that is wrong would show with the first job only.
        log.warning(
            "source %s: there is no file %s yet; it is looked for as long as a job reads the source", name, path
        )
    for path, reason in unreadable.items():
        log.warning("source %s: %s can be no log: %s", name, path, reason)
    push = PushLog(data / "push" / f"{name}.log")
    patterns = [pattern for pattern in (source.path, glob.escape(str(push.path))) if pattern]
    folder = archive_folder(config)
    archive = None if folder is None else Archive(folder, name, agent_id, rows_max=config.archive.rows_max)
    settings = PumpSettings(
        source=name,
        columns=declared_columns(name, source, format),
        chunk_bytes=config.agent.chunk_bytes,
        checkpoint_ms=config.agent.checkpoint_ms,
        from_end=source.start == "end",
    )
    limits = {os.path.abspath(push.path): push.readable}
    pump = Pump(
        settings,
        Tail(patterns, start=source.start, now_ms=clock.up_ms, limits=limits, carrier=format.carrier),
        format,
        checkpoints,
        archive,
        RejectedLines(data / "rejected" / f"{name}.log"),
        clock,
        make_redactor(name, source, format),
    )
    return pump, push


def make_redactor(name: str, source: SourceConfig, format: Format) -> Redactor:
    """Return what redacts the lines of a source's format; raises ConfigError when the key for hashes cannot be used."""
    key = read_key(name, source) if source.privacy.key_file else None
    return Redactor(source.privacy, key, derived=format.derives_all, addresses=format.addresses)


def read_key(name: str, source: SourceConfig) -> bytes:
    """Read the key that a source's addresses are hashed under; raises ConfigError when it cannot be used."""
    setting = f"sources.{name}.privacy.key_file = {source.privacy.key_file!r}"
    try:
        text = pathlib.Path(source.privacy.key_file).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{setting} cannot be read: {error.strerror or error}") from None
    if len(text) < KEY_BYTES_MIN:
        raise ConfigError(f"{setting} has less than {KEY_BYTES_MIN} bytes; `elf keygen --out FILE` makes a key")
    return hashlib.blake2b(text, digest_size=16, person=b"elf addresses").digest()


def archive_folder(config: AgentConfig) -> pathlib.Path | None:
    """Return where the agent's archive lies; None without one."""
    if not config.archive.enabled:
        return None
    return pathlib.Path(config.archive.path) if config.archive.path else pathlib.Path(config.agent.data) / "archive"


def open_keeper(config: AgentConfig, agent: str, now_ms: Callable[[], int], damages: Damages) -> Keeper | None:
    """Make what looks after the archive of an agent's sources; None if it has none."""
    archive, folder = config.archive, archive_folder(config)
    if folder is None:
        return None
    return Keeper(folder, agent, config.sources, archive.retain_ms, archive.bytes_max or None, now_ms, damages)


def open_mirror(config: AgentConfig, agent_id: str) -> Mirror | None:
    """Return who copies the agent's archive to a URL; None if nobody shall.

    Raises:
        ConfigError: the URL cannot be used here: a package is missing, say.
    """
    folder = archive_folder(config)
    if folder is None or not config.archive.copy_to:
        return None
    try:
        return Mirror(folder, agent_id, open_url(config.archive.copy_to))
    except StoreError as error:
        raise ConfigError(f"archive.copy_to = {error}") from None


def source_format(name: str, source: SourceConfig, now_ms: Callable[[], int] = wall_clock_ms) -> Format:
    """Return a source's format; raises ConfigError when it is none of ours."""
    try:
        return make_format(source.format, time=source.time, zone=source_zone(source), now_ms=now_ms)
    except ConfigError as error:
        raise ConfigError(f"sources.{name}.format: {error}") from None


def source_zone(source: SourceConfig) -> zoneinfo.ZoneInfo | None:
    """Return the zone of a source's times that do not say theirs; None if nobody said. Raises ConfigError."""
    if not source.time_zone:
        return None
    # Not loaded where times say their zones.
    from elf.agents.sources.times.zones import named_zone

    return named_zone(source.time_zone)


def declared_columns(name: str, source: SourceConfig, format: Format) -> Mapping[str, SqlType]:
    """Return the column types known without looking at any line."""
    if format.columns is not None:
        return format.columns
    try:
        return {column: SqlType.parse(kind) for column, kind in source.columns.items()}
    except ValueError as error:
        raise ConfigError(f"sources.{name}.columns: {error}") from None


def describe_columns(name: str, source: SourceConfig, push_log: pathlib.Path, names: Sequence[str]) -> Json:
    """Tell the types of a source's columns, as far as they are declared or its lines show them.

    Returns:
        `columns`: name -> type of the columns asked for; `fields`: every name the source is seen to have.
    """
    format = source_format(name, source)
    declared = declared_columns(name, source, format)
    if format.columns is not None:
        return {"columns": {column: kind.ddl for column, kind in declared.items()}, "fields": list(declared)}
    asked = [column for column in names if column.lower() not in {known.lower() for known in declared}]
    inferred = infer(format, _sample([source.path, glob.escape(str(push_log))], format.carrier), asked)
    known = {**inferred.columns, **declared}
    return {
        "columns": {column: kind.ddl for column, kind in known.items()},
        "fields": sorted({*inferred.fields, *declared}),
    }


def _sample(patterns: Iterable[str], carrier: Carrier | None = None) -> bytes:
    """Return the last whole lines of the newest file that has any, behind those of its front that they need."""
    found = {path for pattern in patterns if pattern for path in matched_files(pattern)}
    files = []
    # Any of them may be rotated away meanwhile, or be out of reach; the others tell the columns as well.
    for path in found:
        with contextlib.suppress(OSError):
            files.append(look_at(path))
    for file in sorted(files, key=lambda file: file.mtime_ns, reverse=True):
        with contextlib.suppress(OSError):
            lines = _last_lines(file.path, carrier)
            if lines:
                return lines
    return b""


def _last_lines(path: str, carrier: Carrier | None = None) -> bytes:
    """Return the last whole lines of a file, or the first of one that is not plain.

    What they need of lines before them is looked for at the file's front only: a sample need not be all.

    Raises:
        OSError: it cannot be read.
    """
    with contextlib.closing(open_reader(path)) as reader:
        begin = max(0, os.fstat(reader.fd).st_size - SAMPLE_BYTES) if reader.is_plain else 0
        text = reader.read_at(begin, SAMPLE_BYTES)
        front = reader.read_at(0, SAMPLE_BYTES) if begin and carrier is not None else b""
    if begin:
        text = text[text.find(b"\n") + 1 :]
    carried = carrier.behind((), front[: front.rfind(b"\n") + 1], 0) if carrier is not None else ()
    return b"".join(lines_of(carried)) + text[: text.rfind(b"\n") + 1]
