"""Lines of a source's files to tell its format and its columns by, before anything is read of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from elf.agents.sources.carried import Carrier, lasting, lines_of
from elf.agents.sources.files.families import matched_files
from elf.agents.sources.files.readers import look_at, open_reader


def newest_lines(patterns: Iterable[str], bytes_max: int, carrier: Carrier | None = None) -> bytes:
    """Return the last whole lines of the newest file that has any: the first ones of one that is compressed.

    If there is a `carrier`, they stand behind the lines of the file's front that they need, as it says. Raises OSError
    if there are none because files cannot be read.
    """
    return _of_newest(patterns, lambda path: _last_lines(path, bytes_max, carrier))


def first_lines(patterns: Iterable[str], bytes_max: int) -> bytes:
    """Return the first whole lines of the newest file that has any; raises OSError as `newest_lines`."""
    return _of_newest(patterns, lambda path: _first_lines(path, bytes_max))


def _of_newest(patterns: Iterable[str], lines_of: Callable[[str], bytes]) -> bytes:
    found = {path for pattern in patterns if pattern for path in matched_files(pattern)}
    files, failed = [], None
    # Any of them may be rotated away meanwhile, or be out of reach; the others tell as much.
    for path in found:
        with contextlib.suppress(OSError):
            files.append(look_at(path))
    for file in sorted(files, key=lambda file: file.mtime_ns, reverse=True):
        try:
            if lines := lines_of(file.path):
                return lines
        except FileNotFoundError:
            continue
        except OSError as error:
            failed = error
    if failed is not None:
        raise failed
    return b""


def _last_lines(path: str, bytes_max: int, carrier: Carrier | None) -> bytes:
    with contextlib.closing(open_reader(path)) as reader:
        begin = max(0, os.fstat(reader.fd).st_size - bytes_max) if reader.is_plain else 0
        text = reader.read_at(begin, bytes_max)
        # Headers further on are none of a sample's business.
        front = reader.read_at(0, bytes_max) if begin and carrier is not None else b""
    if begin:
        text = text[text.find(b"\n") + 1 :]
    carried = carrier.behind((), front[: front.rfind(b"\n") + 1], 0) if carrier is not None else ()
    # What has begun at the front ends there.
    header = lasting(carrier, carried) if carrier is not None else ()
    return b"".join(lines_of(header)) + text[: text.rfind(b"\n") + 1]


def _first_lines(path: str, bytes_max: int) -> bytes:
    with contextlib.closing(open_reader(path)) as reader:
        text = reader.read_at(0, bytes_max)
    return text[: text.rfind(b"\n") + 1]
