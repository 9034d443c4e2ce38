"""What this agent keeps for others on its disk: sealed snapshots without a verdict, and last checkpoints.

Rows stand for themselves: one that is damaged costs that copy, which is counted, said and dropped, and nothing else.
When to take a copy, and when to let it go, is `elf.agents.replication.holder`'s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from elf.agents.store.checksums import is_whole
from elf.agents.store.database import Database
from elf.agents.wire.copies import Keep, KeepCheckpoint

#: What others must leave of our disk: it is for our own work first.
ROOM_BYTES_MIN = 64 << 20


class HeldCheckpoint(NamedTuple):
    """A checkpoint that is kept here: whose, its number, since when (wall clock), and its size."""

    agent: str
    number: int
    kept_ms: int
    size_bytes: int


class HeldCopies:
    """Reads and writes copies in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(
        self, copies: Sequence[Keep | KeepCheckpoint], settled: Mapping[bytes, int], now_ms: int, oldest_ms: int
    ) -> bool:
        """Change everything in one transaction, durably; returns False if there was no room for the copies.

        Args:
            copies: to be kept; a checkpoint takes the place of the one before of the same source and address, an empty
                one leaves none.
            settled: tree -> up to which interval its snapshots are needed no more.
            now_ms: wall clock, which says when a checkpoint was kept.
            oldest_ms: checkpoints kept before this are dropped.
        """
        disk = os.statvfs(self._database.path.parent)
        room_bytes = disk.f_bavail * disk.f_frsize - ROOM_BYTES_MIN
        sizes = (len(copy.body if isinstance(copy, KeepCheckpoint) else copy.payload or b"") for copy in copies)
        has_room = sum(sizes) <= room_bytes
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM held_checkpoints WHERE kept_ms < ?", (oldest_ms,))
            for copy in copies if has_room else ():
                if isinstance(copy, KeepCheckpoint) and not copy.body:
                    place = (copy.source, copy.address)
                    sql.execute("DELETE FROM held_checkpoints WHERE source = ? AND address = ?", place)
                elif isinstance(copy, Keep):
                    sql.execute(
                        "INSERT OR REPLACE INTO held_snapshots "
                        "VALUES (?1, ?2, ?3, ?4, ?5, row_checksum(?1, ?2, ?3, ?4, ?5))",
                        (copy.tree, copy.agent, copy.since, copy.through, copy.payload),
                    )
                else:
                    sql.execute(
                        "INSERT OR REPLACE INTO held_checkpoints "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, row_checksum(?1, ?2, ?3, ?4, ?5, ?6))",
                        (copy.source, copy.address, copy.agent, copy.number, now_ms, copy.body),
                    )
            # Last: a verdict may have come while its snapshot waited to be written.
            sql.executemany("DELETE FROM held_snapshots WHERE tree = ? AND through <= ?", settled.items())
        return has_room

    def snapshots(self) -> list[Keep]:
        """Return all snapshots, those of an agent ascending; damaged ones are dropped."""
        good: list[Keep] = []
        damaged: list[tuple[int]] = []
        with self._database.transaction() as sql:
            for *row, rowid in sql.execute("SELECT *, rowid FROM held_snapshots ORDER BY tree, agent, through"):
                if is_whole(tuple(row)):
                    good.append(Keep(*row[:-1]))
                else:
                    damaged.append((rowid,))
            sql.executemany("DELETE FROM held_snapshots WHERE rowid = ?", damaged)
        self._note(len(damaged))
        return good

    def checkpoints(self) -> dict[tuple[str, str], HeldCheckpoint]:
        """Return what there is, by source and address; damaged ones are dropped. O(bytes)."""
        good: dict[tuple[str, str], HeldCheckpoint] = {}
        damaged: list[tuple[int]] = []
        with self._database.transaction() as sql:
            for *row, rowid in sql.execute("SELECT *, rowid FROM held_checkpoints"):
                if is_whole(tuple(row)):
                    source, address, agent, number, kept_ms, body, _checksum = row
                    good[source, address] = HeldCheckpoint(agent, number, kept_ms, len(body))
                else:
                    damaged.append((rowid,))
            sql.executemany("DELETE FROM held_checkpoints WHERE rowid = ?", damaged)
        self._note(len(damaged))
        return good

    def checkpoint(self, source: str, address: str) -> KeepCheckpoint | None:
        """Return the checkpoint of the agent at an address; None if there is none, or it is damaged."""
        query = "SELECT * FROM held_checkpoints WHERE source = ? AND address = ?"
        with self._database.transaction() as sql:
            row = sql.execute(query, (source, address)).fetchone()
        if row is None:
            return None
        if not is_whole(row):
            self._note(1)
            return None
        source, address, agent, number, _kept_ms, body, _checksum = row
        return KeepCheckpoint(source, address, agent, number, body)

    def _note(self, damaged: int) -> None:
        for _ in range(damaged):
            self._database.damages.note(
                "copy", f"{self._database.path}: a copy kept for another agent is damaged: it is not used"
            )
