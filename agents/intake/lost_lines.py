"""Since when lines of a log may be lost: whatever of a file was not read was written after what was. Pure."""

from __future__ import annotations

from collections.abc import Mapping

#: Device and inode.
File = tuple[int, int]
#: Files, and logs, whose last times are remembered.
FILES_MAX = 1 << 12


class LastTimes:
    """The newest event time, in ms, that was read of each log, and of it when each file was read last.

    Args:
        logs: log -> time, as of the checkpoint that this run began with.
        newest_ms: of all logs then, for a log that is not among them.
    """

    def __init__(self, logs: Mapping[str, int], newest_ms: int | None) -> None:
        self._restored = dict(logs)
        self._newest_ms = newest_ms
        self.logs = dict(logs)
        self._files: dict[File, int | None] = {}
        self._read_last: dict[str, File] = {}

    def reading(self, log: str, file: File) -> None:
        """Note that lines of a file are read, whose times are not known yet."""
        self._files.pop(file, None)
        self._files[file] = self.newest_ms(log)
        self._read_last[log] = file
        if len(self._files) > FILES_MAX:
            del self._files[next(iter(self._files))]

    def note(self, log: str, newest_ms: int | None) -> None:
        """Note the newest event time in all lines of a log that were read since; None where none has one."""
        if newest_ms is not None:
            # Those that were read last stand last; names of logs may be new every day.
            self.logs[log] = max(newest_ms, self.logs.pop(log, newest_ms))
            if len(self.logs) > FILES_MAX:
                oldest = next(iter(self.logs))
                del self.logs[oldest]
                self._read_last.pop(oldest, None)
        # Of the files before it, it would say too much.
        if (file := self._read_last.get(log)) in self._files and log in self.logs:
            self._files[file] = self.logs[log]

    def newest_ms(self, log: str) -> int | None:
        """Return the newest event time that was read of a log; None: no idea."""
        return self.logs.get(log, self._newest_ms)

    def since_ms(self, log: str, file: File) -> int | None:
        """Return the time after which all was written that was not read of a file, lateness apart; None: no idea."""
        return self._files.get(file, self._restored.get(log, self._newest_ms))
