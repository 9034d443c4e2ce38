"""What a master must not lose: its job, its panes and the state of its commits."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Iterable, Mapping

from agents.store.database import Database


class Kind(enum.IntEnum):
    """What a block of a job's past is; with the interval, the name of the block."""

    LABEL = 0
    PANE = 1
    TOTAL = 2
    #: A pane with its label, as they were kept before schema version 3.
    LABELLED_PANE = 3


Place = tuple[Kind, int]


class Panes:
    """Reads and writes masters in a database; `job`, `state` and blocks are opaque bytes of the master's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, app: bytes, job: bytes, state: bytes) -> None:
        """Start a master without a past; an earlier one of the same job is replaced."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM history WHERE app = ?", (app,))
            sql.execute("INSERT OR REPLACE INTO masters VALUES (?, ?, ?)", (app, job, state))

    def rename(self, app: bytes, job: bytes) -> None:
        """Replace what is kept of the job itself."""
        with self._database.transaction() as sql:
            sql.execute("UPDATE masters SET job = ? WHERE app = ?", (job, app))

    def commit(self, app: bytes, state: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]) -> None:
        """Write a commit: the new state, the blocks it changed, those no longer retained."""
        with self._database.transaction() as sql:
            sql.execute("UPDATE masters SET state = ? WHERE app = ?", (state, app))
            self._write(sql, app, changed, gone)

    def replace(self, app: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]) -> None:
        """Write blocks in the place of others."""
        with self._database.transaction() as sql:
            self._write(sql, app, changed, gone)

    def masters(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (app, job, state) of every master."""
        with self._database.transaction() as sql:
            return sql.execute("SELECT app, job, state FROM masters ORDER BY app").fetchall()

    def intervals(self, app: bytes, kind: Kind) -> list[int]:
        """Return the intervals of a master's blocks of a kind, ascending."""
        with self._database.transaction() as sql:
            query = "SELECT interval FROM history WHERE app = ? AND kind = ? ORDER BY interval"
            return [interval for (interval,) in sql.execute(query, (app, kind)).fetchall()]

    def blocks(self, app: bytes, kind: Kind) -> dict[int, bytes]:
        """Return a master's blocks of a kind by interval, ascending."""
        with self._database.transaction() as sql:
            query = "SELECT interval, block FROM history WHERE app = ? AND kind = ? ORDER BY interval"
            return dict(sql.execute(query, (app, kind)).fetchall())

    def block(self, app: bytes, kind: Kind, interval: int) -> bytes:
        """Return one block, which has to exist."""
        with self._database.transaction() as sql:
            query = "SELECT block FROM history WHERE app = ? AND kind = ? AND interval = ?"
            return bytes(sql.execute(query, (app, kind, interval)).fetchone()[0])

    def forget(self, app: bytes) -> None:
        """Drop a stopped job's master."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM masters WHERE app = ?", (app,))
            sql.execute("DELETE FROM history WHERE app = ?", (app,))

    def _write(
        self, sql: sqlite3.Connection, app: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]
    ) -> None:
        sql.executemany("DELETE FROM history WHERE app = ? AND kind = ? AND interval = ?", [(app, *at) for at in gone])
        rows = [(app, kind, interval, block) for (kind, interval), block in changed.items()]
        sql.executemany("INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)", rows)
