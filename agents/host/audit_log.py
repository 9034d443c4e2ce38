"""Who did what through an agent: a file of JSON lines in its data folder, for its user alone.

A line is written, and on disk, before what it tells of is answered. The file is bounded: when it is full it becomes the
one before, which there is one of. What strangers are refused is counted after the first few of a minute, so that they
cannot push out what somebody did.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import pathlib
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from elf.agents.host.disk import open_log, sync_folders, write_all
from elf.agents.host.log_lines import escaped

log = logging.getLogger(__name__)

NAME = "audit.jsonl"
#: Bytes of the file, and of the one before; characters of a text in it.
FILE_BYTES_MAX = 4 << 20
TEXT_CHARS_MAX = 300
#: Lines about refused strangers in a minute; of more there is one line with their number.
REFUSALS_MAX, MINUTE_MS = 10, 60_000

Entry: TypeAlias = dict[str, Any]


class AuditLog:
    """The audit log in one folder; any thread may call.

    Args:
        folder: of the agent's data.
        now_ms: the time of day.
    """

    def __init__(self, folder: pathlib.Path, now_ms: Callable[[], int]) -> None:
        self._file = folder / NAME
        self._before = folder / f"{NAME}.1"
        self._now_ms = now_ms
        self._lock = threading.Lock()
        #: Since when refusals are counted, and how many there were.
        self._refusals_ms = self._refusals = 0
        #: Why the last line could not be written; empty: it was.
        self.trouble = ""

    def note(self, **fields: str | int) -> None:
        """Write a line about what somebody did, or tried to; what is empty is left out. A few ms: fsync."""
        with self._lock:
            self._write(fields)

    def refuse(self, **fields: str | int) -> None:
        """Write a line about a stranger who was not let in, or count it."""
        with self._lock:
            now_ms = self._now_ms()
            if not 0 <= now_ms - self._refusals_ms < MINUTE_MS:
                more = self._refusals - REFUSALS_MAX
                if more > 0:
                    self._write({"what": "refused", "more": more, "since_ms": self._refusals_ms})
                self._refusals_ms = now_ms
                self._refusals = 0
            self._refusals += 1
            if self._refusals <= REFUSALS_MAX:
                self._write({"what": "refused", **fields})

    def entries(self, most: int) -> list[Entry]:
        """Return the newest entries, the oldest first; lines that are none are left out. O(size of both files)."""
        with self._lock:
            found: collections.deque[Entry] = collections.deque(maxlen=most)
            for file in (self._before, self._file):
                try:
                    lines = file.read_bytes().splitlines()
                except FileNotFoundError:
                    continue
                found.extend(entry for line in lines if (entry := _read(line)) is not None)
            return list(found)

    def _write(self, fields: dict[str, Any]) -> None:
        told = {name: _bounded(value) for name, value in fields.items() if value != ""}
        line = json.dumps({"at_ms": self._now_ms(), **told}).encode() + b"\n"
        try:
            is_there = self._file.exists()
            if is_there and self._file.stat().st_size + len(line) > FILE_BYTES_MAX:
                self._file.replace(self._before)
                is_there = False
            descriptor = open_log(self._file)
            try:
                # What a crash, or a full disk, has cut is a line of its own.
                write_all(descriptor, line if _ends_a_line(descriptor) else b"\n" + line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not is_there:
                sync_folders([self._file.parent])
            self.trouble = ""
        except OSError as error:
            if not self.trouble:
                log.error("the audit log %s cannot be written: %s", self._file, error)
            self.trouble = f"the audit log cannot be written: {error.strerror or error}"


def _ends_a_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"


def _bounded(value: str | int) -> str | int:
    return value if isinstance(value, int) else escaped(value)[:TEXT_CHARS_MAX]


def _read(line: bytes) -> Entry | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None  # cut by a crash
    return entry if isinstance(entry, dict) else None
