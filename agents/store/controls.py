"""How far each tree's control log was handled here and, where this agent is the root, the entries it must offer again.

What an entry does must be written in the transaction that writes its mark: then it is done once, whatever crashes.
"""

from __future__ import annotations

from elf.agents.store.checksums import verified
from elf.agents.store.database import Database
from elf.overlay.contract import ORIGIN, ControlEntry, ControlState, LogEntry, Mark

_WHAT = "the control log of a tree"


def decided_key(tree: bytes) -> bytes:
    """Return the key of what a job's root group has decided of a tree's control log."""
    return b"decided/" + tree


class Controls:
    """Reads and writes control logs in a database, by tree."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, tree: bytes, entry: ControlEntry) -> bool:
        """Store an entry's mark and what a root must retain; False if it, or a later one, was handled already."""
        mark, floor = entry.mark, entry.retain_above
        kept = floor if floor is not None else mark
        with self._database.transaction() as sql:
            row = sql.execute("SELECT * FROM controls WHERE tree = ?", (tree,)).fetchone()
            if row is not None and Mark(*verified(row, _WHAT)[1:3]) >= mark:
                return False
            sql.execute(
                "INSERT OR REPLACE INTO controls VALUES (?1, ?2, ?3, ?4, ?5, row_checksum(?1, ?2, ?3, ?4, ?5))",
                (tree, mark.term, mark.position, kept.term, kept.position),
            )
            if floor is not None:
                sql.execute(
                    "INSERT INTO control_entries VALUES (?1, ?2, ?3, ?4, row_checksum(?1, ?2, ?3, ?4))",
                    (tree, mark.term, mark.position, entry.body),
                )
            sql.execute(
                "DELETE FROM control_entries WHERE tree = ? AND (term, position) <= (?, ?)",
                (tree, kept.term, kept.position),
            )
        return True

    def state(self, tree: bytes) -> ControlState | None:
        """Return what a tree's log begins with after a restart; None if it never had an entry."""
        with self._database.transaction() as sql:
            row = sql.execute("SELECT * FROM controls WHERE tree = ?", (tree,)).fetchone()
            if row is None:
                return None
            query = "SELECT * FROM control_entries WHERE tree = ? ORDER BY term, position"
            entries = [verified(entry, _WHAT)[1:] for entry in sql.execute(query, (tree,)).fetchall()]
        _, term, position, floor_term, floor_position = verified(row, _WHAT)
        return ControlState(
            Mark(term, position),
            Mark(floor_term, floor_position),
            tuple(LogEntry(Mark(term, position), body) for term, position, body in entries),
        )

    def rooted(self, tree: bytes) -> ControlState | None:
        """Return what a job's root begins with: what its group has decided, and how far this agent has heeded that."""
        decided, heeded = self.state(decided_key(tree)), self.state(tree)
        if decided is None:
            return heeded
        return ControlState(heeded.mark if heeded is not None else ORIGIN, decided.floor, decided.entries)

    def adopt(self, tree: bytes, state: ControlState) -> None:
        """Store a whole log in the place of what there is."""
        self.forget(tree)
        for entry in state.entries:
            self.put(tree, ControlEntry(entry.mark, entry.body, retain_above=state.floor))

    def forget(self, tree: bytes) -> None:
        """Drop what is kept of a stopped job's tree."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM controls WHERE tree = ?", (tree,))
            sql.execute("DELETE FROM control_entries WHERE tree = ?", (tree,))
