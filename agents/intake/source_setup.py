"""From a source's settings to the parts that run it, and what its columns are."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import pathlib
from collections.abc import Callable, Sequence

from elf.agents.archive.archive import Archive
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.mirror import Mirror
from elf.agents.archive.remote import StoreError, open_url
from elf.agents.errors import ConfigError
from elf.agents.host.clock import Clock
from elf.agents.host.disk_damage import Damages
from elf.agents.intake.decoder import Decoder, Recognised, make_decoder, read_key
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import PumpSettings, Reading
from elf.agents.intake.push import PushLog
from elf.agents.intake.recognition import Recognition, recognised
from elf.agents.settings.config import AUTO, AgentConfig, SourceConfig
from elf.agents.sources.files.families import live_paths
from elf.agents.sources.files.identity import holds
from elf.agents.sources.files.readers import look_at
from elf.agents.sources.files.rotation import Position, decode
from elf.agents.sources.files.samples import first_lines, newest_lines
from elf.agents.sources.files.tail import Tail
from elf.agents.sources.inference import infer
from elf.agents.sources.rejected import RejectedLines
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.wire.positions import Json

log = logging.getLogger(__name__)
#: Newest bytes of a source's newest file from which the types of undeclared columns are inferred.
SAMPLE_BYTES = 1 << 20
#: As many of either end of that file tell its format.
RECOGNITION_BYTES = 256 << 10


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
    _, unmatched, unreadable = live_paths([source.path] if source.path else [])
    for path in unmatched:
        # A web server may begin its log only now; a path that is wrong would show with the first job only.
        log.warning(
            "source %s: there is no file %s yet; it is looked for as long as a job reads the source", name, path
        )
    for path, reason in unreadable.items():
        log.warning("source %s: %s can be no log: %s", name, path, reason)
    # Before any file is opened: it may raise.
    spool = data / "push" / f"{name}.log"
    reading = reading_of(name, source, config, spool, clock)
    push = PushLog(spool, clock, lingers=reading.lingers)
    state = checkpoints.source(name)
    try:
        look_after(push, () if state is None else decode(state.positions))
    except ConfigError:
        push.close()
        raise
    folder = archive_folder(config)
    archive = None if folder is None else Archive(folder, name, agent_id, rows_max=reading.archive_rows_max)
    decoder = reading.recognition or reading.decoder
    assert decoder is not None
    pump = Pump(
        reading.settings,
        Tail(reading.patterns, start=source.start, now_ms=clock.up_ms, spools={os.path.abspath(push.path): push}),
        decoder,
        checkpoints,
        archive,
        RejectedLines(data / "rejected" / f"{name}.log"),
        clock,
    )
    return pump, push


def reading_of(
    name: str,
    source: SourceConfig,
    config: AgentConfig,
    spool: pathlib.Path,
    clock: Clock,
    known: Recognised | None = None,
) -> Reading:
    """Return how a source is read.

    Args:
        name: the source's.
        source: its settings.
        config: all settings.
        spool: where what is pushed to it lies.
        clock: the agent's.
        known: what its lines were found to be, if they are to be taken for that still.

    Raises:
        ConfigError: the format, a column type or a key is not one that can be used.
    """
    patterns = [pattern for pattern in (source.path, glob.escape(str(spool))) if pattern]
    decoder: Decoder | None = None
    recognition: Recognition | None = None
    if source.reads_as == AUTO:
        if source.privacy.key_file:
            read_key(name, source)  # what is wrong with it is said at the start

        def make(found: Recognised) -> Decoder:
            return make_decoder(name, source, clock, found)

        recognition = Recognition(name, lambda: _samples(patterns), make, source.time or None, clock.up_ms)
        decoder = recognition.recall(known)
    else:
        decoder = make_decoder(name, source, clock)
    settings = PumpSettings(
        source=name,
        chunk_bytes=config.agent.chunk_bytes,
        checkpoint_ms=config.agent.checkpoint_ms,
        from_end=source.start == "end",
        ahead_ms_max=source.ahead_ms_max,
    )
    return Reading(
        settings=settings,
        patterns=patterns,
        decoder=decoder,
        recognition=recognition,
        archive_rows_max=config.archive.rows_max,
        lingers=not source.privacy.withholds,
    )


def look_after(push: PushLog, read: Sequence[Position]) -> None:
    """Set a spool aside at a start if it does not hold what was read of it; a copy that does is as good as ours.

    Args:
        push: the spool, just opened.
        read: how far it was read, as of the last checkpoint.

    Raises:
        ConfigError: its folder cannot be written.
    """
    seen = look_at(os.path.abspath(push.path), is_own=True)
    places = [place for place in read if place.path == seen.path and place.offset and not place.done]
    is_new = not push.is_replaced and all(place.inode != seen.inode for place in places)
    try:
        if not is_new and places and not any(holds(seen, place) for place in places):
            push.set_aside(seen.inode, "was shortened or replaced by somebody else while the agent was down")
        elif push.is_replaced:
            push.adopt()
    except OSError as error:
        raise ConfigError(f"{push.path}: the spool of pushed events cannot be begun anew: {error.strerror}") from None


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


def describe_columns(
    name: str, source: SourceConfig, push_log: pathlib.Path, names: Sequence[str], decoder: Decoder | None = None
) -> Json:
    """Tell the types of a source's columns, as far as they are declared or its lines show them.

    Args:
        name: the source's.
        source: its settings.
        push_log: where lines are that were pushed.
        names: the columns asked for.
        decoder: what reads its lines; None if that is not known yet.

    Returns:
        `columns`: name -> type of the columns asked for; `fields`: every name the source is seen to have; `closed`: it
        has no others; `open`: why nothing is known, if it has lines that tell no format.
    """
    patterns = [source.path, glob.escape(str(push_log))]
    if decoder is None:
        samples, found = [b""], None
        if source.reads_as == AUTO:
            with contextlib.suppress(OSError):
                samples = _samples(patterns)
            found = recognised(samples, source.time or None)
        if isinstance(found, str):
            why = {"open": f"has lines of an open format ({found})"} if any(samples) else {}
            return {"columns": {}, "fields": [], **why}
        decoder = make_decoder(name, source, recognised=found)
    declared = decoder.columns
    if decoder.format.columns is not None:
        types = {column: kind.ddl for column, kind in declared.items()}
        return {"columns": types, "fields": list(declared), "closed": True}
    asked = [column for column in names if column.lower() not in {known.lower() for known in declared}]
    lines = b""
    with contextlib.suppress(OSError):
        lines = newest_lines(patterns, SAMPLE_BYTES, decoder.format.carrier)
    inferred = infer(decoder.format, lines, asked)
    known = {**inferred.columns, **declared}
    return {
        "columns": {column: kind.ddl for column, kind in known.items()},
        "fields": sorted({*inferred.fields, *declared}),
    }


def _samples(patterns: Sequence[str]) -> list[bytes]:
    """Return lines to tell a source's format by: the newest ones, and the first ones, which may name the columns."""
    return [lines_of(patterns, RECOGNITION_BYTES) for lines_of in (newest_lines, first_lines)]
