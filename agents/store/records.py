"""The control records an agent has applied, kept so that it brings them back after a restart."""

from __future__ import annotations

from elf.agents.store.checksums import is_whole
from elf.agents.store.database import Database
from elf.overlay.contract import Record


class Records:
    """Records by tree (`app`) and key; the overlay decides which version wins, this only remembers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, app: bytes, record: Record) -> None:
        """Remember a record, unless a newer version is there already."""
        with self._database.transaction() as sql:
            row = (app, record.key, record.version, record.body)
            sql.execute(
                "INSERT INTO records VALUES (?1, ?2, ?3, ?4, row_checksum(?1, ?2, ?3, ?4)) ON CONFLICT DO UPDATE SET "
                "version = excluded.version, body = excluded.body, checksum = excluded.checksum "
                "WHERE excluded.version >= version",
                row,
            )

    def forget(self, app: bytes, key: str) -> None:
        """Forget a record; one that is not there is forgotten already."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM records WHERE app = ? AND key = ?", (app, key))

    def all(self, app: bytes) -> list[Record]:
        """Return the records of one tree, by key; damaged ones are counted and left out, other agents have them."""
        with self._database.transaction() as sql:
            rows = sql.execute("SELECT * FROM records WHERE app = ? ORDER BY key", (app,)).fetchall()
        found = []
        for row in rows:
            if is_whole(row):
                found.append(Record(*row[1:4]))
            else:
                self._database.damages.note(
                    "record", f"{self._database.path}: a control record is damaged: it comes back from other agents"
                )
        return found
