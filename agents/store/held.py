"""What this agent keeps for others on its disk: sealed snapshots without a verdict, and last checkpoints.

Rows stand for themselves: one that is damaged costs that replica, which is counted, said and dropped, and nothing else.
When to take a replica, and when to let it go, is `elf.agents.replication.holder`'s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from elf.agents.store.checksums import is_whole
from elf.agents.store.database import Database
from elf.agents.wire.replicas import Keep, KeepCheckpoint
from elf.overlay.messages import Word

#: What others must leave of our disk: it is for our own work first.
ROOM_BYTES_MIN = 64 << 20


class HeldCheckpoint(NamedTuple):
    """A checkpoint that is kept here: whose, its number, since when (wall clock), and its size."""

    agent: str
    number: int
    kept_ms: int
    size_bytes: int


class HeldReplicas:
    """Reads and writes replicas in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(
        self, replicas: Sequence[Keep | KeepCheckpoint], settled: Mapping[bytes, int], now_ms: int, oldest_ms: int
    ) -> bool:
        """Change everything in one transaction, durably; returns False if there was no room for the replicas.

        Args:
            replicas: to be kept; a checkpoint takes the place of the one before of the same source and address, an
                empty one leaves none.
            settled: tree -> up to which interval its snapshots are needed no more.
            now_ms: wall clock, which says when a checkpoint was kept.
            oldest_ms: checkpoints kept before this are dropped.
        """
        disk = os.statvfs(self._database.path.parent)
        room_bytes = disk.f_bavail * disk.f_frsize - ROOM_BYTES_MIN
        sizes = (
            len(replica.body if isinstance(replica, KeepCheckpoint) else replica.payload or b"") for replica in replicas
        )
        has_room = sum(sizes) <= room_bytes
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM held_checkpoints WHERE kept_ms < ?", (oldest_ms,))
            for replica in replicas if has_room else ():
                if isinstance(replica, KeepCheckpoint) and not replica.body:
                    place = (replica.source, replica.address)
                    sql.execute("DELETE FROM held_checkpoints WHERE source = ? AND address = ?", place)
                elif isinstance(replica, Keep):
                    sql.execute(
                        "INSERT OR REPLACE INTO held_snapshots "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, row_checksum(?1, ?2, ?3, ?4, ?5, ?6))",
                        (
                            replica.tree,
                            replica.agent,
                            replica.since,
                            replica.through,
                            replica.payload,
                            _encoded(replica),
                        ),
                    )
                else:
                    sql.execute(
                        "INSERT OR REPLACE INTO held_checkpoints "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, row_checksum(?1, ?2, ?3, ?4, ?5, ?6))",
                        (replica.source, replica.address, replica.agent, replica.number, now_ms, replica.body),
                    )
            # Last: a verdict may have come while its snapshot waited to be written.
            sql.executemany("DELETE FROM held_snapshots WHERE tree = ? AND through <= ?", settled.items())
        return has_room

    def forget(self, agent: str) -> None:
        """Drop all that is kept of an agent."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM held_snapshots WHERE agent = ?", (agent,))
            sql.execute("DELETE FROM held_checkpoints WHERE agent = ?", (agent,))

    def snapshots(self) -> list[Keep]:
        """Return all snapshots, those of an agent ascending; damaged ones are dropped."""
        good: list[Keep] = []
        damaged: list[tuple[int]] = []
        with self._database.transaction() as sql:
            for *row, rowid in sql.execute("SELECT *, rowid FROM held_snapshots ORDER BY tree, agent, through"):
                if is_whole(tuple(row)):
                    tree, agent, since, through, payload, word, _checksum = row
                    said = None if word is None else msgspec.msgpack.decode(word, type=Word)
                    good.append(Keep(tree, agent, since, through, payload, said))
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


def _encoded(replica: Keep) -> bytes | None:
    """Return what a replica's agent has said of it, as it is kept."""
    return None if replica.word is None else msgspec.msgpack.encode(replica.word)
