"""How a source's lines become events, as its settings say."""

from __future__ import annotations

import hashlib
import zoneinfo
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.settings.config import AUTO, SourceConfig
from elf.agents.settings.secret_files import read_secret_file
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.format import Format, make_format
from elf.agents.sources.machine_time import wall_clock_ms
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.raw_texts import is_raw, typed_name

#: A shorter key might be guessed, and with it all addresses.
KEY_BYTES_MIN = 16


class Recognised(msgspec.Struct, frozen=True):
    """What the lines of a source with `format = "auto"` were found to be; once, so it is part of its checkpoint."""

    formats: tuple[str, ...]
    #: Of objects: the field with the event time.
    time: str


class Decoder(NamedTuple):
    """How a source's lines become events.

    Attributes:
        format: what its lines are.
        columns: types of the columns that are always parsed (declared, or the format's own), for the archive.
        redactor: what blurs or leaves out parts of the events before anything is made of them.
        dictionaries: what texts become codes by, redacted.
    """

    format: Format
    columns: Mapping[str, SqlType]
    redactor: Redactor
    dictionaries: Dictionaries


def make_decoder(
    name: str, source: SourceConfig, now_ms: Callable[[], int] = wall_clock_ms, recognised: Recognised | None = None
) -> Decoder:
    """Make what reads a source's lines: as recognised, if its settings leave that open.

    Raises:
        ConfigError: the format, a column's type or the key for hashes is not one that can be used.
    """
    format = source_format(name, source, now_ms, recognised)
    redactor = make_redactor(name, source, format)
    return Decoder(format, declared_columns(name, source, format), redactor, Dictionaries(redactor.texts))


def source_format(
    name: str,
    source: SourceConfig,
    now_ms: Callable[[], int] = wall_clock_ms,
    recognised: Recognised | None = None,
) -> Format:
    """Return a source's format; raises ConfigError when it is none of ours."""
    formats, time = source.reads_as, source.time_field
    if source.reads_as == AUTO:
        assert recognised is not None
        formats, time = list(recognised.formats), recognised.time or time
    try:
        return make_format(formats, time=time, zone=source_zone(source), now_ms=now_ms, unwrap=source.unwrap)
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
        columns = {column: SqlType.parse(kind) for column, kind in source.columns.items()}
    except ValueError as error:
        raise ConfigError(f"sources.{name}.columns: {error}") from None
    if odd := next(filter(is_raw, columns), None):
        said = f"names like this are for the texts of values that do not fit {typed_name(odd)!r}; give it another name"
        raise ConfigError(f"sources.{name}.columns: {odd!r}: {said}")
    return columns


def make_redactor(name: str, source: SourceConfig, format: Format) -> Redactor:
    """Return what redacts the lines of a source's format; raises ConfigError when the key for hashes cannot be used."""
    key = read_key(name, source) if source.privacy.key_file else None
    return Redactor(source.privacy, key, derived=format.derives_all, addresses=format.addresses)


def read_key(name: str, source: SourceConfig) -> bytes:
    """Read the key that a source's addresses are hashed under; raises ConfigError when it cannot be used."""
    setting, file = f"sources.{name}.privacy.key_file", source.privacy.key_file
    text = read_secret_file(setting, file)
    if len(text) < KEY_BYTES_MIN:
        wanted = f"{KEY_BYTES_MIN} bytes; `elf keygen --out FILE` makes a key"
        raise ConfigError(f"{setting} = {file!r} has less than {wanted}")
    return hashlib.blake2b(text, digest_size=16, person=b"elf addresses").digest()
