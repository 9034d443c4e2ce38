"""From the logs of a server's configuration, or of the command line, to sources: their names, and formats that fit.

What lines are is believed more than what a configuration says they would be. Shell: it reads the logs' first lines.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from elf.agents.errors import ConfigError
from elf.agents.settings.config import SourceConfig
from elf.agents.sources.files.families import live_paths
from elf.agents.sources.format import Format, make_format
from elf.agents.sources.recognition import JSON, fitting, recognise
from elf.checking.environment import front_of_newest
from elf.installation.access_logs import AccessLog
from elf.installation.first_job import KEYS

#: What the log is called in jobs unless there are several.
ACCESS = "access"
_NAME_CHARS_MAX = 63
#: So many lines that are objects.
_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A source of the agent to be, and what is to be said of it.

    Attributes:
        config: its settings.
        said: whence it is, and how many lines fit.
        columns: those that a first job may count by.
    """

    config: SourceConfig
    said: str
    columns: Collection[str] = field(default_factory=tuple)


def source_of(log: AccessLog) -> FoundSource:
    """Find the format of a log: the configured one if its lines fit that, else that which they fit."""
    sample = _sample(log.path)
    whence = f"{log.place}" + (f", format {log.known_as}" if log.known_as else "")
    if log.format:
        said = _misfit(log.format, log.time, sample)
        if said is None:
            fits = _fits(log.format, log.time, sample)
            return _found(log.path, log.format, log.time, f"{whence}{fits}")
        whence = f"{whence}; {said}"
    return _recognised(log.path, sample, whence)


def source_at(path: str, format: str = "") -> FoundSource:
    """Make a source of a log that somebody names.

    Raises:
        ConfigError: it has lines, and they are nothing known, or not what was said.
    """
    sample = _sample(path)
    if format:
        said = _misfit(format, "", sample)
        if said is not None:
            raise ConfigError(f"{path}: {said}")
        return _found(path, format, "", "named")
    found = _recognised(path, sample, "named")
    if sample and not found.config.format:
        shown = f"`elf sample {path}` shows more, --format says which"
        raise ConfigError(f"{path}: its lines have no format that is known; {shown}")
    return found


def named(found: Sequence[FoundSource]) -> dict[str, FoundSource]:
    """Give sources names: `access`, or, of several, with what tells their files from each other."""
    if len(found) == 1:
        return {ACCESS: found[0]}
    names: dict[str, FoundSource] = {}
    for each in found:
        stem = os.path.basename(each.config.path).lower().removesuffix(".log")
        rest = re.sub(r"[^a-z0-9]+", "-", re.sub(r"access|\*|_log$", "-", stem)).strip("-")
        wanted = f"{ACCESS}-{rest}"[: _NAME_CHARS_MAX - 4].strip("-") if rest else ACCESS
        count, name = 1, wanted
        while name in names:
            count += 1
            name = f"{wanted}-{count}"
        names[name] = each
    return names


def _sample(path: str) -> bytes:
    """Return the first lines of the newest log that a path or a glob matches; none if this user cannot read any."""
    families = live_paths([os.path.abspath(path)]).families
    try:
        return front_of_newest([each for paths in families.values() for each in paths])
    except OSError:
        return b""


def _misfit(format: str, time: str, sample: bytes) -> str | None:
    """Say why lines cannot be read as a format; None if they can, or there are none."""
    try:
        made = make_format(format, time=time or "ts")
    except ConfigError as error:
        return f"its format cannot be read ({error})"
    guess = fitting(made, sample)
    if not guess.lines or guess.is_good or (made.name == JSON and not time):
        return None
    return f"only {guess.fits} of its first {guess.lines} lines fit that"


def _fits(format: str, time: str, sample: bytes) -> str:
    if format == JSON and not time:
        return ""
    guess = fitting(make_format(format, time=time or "ts"), sample)
    return f"; {guess.fits} of its first {guess.lines} lines fit" if guess.lines else "; no lines yet"


def _recognised(path: str, sample: bytes, whence: str) -> FoundSource:
    guess = recognise(sample).format if sample else None
    if guess is None:
        said = "its lines have no format that is known" if sample else "no line that this user can read yet"
        return _found(path, "", "", f"{whence}; {said}, so the agent looks at them")
    said = f"{whence}; its lines are {guess.shown}: {guess.fits} of {guess.lines}"
    return _found(path, guess.names[0] if len(guess.names) == 1 else list(guess.names), guess.time, said)


def columns_of(format: Format, sample: bytes) -> Collection[str]:
    """Return what a first job may count by: columns that a format declares, or such names of texts in objects.

    Args:
        format: of the lines.
        sample: some of them.
    """
    if format.columns is not None:
        return tuple(format.columns)
    names: set[str] = set()
    for line in sample.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            names.update(name for name, value in msgspec.json.decode(line, type=dict).items() if isinstance(value, str))
    return names.intersection(KEYS)


def _found(path: str, format: str | list[str], time: str, said: str) -> FoundSource:
    columns: Collection[str] = ()
    if format:
        # Times without a zone: validate says so.
        with contextlib.suppress(ConfigError):
            columns = columns_of(make_format(format, time=time or "ts"), _sample(path))
    return FoundSource(SourceConfig(path=os.path.abspath(path), format=format, time=time), said, columns)
