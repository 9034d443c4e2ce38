"""What the worker side must not lose: read positions, open PAOs and sealed snapshots, in one transaction (DESIGN 3.4).

The rule: a position on disk never runs ahead of the PAOs on disk, nor behind them. Each checkpoint writes, together,
how far a source was read and everything that was made of the lines up to there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from elf.agents.completeness.runs import FOREVER
from elf.agents.store.checksums import DamagedError, verified
from elf.agents.worker.paos import with_tables
from elf.agents.worker.state import Progress, Snapshot, SourceState, Tables, Whole, WorkerState
from elf.overlay.contract import NEVER

if TYPE_CHECKING:  # a worker needs the records below, and no SQLite
    import sqlite3

    from elf.agents.host.disk_damage import Damages
    from elf.agents.store.database import Database


#: What a worker's row is called where it is damaged.
_OPEN = "a job's open intervals"


class Checkpoints:
    """Reads and writes checkpoints in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def damages(self) -> Damages:
        """What was found damaged on this disk."""
        return self._database.damages

    @property
    def predecessor(self) -> str | None:
        """The agent whose state was here before and was lost, if it is known."""
        return self._database.predecessor

    def write(self, source: SourceState | None, workers: Sequence[WorkerState]) -> None:
        """Make a checkpoint durable, all of it or nothing; snapshots that the workers know settled are dropped."""
        with self._database.transaction() as sql:
            if source is not None:
                row = (source.source, source.positions, source.counters, source.sequence)
                sql.execute("INSERT OR REPLACE INTO sources VALUES (?1, ?2, ?3, ?4, row_checksum(?1, ?2, ?3, ?4))", row)
            for worker in workers:
                progress = msgspec.json.encode(worker.progress)
                sql.execute(
                    "INSERT OR REPLACE INTO workers VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))",
                    (worker.tree, progress, worker.open_block),
                )
                if worker.tables is not None:
                    _write_tables(sql, worker.tree, worker.tables)
                settled = NEVER if worker.progress.settled is None else worker.progress.settled
                sql.execute("DELETE FROM snapshots WHERE tree = ? AND through <= ?", (worker.tree, settled))
                rows = [(worker.tree, snapshot.through, snapshot.payload) for snapshot in worker.sealed]
                sql.executemany("INSERT INTO snapshots VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))", rows)

    def snapshots(self, tree: bytes, after: int = NEVER, through: int = FOREVER) -> tuple[Snapshot, ...]:
        """Return a worker's stored snapshots with after < interval <= through, ascending.

        Like all methods that read, it raises DamagedError for what is not as it was written.
        """
        with self._database.transaction() as sql:
            return _snapshots(sql, tree, after, through)

    def forget(self, tree: bytes) -> None:
        """Drop all worker state of a stopped job."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM workers WHERE tree = ?", (tree,))
            sql.execute("DELETE FROM open_tables WHERE tree = ?", (tree,))
            sql.execute("DELETE FROM snapshots WHERE tree = ?", (tree,))

    def source(self, source: str) -> SourceState | None:
        """Return a source's last checkpoint."""
        with self._database.transaction() as sql:
            return _source(sql, source)

    def worker(self, tree: bytes) -> WorkerState | None:
        """Return a worker's last checkpoint with its unsettled snapshots, ascending."""
        with self._database.transaction() as sql:
            return _worker(sql, tree)

    def whole(self, source: str, trees: Sequence[bytes]) -> Whole | None:
        """Return a source's last checkpoint with the workers of these trees, all as of the same moment."""
        with self._database.transaction() as sql:
            place = _source(sql, source)
            workers = [worker for tree in trees if (worker := _worker(sql, tree)) is not None]
        return Whole(place, workers) if place is not None else None


def _source(sql: sqlite3.Connection, source: str) -> SourceState | None:
    row = sql.execute("SELECT * FROM sources WHERE source = ?", (source,)).fetchone()
    return SourceState(*verified(row, f"the read position of source {source}")) if row else None


def _worker(sql: sqlite3.Connection, tree: bytes) -> WorkerState | None:
    row = sql.execute("SELECT * FROM workers WHERE tree = ?", (tree,)).fetchone()
    if row is None:
        return None
    _, progress, open_block = verified(row, _OPEN)
    open_block = with_tables(open_block, functools.partial(_table, sql, tree))
    return WorkerState(tree, msgspec.json.decode(progress, type=Progress), open_block, _snapshots(sql, tree))


def _write_tables(sql: sqlite3.Connection, tree: bytes, tables: Tables) -> None:
    known = sql.execute("SELECT number FROM open_tables WHERE tree = ?", (tree,)).fetchall()
    gone = [(tree, number) for (number,) in known if number not in tables.numbers]
    sql.executemany("DELETE FROM open_tables WHERE tree = ? AND number = ?", gone)
    rows = [(tree, number, block) for number, block in tables.new.items()]
    sql.executemany("INSERT OR REPLACE INTO open_tables VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))", rows)


def _table(sql: sqlite3.Connection, tree: bytes, number: int) -> bytes:
    row = sql.execute("SELECT * FROM open_tables WHERE tree = ? AND number = ?", (tree, number)).fetchone()
    if row is None:
        raise DamagedError(f"{_OPEN}: a part of them is not there")
    return bytes(verified(row, _OPEN)[2])


def _snapshots(
    sql: sqlite3.Connection, tree: bytes, after: int = NEVER, through: int = FOREVER
) -> tuple[Snapshot, ...]:
    query = "SELECT * FROM snapshots WHERE tree = ? AND through > ? AND through <= ? ORDER BY through"
    rows = sql.execute(query, (tree, after, through)).fetchall()
    return tuple(Snapshot(*verified(row, "a sealed snapshot")[1:]) for row in rows)
