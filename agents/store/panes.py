"""What a master must not lose: its job, its panes and the state of its commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.store.database import Database


class Panes:
    """Reads and writes masters in a database; `job` and `state` are opaque bytes of the master's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, app: bytes, job: bytes, state: bytes) -> None:
        """Start a master without panes; an earlier one of the same job is replaced."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM panes WHERE app = ?", (app,))
            sql.execute("INSERT OR REPLACE INTO masters VALUES (?, ?, ?)", (app, job, state))

    def rename(self, app: bytes, job: bytes) -> None:
        """Replace what is kept of the job itself."""
        with self._database.transaction() as sql:
            sql.execute("UPDATE masters SET job = ? WHERE app = ?", (job, app))

    def commit(self, app: bytes, state: bytes, changed: Mapping[int, bytes], expired: Iterable[int]) -> None:
        """Write a commit: the new state, the panes it changed, the panes no longer retained."""
        with self._database.transaction() as sql:
            sql.execute("UPDATE masters SET state = ? WHERE app = ?", (state, app))
            rows = [(app, interval, block) for interval, block in changed.items()]
            sql.executemany("INSERT OR REPLACE INTO panes VALUES (?, ?, ?)", rows)
            sql.executemany("DELETE FROM panes WHERE app = ? AND interval = ?", [(app, gone) for gone in expired])

    def masters(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (app, job, state) of every master."""
        with self._database.transaction() as sql:
            return sql.execute("SELECT app, job, state FROM masters ORDER BY app").fetchall()

    def panes(self, app: bytes) -> dict[int, bytes]:
        """Return a master's pane blocks by interval, ascending."""
        with self._database.transaction() as sql:
            query = "SELECT interval, block FROM panes WHERE app = ? ORDER BY interval"
            return dict(sql.execute(query, (app,)).fetchall())

    def forget(self, app: bytes) -> None:
        """Drop a stopped job's master."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM masters WHERE app = ?", (app,))
            sql.execute("DELETE FROM panes WHERE app = ?", (app,))
