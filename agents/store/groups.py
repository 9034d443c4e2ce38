"""What a member of a job's root group must not forget: its term, its vote, and entries that are not applied yet.

What is applied is part of the master's own state (`elf.agents.store.panes`), in one transaction with what it changed
there.
"""

from __future__ import annotations

import functools
import sqlite3

from elf.agents.store.checksums import verified
from elf.agents.store.database import Database
from elf.agents.store.shared_transactions import Steps
from elf.overlay.group.effects import Save
from elf.overlay.group.messages import Entry, Kind, Place, Seat
from elf.overlay.group.state import GroupState

_WHAT = "the log of a root group"


class GroupLogs:
    """Reads and writes the groups' logs in a database, by job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def saving(self, tree: bytes, save: Save, applied: int) -> Steps:
        """Store term, vote and entries, the entries in the place of all after `save.after`; let go of applied ones."""
        yield functools.partial(_save, tree, save, applied)

    def state(self, tree: bytes, applied: Place, seats: tuple[Seat, ...]) -> GroupState:
        """Return what a group begins with after a restart; raises DamagedError for what is not as it was written."""
        with self._database.transaction() as sql:
            row = sql.execute("SELECT * FROM root_groups WHERE tree = ?", (tree,)).fetchone()
            query = "SELECT * FROM group_entries WHERE tree = ? AND position > ? ORDER BY position"
            rows = sql.execute(query, (tree, applied.index)).fetchall()
        term, vote = verified(row, _WHAT)[1:3] if row is not None else (0, "")
        entries: list[Entry] = []
        for _, position, in_term, kind, body in (verified(each, _WHAT) for each in rows):
            if position == applied.index + len(entries) + 1:
                entries.append(Entry(Place(in_term, position), Kind(kind), body))
        return GroupState(term=term, vote=vote, applied=applied, seats=seats, entries=tuple(entries))

    def forget(self, tree: bytes, *, vote: bool = True) -> None:
        """Drop a group's entries and, with `vote`, that we ever were a member."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM group_entries WHERE tree = ?", (tree,))
            if vote:
                sql.execute("DELETE FROM root_groups WHERE tree = ?", (tree,))


def _save(tree: bytes, save: Save, applied: int, sql: sqlite3.Connection) -> None:
    sql.execute(
        "INSERT OR REPLACE INTO root_groups VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))",
        (tree, save.term, save.vote),
    )
    query = "DELETE FROM group_entries WHERE tree = ? AND (position > ? OR position <= ?)"
    sql.execute(query, (tree, save.after, applied))
    put = "INSERT INTO group_entries VALUES (?1, ?2, ?3, ?4, ?5, row_checksum(?1, ?2, ?3, ?4, ?5))"
    rows = [(tree, entry.place.index, entry.place.term, entry.kind, entry.body) for entry in save.entries]
    sql.executemany(put, rows)
