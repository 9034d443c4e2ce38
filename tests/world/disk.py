"""A host's disk: full for a while, and let go of by an agent that was killed.

Stands between the shipped agent and its files at two places, the state file's commits and the spool of pushed events.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import Any

from elf.agents.agent import Agent


class FullDisk:
    """A disk that takes no more while it `is_full`; what is read and what was written stays right."""

    def __init__(self) -> None:
        self.is_full = False
        #: How often something was refused.
        self.refused = 0

    def guard(self, agent: Agent) -> None:
        """Stand between an agent and its files."""
        agent.database._sql = _Connection(agent.database._sql, self)  # type: ignore[assignment]

    def guard_spool(self, push: Any) -> None:
        """Stand before the spool of a source."""
        write = push._write

        def guarded(data: bytes) -> None:
            self.check()
            write(data)

        push._write = guarded

    def check(self) -> None:
        """Raise OSError if nothing can be written."""
        if self.is_full:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def abandon(self, agent: Agent) -> None:
        """Let go of the files of an agent that was killed, as the system does; open ones are closed at the end."""
        database = agent.database
        database._sql.close()
        database._mark.close()
        database._holder.close()


def is_disk_full(error: BaseException) -> bool:
    """Tell whether an error says that there is no room on a disk."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or (
        isinstance(error, OSError) and error.errno == errno.ENOSPC
    )


class _Connection:
    """SQLite's connection to the state file, whose commits fail while the disk is full."""

    def __init__(self, sql: sqlite3.Connection, disk: FullDisk) -> None:
        self._sql, self._disk, self._changes = sql, disk, sql.total_changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sql, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        if statement == "BEGIN IMMEDIATE":
            self._changes = self._sql.total_changes
        if statement == "COMMIT" and self._disk.is_full and self._sql.total_changes != self._changes:
            self._disk.refused += 1
            self._sql.execute("ROLLBACK")
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
            raise error
        return self._sql.execute(statement, *values)
