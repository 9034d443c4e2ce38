"""What the worker side must not lose: read positions, open PAOs and sealed snapshots, in one transaction (DESIGN 3.4).

The rule: a position on disk never runs ahead of the PAOs on disk, nor behind them. Each checkpoint writes, together,
how far a source was read and everything that was made of the lines up to there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from elf.agents.completeness.lacks import NOTHING, Cause, Lacks
from elf.agents.completeness.runs import FOREVER, RunsAfter, RunsFrom
from elf.agents.store.checksums import verified
from elf.agents.worker.payload import Count
from elf.overlay.contract import NEVER
from elf.overlay.fields import Interval

if TYPE_CHECKING:  # a worker needs the records below, and no SQLite
    import sqlite3

    from elf.agents.host.disk_damage import Damages
    from elf.agents.store.database import Database


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one worker has come, in interval indexes."""

    #: Up to here an earlier agent on this machine, whose disk is lost, was counted, or this one before its disk was put
    #: back to an older state; None where that is not so.
    counted: Interval | None = None

    #: Last interval sealed; None before the first.
    sealed: Interval | None = None
    #: Last interval the master has settled, as far as we know.
    settled: Interval | None = None
    #: First interval we have all events of, until the master knows it; None when we read the source from its beginning.
    partial_before: Interval | None = None
    #: The newest version of the job that we count by, 0 before its first change; and what is to be told of versions:
    #: number -> first interval of which we count all our events by it.
    version: int = 0
    since: Mapping[int, Interval] = {}
    #: Runs of commits, (after, through], that went without us and whose data rides in our next snapshot.
    owed: RunsAfter = ()
    #: Runs of commits, (after, through], that name us and whose data the job drops, however late it comes.
    dropped: RunsAfter = ()
    #: Snapshots may have left that this checkpoint lacks (at-least-once).
    early: bool = False
    #: Intervals, (after, through], with data that this checkpoint lacks and no line will bring again (at-most-once).
    volatile: tuple[Interval, Interval] | None = None
    #: Such runs that a crash has lost, until the master knows it.
    lost: RunsAfter = ()
    #: Late events, lines that were no events, and runs of intervals, both ends included, in which lines may be lost,
    #: not reported in a snapshot yet.
    late: Count = 0
    rejected: Count = 0
    gaps: RunsFrom = ()

    def lacks(self, agent: str) -> Lacks:
        """Return what labels are to hear of the agent that this is the progress of."""
        if not (self.gaps or self.lost) and self.partial_before is None:
            return NOTHING
        began = () if self.partial_before is None else ((NEVER, self.partial_before - 1),)
        return Lacks.told({Cause.BEGAN: {agent: began}, Cause.CRASH: {agent: self.lost}}, self.gaps)

    def without_gone(self) -> Progress:
        """Forget what is gone for good: the master knows."""
        return msgspec.structs.replace(self, lost=())


class Snapshot(msgspec.Struct, frozen=True):
    """The sealed PAOs of one job up to and including interval `through`; payload None when there were none."""

    through: Interval
    payload: bytes | None


class WorkerState(msgspec.Struct, frozen=True):
    """One worker's part of a checkpoint.

    `tree` names the publication it works on, `open_block` holds its unsealed PAOs.
    """

    tree: bytes
    progress: Progress
    open_block: bytes
    sealed: Sequence[Snapshot] = ()


class SourceState(msgspec.Struct, frozen=True):
    """One source's part of a checkpoint: positions and counters as JSON, and the checkpoint's number."""

    source: str
    positions: bytes
    counters: bytes
    sequence: int


class Whole(msgspec.Struct, frozen=True):
    """A source's last checkpoint with all that is stored of its workers: what another agent keeps for this one."""

    source: SourceState
    workers: Sequence[WorkerState]


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
    _, progress, open_block = verified(row, "a job's open intervals")
    return WorkerState(tree, msgspec.json.decode(progress, type=Progress), open_block, _snapshots(sql, tree))


def _snapshots(
    sql: sqlite3.Connection, tree: bytes, after: int = NEVER, through: int = FOREVER
) -> tuple[Snapshot, ...]:
    query = "SELECT * FROM snapshots WHERE tree = ? AND through > ? AND through <= ? ORDER BY through"
    rows = sql.execute(query, (tree, after, through)).fetchall()
    return tuple(Snapshot(*verified(row, "a sealed snapshot")[1:]) for row in rows)
