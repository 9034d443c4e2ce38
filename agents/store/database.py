"""The SQLite file: opening, version, one writer at a time.

Every method of the repositories beside this module runs inside `with database.transaction() as sql:`; when the block
ends without an error its changes are on disk (synchronous=FULL), otherwise none of them happened. Calls may come from
any thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import secrets
import sqlite3
import threading
from collections.abc import Iterator

from agents.errors import ConfigError

#: What each version added to the one before.
_STEPS = (
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (source TEXT PRIMARY KEY, positions BLOB NOT NULL, counters BLOB NOT NULL,
                      sequence INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE workers (tree BLOB PRIMARY KEY, progress BLOB NOT NULL, open BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE snapshots (tree BLOB NOT NULL, through INTEGER NOT NULL, payload BLOB,
                        PRIMARY KEY (tree, through)) WITHOUT ROWID;
CREATE TABLE masters (app BLOB PRIMARY KEY, job BLOB NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE panes (app BLOB NOT NULL, interval INTEGER NOT NULL, block BLOB NOT NULL,
                    PRIMARY KEY (app, interval)) WITHOUT ROWID;
CREATE TABLE records (app BLOB NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
                      PRIMARY KEY (app, key)) WITHOUT ROWID;
""",
    """
CREATE TABLE controls (tree BLOB PRIMARY KEY, term INTEGER NOT NULL, position INTEGER NOT NULL,
                       floor_term INTEGER NOT NULL, floor_position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE control_entries (tree BLOB NOT NULL, term INTEGER NOT NULL, position INTEGER NOT NULL, body BLOB NOT NULL,
                              PRIMARY KEY (tree, term, position)) WITHOUT ROWID;
""",
    """
CREATE TABLE history (app BLOB NOT NULL, kind INTEGER NOT NULL, interval INTEGER NOT NULL, block BLOB NOT NULL,
                      PRIMARY KEY (app, kind, interval)) WITHOUT ROWID;
INSERT INTO history SELECT app, 3, interval, block FROM panes;
DROP TABLE panes
""",
    # Which blocks there are, without a walk over the blocks themselves.
    """
CREATE INDEX history_places ON history (app, kind, interval)
""",
)
#: Version of these tables; an older file is brought up to it, a newer one is refused, never guessed at.
SCHEMA_VERSION = len(_STEPS)


class StoreError(ConfigError):
    """The durable state cannot be opened; the text says which file and what to do."""


class Database:
    """The agent's one SQLite file."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file(path)
        try:
            self._sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
            self._sql.execute("PRAGMA journal_mode=WAL")
            self._sql.execute("PRAGMA synchronous=FULL")
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._holder.close()
            raise StoreError(
                f"{path}: cannot be read ({error}); move the file away to start without its state"
            ) from None

    def _lock_file(self, path: pathlib.Path) -> None:
        """Keep a second agent away from this folder for as long as this process lives."""
        self._holder = (path.parent / "lock").open("w")
        try:
            fcntl.flock(self._holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._holder.close()
            raise StoreError(
                f"{path.parent} is in use by another agent; give this one its own folder (agent.data)"
            ) from None

    def _prepare(self) -> None:
        version = int(self._sql.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            self.close()
            raise StoreError(
                f"{self.path}: written by another release (state version {version}, this one has {SCHEMA_VERSION}); "
                "run the release that wrote it, or move the file away to start without its state"
            )
        with self.transaction() as sql:
            for step in _STEPS[version:]:
                for statement in step.split(";"):
                    sql.execute(statement)
            if version == 0:
                sql.execute("INSERT INTO meta VALUES ('agent_id', ?)", (secrets.token_hex(8),))
            sql.execute(f"PRAGMA user_version = {SCHEMA_VERSION:d}")

    @property
    def agent_id(self) -> str:
        """This installation's name in rosters: random, made once with the file, so an emptied disk is a new agent."""
        with self.transaction() as sql:
            return str(sql.execute("SELECT value FROM meta WHERE key = 'agent_id'").fetchone()[0])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block atomically and durably; one at a time, whichever thread asks."""
        with self._lock:
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield self._sql
            except BaseException:
                self._sql.execute("ROLLBACK")
                raise
            self._sql.execute("COMMIT")

    def close(self) -> None:
        """Close the file and let another process open it."""
        with self._lock:
            self._sql.close()
            self._holder.close()
