"""Group commit: blocks of work that wait for each other become durable together.

A sync takes longer than all else that a transaction does, and the intervals of many jobs end at the same moment. Blocks
run one at a time; whoever ends one while others wait leaves the commit to the last of them, and goes on when that is
done. Each block is atomic by itself, and nobody goes on before his changes are on disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator

#: Blocks that become durable together at most: the first one waits for all of them.
BLOCKS_MAX = 64
#: After so long whoever waits for a commit looks himself: the thread that was to make it may have been interrupted.
LOOK_S = 1.0


class Batch:
    """Blocks of one transaction of SQLite's."""

    def __init__(self) -> None:
        self.blocks = 0
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """Tell those who wait that all is durable, or why nothing of it is."""
        self._error = error
        self._ended.set()

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end, so long at most; return whether it has come.

        Raises:
            sqlite3.Error: nothing of it is durable.
        """
        if not self._ended.wait(seconds):
            return False
        if self._error is not None:
            raise _again(self._error) from self._error
        return True


class Turns:
    """Lets one thread in at a time, and knows whether others wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0
        self._whose: int | None = None

    @property
    def someone_waits(self) -> bool:
        """Whether another thread will have a turn after the one whose turn it is, unless it is interrupted."""
        return self._waiting > 0

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Have a turn.

        Raises:
            RuntimeError: this thread has one already, and would wait for itself.
        """
        me = threading.get_ident()
        if self._whose == me:
            raise RuntimeError("a block of work on the database is inside another one")
        with self._counting:
            self._waiting += 1
        try:
            self._lock.acquire()
        finally:
            with self._counting:
                self._waiting -= 1
        try:
            self._whose = me
            yield
        finally:
            self._whose = None
            self._lock.release()


def undone(sql: sqlite3.Connection) -> bool:
    """Undo what was changed since `SAVEPOINT block`; False if only the whole transaction can be."""
    try:
        # Where the disk refused, SQLite has mostly undone all there was.
        if sql.in_transaction:
            sql.execute("ROLLBACK TO block")
            sql.execute("RELEASE block")
    except sqlite3.Error:
        return False
    return sql.in_transaction


def _again(error: BaseException) -> sqlite3.Error:
    """Make of one thread's error one for another thread that it concerns as well."""
    if not isinstance(error, sqlite3.Error):
        return sqlite3.OperationalError(f"what was to be durable together with it failed: {error}")
    again = type(error)(*error.args)
    for name in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, name):
            setattr(again, name, getattr(error, name))
    return again
