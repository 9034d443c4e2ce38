"""Whether an agent can read its logs, and whether their newest lines still have the format that it reads them as."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from elf.agents.errors import ConfigError
from elf.agents.intake.decoder import source_format
from elf.agents.settings.config import AUTO, AgentConfig, SourceConfig
from elf.agents.sources.files.compression import RefusedError
from elf.agents.sources.files.families import live_paths
from elf.agents.sources.files.readers import open_reader
from elf.agents.sources.recognition import fitting, recognise
from elf.doctor.access import User, barrier, way_in
from elf.doctor.finding import Check, Finding

#: So much of a log's end is looked at, and so many lines of it.
_TAIL_BYTES, LINES = 1 << 20, 1_000
_UNREAD = "no job counts what is in it, and results say that they lack nothing but this agent's lines"
_UNFIT = "lines of another format are no events: they are in no result, and labels say how many were rejected"


def look_at_logs(config: AgentConfig, user: User) -> Iterator[Finding]:
    """Look at the logs of all sources.

    Args:
        config: the agent's settings.
        user: that it runs as.
    """
    for name, source in config.sources.items():
        if not source.path:
            continue
        matched = live_paths([os.path.abspath(source.path)])
        paths = sorted({each for paths in matched.families.values() for each in paths})
        there = [each for each in paths if os.path.exists(each)]
        if not there:
            why = "it is written by nobody, or another path is: an agent waits for it, and reads nothing"
            mend = f"ls -l {shlex.quote(os.path.dirname(source.path) or '.')}"
            if (closed := barrier(os.path.dirname(os.path.abspath(source.path)) or "/", user)) is not None:
                yield _closed(name, source.path, closed, user)
            else:
                yield Finding(Check.LOG, f"source {name}: no file is at {source.path}", why, mend)
            continue
        open_ones = list(there)
        for each in there:
            if each in matched.unreadable:
                mend = f"ls -l {shlex.quote(each)}"
                yield Finding(Check.LOG, f"source {name}: {each} {matched.unreadable[each]}", _UNREAD, mend)
                open_ones.remove(each)
            elif (closed := barrier(each, user)) is not None:
                yield _closed(name, each, closed, user)
                open_ones.remove(each)
        yield from _format(name, source, open_ones)


def _closed(name: str, log: str, closed: Path, user: User) -> Finding:
    said = f"source {name}: the agent's user {user.name} may not read {log}" + (
        f", for {closed} is closed to it" if str(closed) != log else ""
    )
    return Finding(Check.LOG, said, _UNREAD, f"{way_in(closed, user)} && systemctl restart elf-agent")


def _format(name: str, source: SourceConfig, logs: Sequence[str]) -> Iterator[Finding]:
    """Look whether the last lines of the log that was written last fit."""
    if not logs:
        return
    log = max(logs, key=os.path.getmtime)
    sample = _tail(log)
    if not sample:
        return
    try:
        format = None if source.reads_as == AUTO else source_format(name, source)
    except ConfigError as error:
        yield Finding(Check.FORMAT, str(error), "an agent does not start with it", f"elf sample {shlex.quote(log)}")
        return
    if format is not None and format.carrier is not None:
        return  # its lines need a header that is far above them
    likely = recognise(sample).format
    if format is None:
        if likely is None:
            said = f"source {name}: the last {_count(sample)} lines of {log} tell no format that is known"
            yield Finding(Check.FORMAT, said, _UNFIT, f"elf sample {shlex.quote(log)}")
        return
    found = fitting(format, sample)
    if not found.lines or found.is_good:
        return
    said = f"source {name}: {found.fits} of the last {found.lines} lines of {log} fit {format.name}"
    mend = f"elf sample {shlex.quote(log)}"
    if likely is not None:
        time = f', time = "{likely.time}"' if likely.time else ""
        mend += f'   # and in [sources.{name}]: format = "{likely.shown}"{time}, which {likely.fits} fit'
    yield Finding(Check.FORMAT, said, _UNFIT, mend)


def _tail(log: str) -> bytes:
    """Return the last whole lines of a log; none of one that is packed, or that this process cannot read."""
    try:
        with contextlib.closing(open_reader(log)) as reader:
            size = os.path.getsize(log)
            begin = max(0, size - _TAIL_BYTES)
            data = reader.read_at(begin, _TAIL_BYTES)
    except (OSError, RefusedError):
        return b""
    lines = data.split(b"\n")
    # Behind the last line break is a line that is still written; before the first one, perhaps the rest of one.
    whole = lines[1 if begin else 0 : -1]
    return b"".join(line + b"\n" for line in whole[-LINES:])


def _count(sample: bytes) -> int:
    return sample.count(b"\n")
