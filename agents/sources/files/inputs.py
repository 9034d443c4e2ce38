"""What somebody names to be read once: files, globs, pipes, standard input. Each is read to its end, and counts once.

A file is one whatever its names are: links, and the same name given twice. What is named and cannot be read is that
person's mistake; of what a glob matches, files that cannot be opened are left out and said.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from elf.agents.errors import DamagedError, JobError
from elf.agents.sources.files.compression import UnsupportedError
from elf.agents.sources.files.families import matched_files
from elf.agents.sources.files.readers import STANDARD_INPUT, Reader, key_of, look_at, open_input, open_stream
from elf.agents.sources.files.rotation import live_of, oldest_first
from elf.agents.sources.lines import LINE_BYTES_MAX

#: Of the first lines of each, which may be looked at before, and again after, all of them are read.
FRONT_BYTES = 1 << 20


class Input:
    """One file, pipe or the like.

    Attributes:
        names: under which it was found; the first one is for messages.
        is_named: somebody asked for it, and not just for what a glob matches.
    """

    def __init__(self, name: str, *, is_named: bool, is_file: bool) -> None:
        self.names = [name]
        self.is_named = is_named
        self._is_file = is_file
        self._front: bytes | None = None
        self._rest: Iterator[bytes] = iter(())

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.names[0]

    def front(self) -> bytes:
        """Return its first whole lines, some `FRONT_BYTES`, or none.

        Raises:
            JobError, DamagedError: as for `chunks`.
        """
        if self._is_file:
            return next(self._lines(open_input, FRONT_BYTES), b"")
        if self._front is None:
            # A pipe gives nothing twice, so these are kept, and the next ones wait.
            self._rest = self._lines(open_stream, FRONT_BYTES)
            self._front = next(self._rest, b"")
        return self._front

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """Yield its text in chunks of whole lines, once; the last line may lack its newline.

        Of a line longer than a chunk only the front is kept, more than the formats take of it anyway.

        Raises:
            JobError: it was named, and cannot be read to its end.
            DamagedError: a glob matched it, and it cannot be read to its end.
        """
        if self._is_file:
            yield from self._lines(open_input, chunk_bytes)
            return
        if front := self.front():
            yield front
        yield from self._rest

    def _lines(self, open_it: Callable[[str], Reader], chunk_bytes: int) -> Iterator[bytes]:
        try:
            with contextlib.closing(open_it(self.name)) as reader:
                offset, held = 0, b""
                while text := reader.read_at(offset, chunk_bytes):
                    offset += len(text)
                    whole, newline, rest = text.rpartition(b"\n")
                    if not newline:
                        held = (held + rest)[: max(chunk_bytes, LINE_BYTES_MAX + 1)]
                        continue
                    yield held + whole + newline
                    held = rest
                if reader.fault:
                    raise self._unusable(f"{reader.fault}; mend it, or leave it out of the input")
                if held:
                    yield held + b"\n"
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None

    def _unusable(self, why: str) -> JobError | DamagedError:
        return (JobError if self.is_named else DamagedError)(f"{self.name}: {why}")


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that is to be read, and what of it a glob matches that cannot be: path -> why."""

    files: Sequence[Input] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)


def find_inputs(patterns: Sequence[str]) -> Inputs:
    """Resolve names and globs; every one must match, or a typing error would look like an empty result.

    Raises:
        JobError: one matches nothing; what is named, or all that is matched, cannot be opened; or what would decompress
            it has to be installed.
    """
    found: dict[tuple[int, int], Input] = {}
    unreadable: dict[str, str] = {}
    for pattern in patterns:
        is_glob = glob.has_magic(pattern)
        names = sorted(matched_files(pattern)) if is_glob else [pattern]
        if not names:
            raise JobError(f"no file matches {pattern!r}")
        for name in names:
            try:
                _take(name, not is_glob, found)
            except OSError as error:
                why = error.strerror or str(error)
                if isinstance(error, FileNotFoundError) and not is_glob:
                    raise JobError(f"no file matches {name!r}") from None
                if isinstance(error, UnsupportedError) or not is_glob:
                    raise JobError(f"{name}: {why}") from None
                unreadable[name] = why
    if not found:
        raise JobError("; ".join(f"{name}: {why}" for name, why in unreadable.items()))
    return Inputs(list(found.values()), unreadable)


def logs_of(files: Sequence[Input]) -> list[list[Input]]:
    """Put the files together that one log was rotated to, oldest first; of others each is a log, in their order."""
    logs: dict[str, list[Input]] = {}
    names = [file.name for file in files]
    for file in files:
        logs.setdefault(live_of(file.name, names) or file.name, []).append(file)
    return [_by_age(own, live) if len(own) > 1 else own for live, own in logs.items()]


def _by_age(files: Sequence[Input], live: str) -> list[Input]:
    """Order the files of a log by age; one that is gone meanwhile is where it was."""
    try:
        seen = {look_at(file.name): file for file in files}
    except OSError:
        return list(files)
    return [seen[each] for each in oldest_first(seen, live)]


def _take(name: str, is_named: bool, found: dict[tuple[int, int], Input]) -> None:
    """Add a file to those that were found, unless it is one of them; raises OSError if it cannot be read."""
    status = os.fstat(0) if name in STANDARD_INPUT else os.stat(name)
    known = found.get(key_of(status))
    if known is not None:
        known.is_named = known.is_named or is_named
        known.names += [] if name in known.names else [name]
        return
    if stat.S_ISSOCK(status.st_mode) and name not in STANDARD_INPUT:
        raise OSError("a socket, not a file")
    is_file = name not in STANDARD_INPUT and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))
    if is_file:
        open_input(name).close()
    found[key_of(status)] = Input(name, is_named=is_named, is_file=is_file)
