"""The format of lines on the command line: what `--format` and its like say, or what the lines themselves look like."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from typing import NamedTuple

from elf.agents.errors import BadRequestError, ConfigError
from elf.agents.sources.advice import advice
from elf.agents.sources.files.inputs import Input
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.recognition import JSON, NO_ZONE, Recognised, are_objects, fitting, recognise
from elf.cli.output import say

#: The field of JSON lines that has the event time, if neither anybody says nor any line shows another.
_TIME = "ts"


class FormatSpec(NamedTuple):
    """What lines are read as: formats, and of JSON the fields with the event time, and with texts that are objects."""

    formats: Sequence[str]
    time: str
    unwrap: str = ""


def zone_of(name: str) -> zoneinfo.ZoneInfo | None:
    """Return the zone of `--time-zone`, None if nobody said; raises BadRequestError."""
    from elf.agents.sources.times.zones import named_zone

    try:
        return named_zone(name) if name else None
    except ConfigError as error:
        raise BadRequestError(f"--time-zone: {error}") from None


def format_of(spec: FormatSpec, zone: zoneinfo.ZoneInfo | None) -> Format:
    """Make a format; raises BadRequestError for what is a setting of a source elsewhere, and here an option."""
    try:
        return make_format(spec.formats, time=spec.time, zone=zone, unwrap=spec.unwrap)
    except ConfigError as error:
        raise BadRequestError(f"--format: {error}") from None


def spec_of(
    files: Sequence[Input],
    formats: Sequence[str] | None,
    time: str | None,
    *,
    zone: zoneinfo.ZoneInfo | None = None,
    hints: bool = True,
) -> FormatSpec:
    """Return what the lines of files are read as; says so on stderr if nobody did.

    Args:
        files: the first one that has lines is looked at.
        formats: of `--format`.
        time: of `--time`.
        zone: of `--time-zone`.
        hints: what is nothing known is said to be shown by `elf sample`.

    Raises:
        BadRequestError: the lines are nothing known, or could be two things.
    """
    if formats:
        return FormatSpec(formats, time or _TIME)
    file, front = next(((file, front) for file in files if (front := file.front())), (None, b""))
    if file is None:
        return FormatSpec([JSON], time or _TIME)
    found = recognise(front, time)
    if found.format is not None:
        spec = FormatSpec(found.format.names, found.format.time or time or _TIME)
        if not fitting(format_of(spec, zone), front).is_good:
            raise BadRequestError(f"{file.name}: its lines are {found.format.shown}, but {NO_ZONE} (--time-zone)")
        say(f"read as {found.format.shown}: {found.format.fits} of {found.format.lines} lines")
        return spec
    if not found.candidates and are_objects(front):
        # Objects, of which none has a time: what is wrong is said of the first one that is rejected.
        return FormatSpec([JSON], time or _TIME)
    raise BadRequestError(_unknown(file, front, found) + (f"; `elf sample {file.name}` shows more" if hints else ""))


def _unknown(file: Input, front: bytes, found: Recognised) -> str:
    said = f"{file.name}: {found.why_open}"
    if found.candidates:
        return f"{said}; say which with --format"
    near = found.guesses[0] if found.guesses else None
    format = make_format(near.names if near else "combined", time=near.time if near and near.time else _TIME)
    rejected = parse_chunk(format, front, {}).rejects
    return f"{said} ({advice(format, *rejected[0])})" if rejected else said
